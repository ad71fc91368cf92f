//! [late-commits] Writers take turns on a row lock per key and some hold their transaction open, so that rows become
//! visible long after later ones; an unrelated transaction is open all the time.
//!
//! 64 customers at 1,000 orders a second: a customer's turn comes every 64 ms, and a transaction that is held stays
//! open for 20 ms, so whoever comes next often waits for it and inserts the moment it commits. Most shards have two
//! customers or more, so that a late row has later neighbours. The rate is one that service, database, relay, broker
//! and consumer keep up with on two cores: what is measured is the relay, not a queue in front of it.

use std::time::Duration;

use super::outcome::Outcome;
use super::pair::{Load, Pair, Setup};
use super::percentiles::Percentiles;
use super::stage::Stage;
use crate::failure::Result;

const WRITERS: u64 = 64;
const CUSTOMERS: u64 = 64;
const RATE: u64 = 1_000;
/// Has no divisor in common with the customers, so that each of them is held at times.
const HOLD_EVERY: u64 = 7;
const P99_LIMIT_MS: f64 = 250.0;
const PATIENCE: Duration = Duration::from_secs(600);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let events = stage.size(200_000, 8_000);
    let pair = Pair::open(stage, &Setup::default())?;
    let unrelated = pair.connection();
    unrelated.execute("CREATE TABLE unrelated (n bigint)")?;
    unrelated.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; INSERT INTO unrelated VALUES (1)")?;
    let consumer = pair.consumer()?;
    let relay = pair.relay("relay-1")?;
    let producer = pair.producer(&Load {
        events: Some(events),
        keys: CUSTOMERS,
        connections: WRITERS,
        rate: RATE,
        hold_every: HOLD_EVERY,
        hold_ms: 20,
        ..Load::default()
    })?;
    let counts = pair.produced(producer, PATIENCE)?;
    let settled = pair.settled(PATIENCE);
    // Nobody but that transaction sees its row: it was open to the end only if the row is still there for it.
    let open_to_the_end = unrelated.number("SELECT count(*) FROM unrelated")? == 1;
    unrelated.execute("ROLLBACK")?;
    relay.terminate()?;
    pair.consumed(consumer)?;

    let latencies = Percentiles::of(pair.latencies()?.iter().map(|(_, took)| *took).collect())?;
    let left_behind = pair.waiting()?;
    let report = pair.account()?;
    let duplicates = report.duplicates;
    let mut outcome = Outcome::of(report);
    outcome.went_well(settled);
    outcome.check(counts.committed >= events, || {
        format!("{} orders were taken, not {events}", counts.committed)
    });
    outcome.check(open_to_the_end, || {
        "the unrelated transaction had ended".to_owned()
    });
    outcome.check(latencies.count as u64 >= counts.committed, || {
        format!("{} of {} latencies are known", latencies.count, counts.committed)
    });
    outcome.figure("left_behind", left_behind.0 + left_behind.1);
    outcome.check(left_behind == (0, 0), || format!("left behind: {left_behind:?}"));
    outcome.bounded("p50_ms", latencies.p50, true, "anything");
    outcome.bounded("p99_ms", latencies.p99, latencies.p99 < P99_LIMIT_MS, "below 250");
    outcome.figure("writers", WRITERS);
    outcome.figure("rate", RATE);
    outcome.figure("duplicates", duplicates);
    outcome.figure("rolled_back", counts.rolled_back);
    Ok(outcome)
}
