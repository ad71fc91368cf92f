//! Low events beside high ones.

use std::time::Duration;

use crate::failure::Result;
use crate::scenario::operated::Operated;
use crate::scenario::stage::Stage;

const PATIENCE: Duration = Duration::from_secs(300);
const KEYS: u64 = 500;
/// High events for each low one.
const HIGH: u64 = 20;

/// High events enough for the whole time, and some low ones behind them: the share of the low ones that arrived before
/// the last high one.
pub(super) fn play(stage: &Stage, store: &'static str) -> Result<f64> {
    let low = stage.size(2_000, 200);
    let outbox = Operated::open_routed(stage, store, &format!("{store}-fair"), &["ORDER"])?;
    let numbers = |count: u64| match store {
        "postgres" => format!("FROM generate_series(1, {count}) n"),
        _ => format!(
            "FROM (WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {count}) SELECT n FROM s)"
        ),
    };
    for (name, priority, count) in [("h", 1, low * HIGH), ("l", -1, low)] {
        outbox.sql(&format!(
            "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload, priority)
             SELECT '{name}-' || n, 'T', 'ORDER', 'k' || (n % {KEYS}), '{{}}', {priority} {}",
            numbers(count)
        ))?;
    }
    stage.note(&format!(
        "{store}: {low} low events beside {} high ones",
        low * HIGH
    ));
    let watch = outbox.watch("ORDER");
    let relay = outbox.start(&["run"])?;
    watch.until(low * (HIGH + 1), PATIENCE)?;
    relay.terminate(PATIENCE)?;
    let seen = watch.end()?;
    let last_high = seen
        .iter()
        .rposition(|seen| seen.id.starts_with('h'))
        .unwrap_or(0);
    let beside = seen[..last_high]
        .iter()
        .filter(|seen| seen.id.starts_with('l'))
        .count();
    Ok(beside as f64 / low as f64)
}
