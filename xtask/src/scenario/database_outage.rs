//! [database-outage] PostgreSQL is stopped under load; service and relays find back by themselves.

use std::thread;
use std::time::{Duration, Instant};

use super::outcome::Outcome;
use super::pair::{Load, Pair, Setup};
use super::shop::now_us;
use super::stage::Stage;
use super::wait::until;
use crate::failure::Result;

const RESUME_LIMIT_S: f64 = 5.0;
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let outage = stage.size(Duration::from_secs(30), Duration::from_secs(3));
    let (before, after) = stage.size((10_000, 10_000), (2_000, 1_000));
    let pair = Pair::open(stage, &Setup::default())?;
    let consumer = pair.consumer()?;
    let mut relays = [pair.relay("relay-1")?, pair.relay("relay-2")?];
    let producer = pair.producer(&Load {
        rate: 1_000,
        ..Load::default()
    })?;
    pair.wait_for_orders(before)?;
    stage.note("stopping PostgreSQL");
    let began = Instant::now();
    pair.postgres().stop()?;
    // An outage has a length: there is no condition to wait for.
    thread::sleep(outage);
    let mut arrivals = pair.arrivals()?;
    pair.postgres().start_again()?;
    let (back, outage_s) = (now_us(), began.elapsed().as_secs_f64());
    let first = until("something arrives again", PATIENCE, || {
        Ok(arrivals.next()?.first().and_then(|arrived| arrived.at_us))
    })?;
    let resume_s = first.saturating_sub(back) as f64 / 1e6;
    stage.note(&format!(
        "PostgreSQL is back; publishing again after {resume_s:.1} s"
    ));
    pair.wait_for_orders(before + after)?;
    let counts = pair.stop_producing(producer)?;
    let settled = pair.settled(PATIENCE);
    for relay in &mut relays {
        relay.expect_alive()?;
    }
    for relay in relays {
        relay.terminate()?;
    }
    pair.consumed(consumer)?;

    let report = pair.account()?;
    let duplicates = report.duplicates;
    let mut outcome = Outcome::of(report);
    outcome.went_well(settled);
    outcome.figure("outage_s", (outage_s * 10.0).round() / 10.0);
    outcome.bounded("resume_s", resume_s, resume_s <= RESUME_LIMIT_S, "at most 5");
    outcome.figure("duplicates", duplicates);
    outcome.figure("rolled_back", counts.rolled_back);
    Ok(outcome)
}
