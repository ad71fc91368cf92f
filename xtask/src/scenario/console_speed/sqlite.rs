//! A file with the same rows.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Asked, Size, times};
use crate::cargo::release_binary;
use crate::failure::{Doing, Failure, Result};
use crate::scenario::operated::Operated;
use crate::scenario::stage::Stage;

/// Rows of one transaction.
const FILL: u64 = 250_000;
/// What the counts may read for each parked row, and at all: an entry of an index, and nothing of a table, whose rows
/// are at least three times as long.
const ENTRY: u64 = 128;
const ANYWAY: u64 = 1 << 20;

/// Asks beside few rows and beside all of them.
pub(super) fn ask(stage: &Stage, size: Size) -> Result<Asked> {
    let few = asked(stage, "sqlite-few", size.few())?;
    let all = asked(stage, "sqlite-all", size)?;
    let (read, limit) = (
        all["stats_read_bytes"].as_u64().unwrap_or(u64::MAX),
        size.parked * ENTRY + ANYWAY,
    );
    let scanned = (read > limit).then(|| format!("the counts read {read} bytes, more than {limit}"));
    Ok(Asked { few, all, scanned })
}

fn asked(stage: &Stage, name: &str, size: Size) -> Result<Value> {
    let outbox = Operated::open(stage, "sqlite", name)?;
    stage.note(&format!(
        "{name}: writing {} published and {} parked",
        size.sent, size.parked
    ));
    fill(&outbox, size)?;
    let output = Command::new(release_binary("postrider-bench")?)
        .args(["--url", &outbox.url(), "console", "--times", times(stage)])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .doing(|| "asking the console".to_owned())?;
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout)?),
        false => Err(Failure::new("the console did not answer")),
    }
}

/// History of a week, and parked rows: nine of ten wait behind 500 heads, the rest is dead or retrying in 20 groups.
fn fill(outbox: &Operated<'_>, Size { sent, parked }: Size) -> Result<()> {
    for first in (1..=sent).step_by(FILL as usize) {
        let numbers = numbers(first, (first + FILL - 1).min(sent));
        outbox.sql(&format!(
            "INSERT INTO outbox_sent (seq, destination, event_id, event_type, aggregate_type, aggregate_id, payload,
                 enqueued_at, outcome, published_at)
             SELECT n, 'd' || (n % 3), 'sent-' || n,
                 CASE WHEN n % 100000 = 7 THEN 'Rare' WHEN n % 10 = 3 AND n < {sent} / 2 THEN 'Retired'
                      ELSE 'Type' || (n % 20) END,
                 'ORDER', CASE n % 700 WHEN 11 THEN 'common' ELSE CAST(n % 50000 AS TEXT) END,
                 '{{\"pad\":\"' || printf('%.*c', 180, 'x') || '\"}}', at,
                 'published', at
             FROM (SELECT n, unixepoch() * 1000000 - ({sent} - n) * 604800000000 / {sent} AS at FROM {numbers})"
        ))?;
    }
    outbox.sql(&format!(
        "INSERT INTO outbox_parked (seq, destination, lane, order_key, event_id, event_type, aggregate_type,
             aggregate_id, event_key, payload, version, dead, next_attempt_at, attempts, failures, maybe_sent,
             error_kind, error_text, error_group, first_failed_at, last_failed_at, enqueued_at, updated_at)
         SELECT {sent} + n, 'd1', 0, key, 'parked-' || n, 'Type' || (n % 20), 'LINE', key, key,
             '{{\"pad\":\"' || printf('%.*c', 180, 'x') || '\"}}', 1, n % 20 = 0,
             now + CASE n % 20 WHEN 1 THEN 3600000000 ELSE 0 END, 0, n % 20 < 2, 0,
             CASE WHEN n % 20 < 2 THEN 'rejected' END, CASE WHEN n % 20 < 2 THEN 'failure number ' || (n / 20 % 20) END,
             CASE WHEN n % 20 < 2 THEN 'group' || (n / 20 % 20) END,
             CASE WHEN n % 20 < 2 THEN now - 3600000000 END, CASE WHEN n % 20 < 2 THEN now END, now - 7200000000, now
         FROM (SELECT n, 'LINE/' || CASE WHEN n % 20 < 2 THEN 1000 + n ELSE n % 500 END AS key,
                   unixepoch() * 1000000 AS now FROM {});
         PRAGMA wal_checkpoint(TRUNCATE)",
        numbers(1, parked)
    ))?;
    Ok(())
}

fn numbers(first: u64, last: u64) -> String {
    format!(
        "(WITH RECURSIVE s(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s WHERE n < {last}) SELECT n FROM s)"
    )
}
