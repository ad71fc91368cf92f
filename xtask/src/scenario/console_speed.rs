//! [console-speed] Every list, filter and count of the console beside a long history and many parked rows.
//!
//! What is asked is warm, as it is for whoever looks twice. The server counts the scans of whole tables by itself. The
//! same questions to a fiftieth of the rows tell what grows.

use postrider_testkit::servers::TestDatabase;

use super::account::Report;
use super::outcome::Outcome;
use super::pg_measure::Measure;
use super::stage::Stage;
use crate::failure::{Failure, Result};

const P95_MS: f64 = 200.0;

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let sent = stage.size(5_000_000_u64, 100_000);
    let parked = stage.size(100_000_u64, 10_000);
    let measure = Measure::new(stage)?;
    let few = measure.database()?;
    fill(&measure, &few, sent / 50, parked / 50);
    let small = measure.run(&few, &["--history", "console"])?;
    measure.done(&few);
    let many = measure.database()?;
    stage.note(&format!("writing {sent} published and {parked} parked"));
    fill(&measure, &many, sent, parked);
    let before = scans(&measure, &many)?;
    let large = measure.run(&many, &["--history", "console"])?;
    let scans = scans(&measure, &many)? - before;

    let figure = |of: &serde_json::Value, name: &str| {
        let value = of[name].as_f64();
        value.ok_or_else(|| Failure::new(format!("there is no {name} in {of}")))
    };
    let mut outcome = Outcome::of(Report::default());
    for name in ["worst_p95_ms", "stats_p95_ms", "groups_p95_ms"] {
        let value = figure(&large, name)?;
        outcome.bounded(name, value, value <= P95_MS, "at most 200");
    }
    outcome.figure("worst", large["worst"].clone());
    outcome.figure("filters", large["filters"].clone());
    outcome.figure("partial", large["partial"].clone());
    outcome.figure(
        "growth",
        figure(&large, "median_ms")? / figure(&small, "median_ms")?,
    );
    outcome.figure("seq_scans", scans);
    outcome.check(scans == 0, || format!("tables were scanned {scans} times"));
    Ok(outcome)
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
fn fill(measure: &Measure<'_>, database: &TestDatabase, sent: u64, parked: u64) {
    let history = format!(
        "DO $$ DECLARE part text; BEGIN FOR back IN 2..8 LOOP
             part := to_char((now() AT TIME ZONE 'UTC')::date - back, 'YYYYMMDD');
             EXECUTE format('CREATE TABLE outbox_sent_%s (LIKE outbox_sent)', part);
             EXECUTE format('ALTER TABLE outbox_sent ATTACH PARTITION outbox_sent_%s FOR VALUES FROM (%L) TO (%L)',
                 part, (part::date)::timestamp AT TIME ZONE 'UTC', (part::date + 1)::timestamp AT TIME ZONE 'UTC');
         END LOOP; END $$;
         INSERT INTO outbox_sent (seq, destination, event_id, event_type, aggregate_type, aggregate_id, payload,
             enqueued_at, outcome, published_at)
         SELECT n, 'd' || n % 3, 'sent-' || n, CASE WHEN n % 100000 = 7 THEN 'Rare' ELSE 'Type' || n % 20 END, 'ORDER',
             (n % 50000)::text, '{{\"pad\":\"' || repeat('x', 180) || '\"}}', at, 'published', at
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
        &history,
        &rows,
        "VACUUM ANALYZE outbox_sent",
        "VACUUM ANALYZE outbox_parked",
        "CHECKPOINT",
    ] {
        measure.server.sql(&database.name, sql);
    }
}
