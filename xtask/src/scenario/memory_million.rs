//! [memory-million] A million queued rows are drained to RabbitMQ by a relay that stays small.

use std::time::{Duration, Instant};

use super::outcome::Outcome;
use super::pair::{Pair, Setup};
use super::stage::Stage;
use super::wait::until_every;
use crate::failure::Result;

const KEYS: u64 = 1_000;
/// Orders of one transaction when filling.
const FILL: u64 = 50_000;
const PEAK_LIMIT_MIB: u64 = 100;
const PATIENCE: Duration = Duration::from_secs(1_800);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let rows: u64 = stage.size(1_000_000, 20_000);
    let pair = Pair::open(stage, &Setup::default())?;
    stage.note(&format!("queueing {rows} events"));
    let names: Vec<String> = (0..rows.div_ceil(FILL))
        .map(|part| format!("p{part:02}"))
        .collect();
    for name in &names {
        pair.fill(name, FILL.min(rows), KEYS)?;
    }
    pair.database().execute("ANALYZE outbox")?;
    let consumer = pair.consumer()?;
    let mut relay = pair.relay("relay-1")?;
    let wait_for = |what: &str, wanted: fn(u64, u64) -> bool| {
        until_every(Duration::from_millis(50), what, PATIENCE, || {
            let sent = pair
                .database()
                .number("SELECT coalesce(sum(published), 0)::bigint FROM outbox_counter")?;
            Ok(wanted(sent, rows).then(|| (Instant::now(), sent)))
        })
    };
    // Starting the process and taking the lease are no part of the rate.
    let (began, before) = wait_for("the first event is out", |sent, _| sent > 0)?;
    let (ended, after) = wait_for("everything is out", |sent, rows| sent >= rows)?;
    relay.expect_alive()?;
    let peak = relay.peak_rss_mib();
    let events_per_s = (after - before) as f64 / ended.duration_since(began).as_secs_f64();
    stage.note(&format!("drained: {events_per_s:.0} events a second"));
    let settled = pair.settled(PATIENCE);
    relay.terminate()?;
    pair.consumed(consumer)?;

    let mut outcome = Outcome::of(pair.account()?);
    outcome.went_well(settled);
    outcome.figure("peak_rss_mib", peak);
    outcome.check(peak.is_some_and(|peak| peak < PEAK_LIMIT_MIB), || {
        format!("{peak:?} MiB resident, it must be below {PEAK_LIMIT_MIB}")
    });
    outcome.figure("events_per_s", events_per_s as u64);
    Ok(outcome)
}
