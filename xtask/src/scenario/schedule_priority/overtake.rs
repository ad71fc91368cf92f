//! High events beside a million others.

use std::thread;
use std::time::Duration;

use crate::failure::Result;
use crate::scenario::operated::{Operated, Written};
use crate::scenario::percentiles::Percentiles;
use crate::scenario::stage::Stage;
use crate::scenario::wait::{until, until_every};
use crate::scenario::watch::Watch;

const PATIENCE: Duration = Duration::from_secs(120);
/// Rows of one statement when the backlog is made.
const FILL: u64 = 100_000;
const KEYS: u64 = 5_000;
/// Between two high events: short enough for the backlog to outlast all of them where it leaves at 100,000 a second.
const BETWEEN: Duration = Duration::from_millis(37);
/// Between two looks at the status, which starts a process.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long high events took, in milliseconds.
pub(super) struct Overtaken {
    pub(super) times: Percentiles,
    pub(super) worst: f64,
    /// What the database alone took of that, for the commit of their inserts.
    pub(super) commits: Percentiles,
    /// How long the inserts waited for other writers before, where one writes at a time.
    pub(super) waits: Percentiles,
    /// What was queued before the first and behind the last of them.
    pub(super) before: u64,
    pub(super) after: u64,
}

/// High events, one after the other, while a relay drains normal and low ones.
pub(super) fn play(stage: &Stage, store: &'static str) -> Result<Overtaken> {
    let (backlog, tries) = stage.size((1_000_000, 200), (100_000, 10));
    let outbox = Operated::open_routed(stage, store, &format!("{store}-overtake"), &["BULK", "URGENT"])?;
    stage.note(&format!("{store}: queueing {backlog} events"));
    fill(&outbox, store, backlog)?;
    let before = outbox.number(QUEUED)?;
    let watch = outbox.watch("URGENT");
    let relay = outbox.start(&["run"])?;
    until_every(LOOK_EVERY, "the drain has begun", PATIENCE, || {
        let status = outbox.values(&["status"])?.pop().unwrap_or_default();
        Ok((status["published"].as_u64() > Some(0)).then_some(()))
    })?;
    // The first of them only finds out that whoever watches is there.
    overtake(&outbox, &watch, 0)?;
    let (mut times, mut commits, mut waits) = (Vec::new(), Vec::new(), Vec::new());
    for n in 1..=tries {
        let (arrived_us, written) = overtake(&outbox, &watch, n)?;
        let took = |until_us: u64| until_us.saturating_sub(written.began_us) as f64 / 1_000.0;
        times.push(took(arrived_us));
        commits.push(took(written.committed_us));
        waits.push(written.waited_us as f64 / 1_000.0);
        // So that each meets the relay at another moment of its work.
        thread::sleep(BETWEEN);
    }
    let after = outbox.number(QUEUED)?;
    relay.kill()?;
    let worst = times.iter().copied().fold(0.0, f64::max);
    stage.note(&format!("{store}: overtaken in {times:.1?} ms, {after} are left"));
    Ok(Overtaken {
        times: Percentiles::of(times)?,
        worst,
        commits: Percentiles::of(commits)?,
        waits: Percentiles::of(waits)?,
        before,
        after,
    })
}

const QUEUED: &str = "SELECT count(*) FROM outbox";

/// One high event: when it arrived, in microseconds since 1970, and when it was inserted.
fn overtake(outbox: &Operated<'_>, watch: &Watch, n: u64) -> Result<(u64, Written)> {
    let id = format!("u-{n:03}");
    let written = outbox.insert(&format!(
        "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, priority)
         VALUES ('{id}', 'T', 'URGENT', '{n}', 1)"
    ))?;
    let seen = until("a high event has overtaken the others", PATIENCE, || {
        Ok(watch.newest(&id))
    })?;
    Ok((seen.at_us, written))
}

/// Queues normal and low events in turn.
fn fill(outbox: &Operated<'_>, store: &str, events: u64) -> Result<()> {
    for from in (0..events).step_by(FILL as usize) {
        let to = (from + FILL).min(events);
        let numbers = match store {
            "postgres" => format!("FROM generate_series({from}, {to} - 1) n"),
            _ => format!(
                "FROM (WITH RECURSIVE s(n) AS (SELECT {from} UNION ALL SELECT n + 1 FROM s WHERE n + 1 < {to})
                 SELECT n FROM s)"
            ),
        };
        let pad = "x".repeat(200);
        outbox.sql(&format!(
            "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload, priority)
             SELECT 'b-' || n, 'T', 'BULK', 'k' || (n % {KEYS}), '{{\"pad\":\"{pad}\"}}', -(n / {KEYS} % 2) {numbers}"
        ))?;
    }
    // What the relay meets is a database at rest.
    let rest = match store {
        "postgres" => "VACUUM ANALYZE outbox;\nCHECKPOINT",
        _ => "PRAGMA wal_checkpoint(TRUNCATE)",
    };
    outbox.sql(rest).map(drop)
}
