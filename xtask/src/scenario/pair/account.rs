//! The account of the pair: the business table against what arrived, and how long that took.

use std::collections::HashMap;
use std::fs;

use postrider_testkit::ledger::{Arrived, Committed, JsonLines, Ledger, Report};

use super::Pair;
use crate::failure::{Failure, Result};
use crate::scenario::effects;

/// What the producers write: the id of an order and when its commit was answered, in microseconds since 1970.
pub(super) const COMMITS: &str = "commits.tsv";

impl Pair<'_> {
    /// Writes committed.jsonl from the table of orders and compares it with arrived.jsonl. An event that is parked,
    /// where an operator sees it, is not lost.
    pub(in crate::scenario) fn account(&self) -> Result<Report> {
        let directory = self.directory();
        let mut lines = JsonLines::create(&directory.join("committed.jsonl"))?;
        for row in self
            .database()
            .rows("SELECT id, customer, n FROM orders ORDER BY customer, n", &[])?
        {
            let n: i64 = row.try_get(2)?;
            lines.write(&Committed::new(
                row.try_get::<_, String>(0)?,
                row.try_get::<_, String>(1)?,
                u64::try_from(n)?,
            ))?;
        }
        lines.flush()?;
        let mut ledger = Ledger::read(directory)?;
        for row in self.database().rows("SELECT event_id FROM outbox_parked", &[])? {
            ledger.parked(row.try_get(0)?);
        }
        let consumer = effects::database(directory)?;
        let mut statement = consumer.prepare("SELECT id FROM effects")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            ledger.effect("consumer", &row.get::<_, String>(0)?);
        }
        Ok(ledger.report())
    }

    /// When each commit was answered, and how many milliseconds later its event arrived first.
    pub(in crate::scenario) fn latencies(&self) -> Result<Vec<(u64, f64)>> {
        let mut commits = HashMap::new();
        let text = fs::read_to_string(self.directory().join(COMMITS))?;
        for line in text.lines() {
            let parts = line.split_once('\t');
            let (id, at) = parts.ok_or_else(|| Failure::new(format!("{COMMITS}: {line:?}")))?;
            commits.insert(id, at.parse::<u64>()?);
        }
        let arrived = fs::read_to_string(self.directory().join("arrived.jsonl"))?;
        let mut latencies = Vec::with_capacity(commits.len());
        for line in arrived.lines() {
            let arrived: Arrived = serde_json::from_str(line)?;
            // Taken out, so that a repeat is not the arrival.
            if let (Some(at), Some(seen)) = (commits.remove(arrived.id.as_str()), arrived.at_us) {
                latencies.push((at, seen.saturating_sub(at) as f64 / 1_000.0));
            }
        }
        Ok(latencies)
    }
}
