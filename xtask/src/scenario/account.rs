//! The account: what the business tables hold against what arrived, by the ledger checker.

use std::path::Path;

pub(super) use postrider_testkit::ledger::Report;
use postrider_testkit::ledger::{Arrived, Committed, JsonLines, Ledger};
use rusqlite::Connection;

use crate::failure::Result;

/// Where the events of a run are written down: by whom, and in which tables.
pub(super) struct Books<'a> {
    /// The database of the service, and a query for id, key and place of what it committed.
    pub(super) service: (&'a Connection, &'a str),
    /// The database of the consumer, and a query for the ids of its effects, one row an effect.
    pub(super) consumer: (&'a Connection, &'a str),
}

impl Books<'_> {
    /// Writes committed.jsonl, and compares it with the arrived.jsonl that the consumer left in the directory.
    pub(super) fn settle(&self, directory: &Path) -> Result<Report> {
        let (service, orders) = self.service;
        let mut lines = JsonLines::create(&directory.join("committed.jsonl"))?;
        let mut statement = service.prepare(orders)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (id, key, n): (String, String, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
            lines.write(&Committed::new(id, key, n.into()))?;
        }
        lines.flush()?;
        let mut ledger = Ledger::read(directory)?;
        let (consumer, effects) = self.consumer;
        let mut statement = consumer.prepare(effects)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            ledger.effect("consumer", &row.get::<_, String>(0)?);
        }
        Ok(ledger.report())
    }
}

/// Writes what a consumer kept in its tables as arrived.jsonl; the query gives id and key in the order of arrival.
pub(super) fn write_arrived(
    consumer: &Connection,
    query: &str,
    destination: &str,
    directory: &Path,
) -> Result<()> {
    let mut lines = JsonLines::create(&directory.join("arrived.jsonl"))?;
    let mut statement = consumer.prepare(query)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (id, key): (String, String) = (row.get(0)?, row.get(1)?);
        lines.write(&Arrived::new(id, key, destination))?;
    }
    Ok(lines.flush()?)
}
