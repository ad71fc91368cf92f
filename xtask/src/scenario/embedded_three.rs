//! [embedded-three] Three relays in one process share store, sink and token; all return when the token is cancelled.

use std::time::{Duration, Instant};

use super::outcome::Outcome;
use super::pair::{Pair, Setup};
use super::stage::Stage;
use super::wait::until_every;
use crate::failure::Result;

const RELAYS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(300);
/// How long the relays may take to drain, release and return.
const RETURN_LIMIT: Duration = Duration::from_secs(10);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let events = stage.size(100_000, 10_000);
    let pair = Pair::open(stage, &Setup::default())?;
    let consumer = pair.consumer()?;
    let service = pair.embedded(RELAYS)?;
    wait_until_shared(&pair)?;
    pair.fill("order", events, 1_000)?;
    let began = Instant::now();
    let settled = pair.settled(PATIENCE);
    let rate = events as f64 / began.elapsed().as_secs_f64();
    stage.note(&format!("{rate:.0} events/s"));
    let cancelled = Instant::now();
    let printed = service.finish(RETURN_LIMIT)?;
    let return_s = cancelled.elapsed().as_secs_f64();
    pair.consumed(consumer)?;

    let published: Vec<u64> = printed.lines().filter_map(|line| line.parse().ok()).collect();
    let owned = pair
        .database()
        .number("SELECT count(*) FROM outbox_shard WHERE owner IS NOT NULL")?;
    let report = pair.account()?;
    let duplicates = report.duplicates;
    let mut outcome = Outcome::of(report);
    outcome.went_well(settled);
    outcome.check(
        published.len() == RELAYS && published.iter().all(|count| *count > 0),
        || format!("{RELAYS} relays must return, each with its share; they published {published:?}"),
    );
    outcome.check(published.iter().sum::<u64>() == events, || {
        format!("{published:?} is not {events} together")
    });
    outcome.check(owned == 0, || format!("{owned} shards were not released"));
    outcome.check(duplicates == 0, || {
        format!("{duplicates} events were published twice")
    });
    outcome.figure("relays", RELAYS);
    outcome.figure("published", published);
    outcome.figure("duplicates", duplicates);
    outcome.bounded("return_s", return_s, true, "anything");
    outcome.figure("events_per_s", rate as u64);
    Ok(outcome)
}

/// The first relay takes every shard and gives up what is over its share; only then is there work for each.
fn wait_until_shared(pair: &Pair<'_>) -> Result<()> {
    let shares =
        "SELECT count(*) FROM (SELECT FROM outbox_shard GROUP BY owner HAVING count(*) >= 16) shares";
    until_every(
        Duration::from_millis(50),
        "each relay has its share",
        PATIENCE,
        || Ok((pair.database().number(shares)? == RELAYS as u64).then_some(())),
    )
}
