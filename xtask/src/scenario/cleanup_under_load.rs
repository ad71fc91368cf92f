//! [cleanup-under-load] A million old rows of the history are removed while 16 connections insert one event a
//! transaction and a relay publishes them.
//!
//! Slices with and without cleaning take turns, and each is compared with its neighbour: a machine that gets slower
//! meanwhile must not look like a cost of the cleaning.

use std::time::Duration;

use postrider_testkit::servers::TestDatabase;

use super::account::Report;
use super::outcome::Outcome;
use super::pg_measure::{Measure, median};
use super::stage::Stage;
use crate::failure::{Failure, Result};

const RATIO: f64 = 2.0;
const PATIENCE: Duration = Duration::from_secs(120);

/// Rows are older than this, and those that the relay publishes meanwhile are not.
const TERM: &str = "7200";

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let old = stage.size(1_000_000_u64, 20_000);
    let (turns, seconds) = (stage.size(8, 1), stage.size("5", "1"));
    let measure = Measure::new(stage)?;
    let database = measure.database()?;
    stage.note(&format!("writing {old} old rows"));
    fill(&measure, &database, old);
    let relay = measure.start(&database, &["relay", "--history"])?;
    let (mut with, mut without, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..turns {
        let first = slice(&measure, &database, seconds, turn % 2 == 1)?;
        let second = slice(&measure, &database, seconds, turn % 2 == 0)?;
        let (calm, cleaning) = if turn % 2 == 0 {
            (first, second)
        } else {
            (second, first)
        };
        stage.note(&format!("p99 {calm:.1} ms, with cleaning {cleaning:.1} ms"));
        without.push(calm);
        with.push(cleaning);
        ratios.push(cleaning / calm);
    }
    // What the slices left, at the same pace.
    while left(&measure, &database)? > 0 {
        measure.run(&database, &["--history", "purge", "--seconds", TERM])?;
    }
    relay.finish(PATIENCE)?;
    let removed = old - left(&measure, &database)?;
    let parked = count(&measure, &database, "SELECT count(*) FROM outbox_parked")?;
    let lost = count(
        &measure,
        &database,
        "SELECT (SELECT count(*) FROM inserted) - (SELECT count(*) FROM outbox) - (SELECT count(*) FROM outbox_sent)",
    )?;

    let ratio = median(ratios);
    let mut outcome = Outcome::of(Report::default());
    outcome.bounded("p99_ratio", ratio, ratio <= RATIO, "at most 2");
    outcome.figure("p99_ms", median(with));
    outcome.figure("p99_ms_without", median(without));
    outcome.figure("removed", removed);
    outcome.figure("queued_touched", lost);
    outcome.figure("parked_touched", 10 - parked.min(10));
    outcome.check(removed == old, || {
        format!("{removed} of {old} old rows were removed")
    });
    outcome.check(parked == 10, || format!("{parked} of 10 parked rows are left"));
    outcome.check(lost == 0, || {
        format!("{lost} new events are neither queued nor published")
    });
    Ok(outcome)
}

/// Producers for a while; the slow end of their inserts, in milliseconds.
fn slice(measure: &Measure<'_>, database: &TestDatabase, seconds: &str, cleaning: bool) -> Result<f64> {
    let purge = match cleaning {
        true => Some(measure.start(database, &["--history", "purge", "--seconds", TERM])?),
        false => None,
    };
    let figures = measure.run(database, &["insert", "--clients", "16", "--seconds", seconds])?;
    if let Some(purge) = purge {
        purge.finish(PATIENCE)?;
    }
    figures["p99_ms"]
        .as_f64()
        .ok_or_else(|| Failure::new(format!("there is no p99 in {figures}")))
}

/// Old history of today, so that it goes row by row, ten parked rows, and a count of what is inserted from now on.
fn fill(measure: &Measure<'_>, database: &TestDatabase, rows: u64) {
    let old = format!(
        "INSERT INTO outbox_sent (seq, destination, event_id, event_type, aggregate_type, aggregate_id, payload,
             enqueued_at, outcome, published_at)
         SELECT n, 'only', 'old-' || n, 'OrderCreated', 'ORDER', (n % 5000)::text,
             '{{\"pad\":\"' || repeat('x', 220) || '\"}}', now() - interval '3 hours', 'published',
             now() - interval '3 hours'
         FROM generate_series(1, {rows}) n;
         SELECT setval('outbox_seq', {rows} + 100);
         INSERT INTO outbox_parked (seq, destination, shard, lane, order_key, line, event_id, event_type,
             aggregate_type, aggregate_id, payload, version, dead, next_attempt_at, attempts, failures, maybe_sent,
             enqueued_at, updated_at)
         SELECT {rows} + n, 'only', 0, 0, 'P' || n, md5('P' || n)::uuid, 'parked-' || n, 'OrderCreated', 'ORDER',
             'P' || n, '{{}}', 1, true, now(), 0, 1, false, now() - interval '3 hours', now()
         FROM generate_series(1, 10) n;
         CREATE TABLE inserted (id bigint);
         CREATE FUNCTION inserted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO inserted SELECT n.seq FROM new_rows n; RETURN NULL; END $$;
         CREATE TRIGGER inserted AFTER INSERT ON outbox REFERENCING NEW TABLE AS new_rows
             FOR EACH STATEMENT EXECUTE FUNCTION inserted()"
    );
    for sql in [&old, "VACUUM ANALYZE outbox_sent", "CHECKPOINT"] {
        measure.server.sql(&database.name, sql);
    }
}

fn left(measure: &Measure<'_>, database: &TestDatabase) -> Result<u64> {
    count(
        measure,
        database,
        "SELECT count(*) FROM outbox_sent WHERE event_id LIKE 'old-%'",
    )
}

fn count(measure: &Measure<'_>, database: &TestDatabase, sql: &str) -> Result<u64> {
    let text = measure.server.sql(&database.name, sql);
    text.trim()
        .parse()
        .map_err(|_| Failure::new(format!("{text:?} is not a number")))
}
