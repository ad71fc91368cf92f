//! Events with a time of their own.

use std::collections::HashMap;
use std::time::Duration;

use crate::failure::{Failure, Result};
use crate::scenario::operated::Operated;
use crate::scenario::percentiles::Percentiles;
use crate::scenario::stage::Stage;

const PATIENCE: Duration = Duration::from_secs(120);
/// What is due within a second is not scheduled, and everything has to be written before the first is due.
const AHEAD_US: u64 = 3_000_000;

/// How late they were, in milliseconds.
pub(super) struct Late {
    pub(super) times: Percentiles,
    pub(super) early: usize,
}

/// Thousands of events whose times are spread over some seconds.
pub(super) fn play(stage: &Stage, store: &'static str) -> Result<Late> {
    let (events, spread_us) = stage.size((4_000, 20_000_000), (400, 4_000_000));
    let outbox = Operated::open_routed(stage, store, &format!("{store}-scheduled"), &["ORDER"])?;
    let watch = outbox.watch("ORDER");
    let relay = outbox.start(&["run"])?;
    outbox.sql(
        "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id)
         VALUES ('warm', 'T', 'ORDER', '1')",
    )?;
    watch.until(1, PATIENCE)?;
    stage.note(&format!("{store}: {events} scheduled events"));
    let first = clock(&outbox, store)? + AHEAD_US;
    let due: HashMap<String, u64> = (0..events)
        .map(|n| (format!("s-{n:06}"), first + n * spread_us / events))
        .collect();
    let rows = due.iter().enumerate().map(|(n, (id, at))| {
        let at = match store {
            "postgres" => format!("to_timestamp({}.{:06})", at / 1_000_000, at % 1_000_000),
            _ => at.to_string(),
        };
        format!("('{id}', 'T', 'ORDER', '{}', {at})", n % 100)
    });
    let rows: Vec<String> = rows.collect();
    outbox.sql(&format!(
        "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, available_at) VALUES {}",
        rows.join(", ")
    ))?;
    watch.until(events + 1, PATIENCE)?;
    relay.terminate(PATIENCE)?;
    let mut late = Vec::new();
    for seen in watch.end()?.iter().filter(|seen| seen.id != "warm") {
        let due = due.get(&seen.id);
        let due = due.ok_or_else(|| Failure::new(format!("nobody wrote {}", seen.id)))?;
        late.push((seen.at_us as f64 - *due as f64) / 1_000.0);
    }
    Ok(Late {
        early: late.iter().filter(|late| **late < 0.0).count(),
        times: Percentiles::of(late)?,
    })
}

/// The time by the clock of the database, in microseconds since 1970.
fn clock(outbox: &Operated<'_>, store: &str) -> Result<u64> {
    match store {
        "postgres" => outbox.number("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"),
        _ => outbox.number("SELECT cast((julianday('now') - 2440587.5) * 86400000 AS integer) * 1000"),
    }
}
