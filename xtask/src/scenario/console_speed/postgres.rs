//! A PostgreSQL that syncs, with a history in days.

use postrider_testkit::servers::TestDatabase;

use super::{Asked, Size, times};
use crate::failure::{Failure, Result};
use crate::scenario::pg_measure::{Measure, days_of_history};
use crate::scenario::stage::Stage;

/// Asks beside few rows and beside all of them.
pub(super) fn ask(stage: &Stage, size: Size) -> Result<Asked> {
    let measure = Measure::new(stage)?;
    let small = measure.database()?;
    fill(&measure, &small, size.few());
    let few = measure.run(&small, &["--history", "console", "--times", times(stage)])?;
    measure.done(&small);
    let large = measure.database()?;
    stage.note(&format!(
        "postgres: writing {} published and {} parked",
        size.sent, size.parked
    ));
    fill(&measure, &large, size);
    let before = scans(&measure, &large)?;
    let all = measure.run(&large, &["--history", "console", "--times", times(stage)])?;
    let scans = scans(&measure, &large)? - before;
    let scanned = (scans != 0).then(|| format!("tables were scanned {scans} times"));
    Ok(Asked { few, all, scanned })
}

/// Scans of whole tables that the server has counted, of those that grow.
fn scans(measure: &Measure<'_>, database: &TestDatabase) -> Result<i64> {
    // A session reports what it did within a second of its end.
    let sql = "SELECT pg_sleep(2); SELECT coalesce(sum(seq_scan), 0) FROM pg_stat_user_tables
         WHERE relname LIKE 'outbox_sent%' OR relname IN ('outbox', 'outbox_parked')";
    let text = measure.server.sql(&database.name, sql);
    let last = text.lines().last().unwrap_or_default();
    let number = last.trim().parse();
    number.map_err(|_| Failure::new(format!("{text:?} is not a number of scans")))
}

/// History of eight days, and parked rows: nine of ten wait behind 500 heads, the rest is dead or retrying in 20
/// groups.
fn fill(measure: &Measure<'_>, database: &TestDatabase, Size { sent, parked }: Size) {
    let history = format!(
        "INSERT INTO outbox_sent (seq, destination, event_id, event_type, aggregate_type, aggregate_id, payload,
             enqueued_at, outcome, published_at)
         SELECT n, 'd' || n % 3, 'sent-' || n,
             CASE WHEN n % 100000 = 7 THEN 'Rare' WHEN n % 10 = 3 AND n < {sent} / 2 THEN 'Retired'
                  ELSE 'Type' || n % 20 END,
             'ORDER', CASE n % 700 WHEN 11 THEN 'common' ELSE (n % 50000)::text END,
             '{{\"pad\":\"' || repeat('x', 180) || '\"}}', at, 'published', at
         FROM (SELECT n, now() - interval '7 days' + n * interval '7 days' / {sent} AS at
               FROM generate_series(1, {sent}) n) s;
         SELECT setval('outbox_seq', {sent} + {parked} + 1)"
    );
    let rows = format!(
        "INSERT INTO outbox_parked (seq, destination, shard, lane, order_key, line, event_id, event_type,
             aggregate_type, aggregate_id, event_key, payload, version, dead, next_attempt_at, attempts, failures,
             maybe_sent, error_kind, error_text, error_group, first_failed_at, last_failed_at, enqueued_at, updated_at)
         SELECT {sent} + n, 'd1', hashtext(key) & 63, 0, key, md5(key)::uuid, 'parked-' || n, 'Type' || n % 20, 'LINE',
             key, key, '{{\"pad\":\"' || repeat('x', 180) || '\"}}', 1, n % 20 = 0,
             now() + CASE n % 20 WHEN 1 THEN interval '1 hour' ELSE interval '0' END, 0, (n % 20 < 2)::integer, false,
             CASE WHEN n % 20 < 2 THEN 'rejected' END, CASE WHEN n % 20 < 2 THEN 'failure number ' || n / 20 % 20 END,
             CASE WHEN n % 20 < 2 THEN 'group' || n / 20 % 20 END,
             CASE WHEN n % 20 < 2 THEN now() - interval '1 hour' END,
             CASE WHEN n % 20 < 2 THEN now() END, now() - interval '2 hours', now()
         FROM (SELECT n, 'LINE/' || CASE WHEN n % 20 < 2 THEN 1000 + n ELSE n % 500 END AS key
               FROM generate_series(1, {parked}) n) p"
    );
    for sql in [
        &days_of_history(2, 8),
        &history,
        &rows,
        "VACUUM ANALYZE outbox_sent",
        "VACUUM ANALYZE outbox_parked",
        "CHECKPOINT",
    ] {
        measure.server.sql(&database.name, sql);
    }
}
