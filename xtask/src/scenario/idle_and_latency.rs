//! [idle-and-latency] What a relay asks of the database while nothing happens, and how fast it is when little does.

use std::thread;
use std::time::{Duration, Instant};

use super::outcome::Outcome;
use super::pair::{Load, Pair, Setup, Way};
use super::percentiles::Percentiles;
use super::stage::Stage;
use super::wait::until_every;
use crate::failure::Result;

/// The user of the relay, so that its statements are told apart from ours.
const RELAY: &str = "relay";
const RATE: u64 = 500;
const STATEMENTS_LIMIT: f64 = 2.0;
const P50_LIMIT_MS: f64 = 5.0;
const PATIENCE: Duration = Duration::from_secs(120);
/// Statements of the relay so far.
const COUNT: &str =
    "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements JOIN pg_roles r ON r.oid = userid
    WHERE rolname = 'relay'";

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let idle = stage.size(Duration::from_secs(60), Duration::from_secs(5));
    let events = stage.size(15_000, 1_500);
    let pair = Pair::open(stage, &Setup::default())?;
    pair.database()
        .execute("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")?;
    pair.postgres().restart()?;
    pair.database().execute("CREATE EXTENSION pg_stat_statements")?;
    let consumer = pair.consumer()?;
    let way = Way {
        user: Some(RELAY),
        ..Way::default()
    };
    let relay = pair.relay_by("relay-1", &way)?;
    pair.fill("before", 100, 10)?;
    pair.settled(PATIENCE)?;
    let statements = wait_until_asleep(&pair)?;
    stage.note(&format!("idle after {statements} statements"));
    let (began, before) = (Instant::now(), pair.database().number(COUNT)?);
    // Doing nothing has a length: there is no condition to wait for.
    thread::sleep(idle);
    let made = pair.database().number(COUNT)? - before;
    let per_s = made as f64 / began.elapsed().as_secs_f64();

    let producer = pair.producer(&Load {
        events: Some(events),
        rate: RATE,
        rollback_every: 0,
        ..Load::default()
    })?;
    let counts = pair.produced(producer, PATIENCE)?;
    let settled = pair.settled(PATIENCE);
    relay.terminate()?;
    pair.consumed(consumer)?;

    let latencies = Percentiles::of(pair.latencies()?.iter().map(|(_, took)| *took).collect())?;
    let mut outcome = Outcome::of(pair.account()?);
    outcome.went_well(settled);
    outcome.check(latencies.count as u64 >= counts.committed, || {
        format!("{} of {} latencies are known", latencies.count, counts.committed)
    });
    outcome.figure("idle_s", idle.as_secs());
    // A relay that asks nothing at all is not awake enough to renew its lease.
    let holds = made > 0 && per_s <= STATEMENTS_LIMIT;
    outcome.bounded("idle_statements_per_s", per_s, holds, "above 0 and at most 2");
    outcome.bounded(
        "p50_ms",
        latencies.p50,
        latencies.p50 <= P50_LIMIT_MS,
        "at most 5",
    );
    outcome.bounded("p99_ms", latencies.p99, true, "anything");
    outcome.figure("rate", RATE);
    Ok(outcome)
}

/// A relay that has just worked polls faster for a while: it is idle when a second brought few statements.
fn wait_until_asleep(pair: &Pair<'_>) -> Result<u64> {
    let mut before = None;
    until_every(Duration::from_secs(1), "the relay sleeps", PATIENCE, || {
        let now = pair.database().number(COUNT)?;
        let few = before.replace(now).is_some_and(|before| now - before <= 10);
        Ok(few.then_some(now))
    })
}
