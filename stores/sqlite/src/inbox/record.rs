//! The statements that record events.

use postrider_core::Recorded;
use rusqlite::{Connection, OptionalExtension, params};

use crate::ident::Tables;

const INSERT: &str = "INSERT INTO {outbox} (consumer, event_id, payload_hash) VALUES (?1, ?2, ?3)
    ON CONFLICT (consumer, event_id) DO NOTHING";

const RECORDED: &str = "SELECT payload_hash FROM {outbox} WHERE consumer = ?1 AND event_id = ?2";

/// Records events, each with its hash, and says of each what it is, in their order.
pub(super) fn record(
    tx: &Connection,
    tables: &Tables,
    consumer: &str,
    events: &[(&str, Option<&str>)],
) -> rusqlite::Result<Vec<Recorded>> {
    let mut insert = tx.prepare_cached(&tables.sql(INSERT))?;
    let mut recorded = tx.prepare_cached(&tables.sql(RECORDED))?;
    let mut marks = Vec::with_capacity(events.len());
    for (id, hash) in events {
        if insert.execute(params![consumer, id, hash])? == 1 {
            marks.push(Recorded::Now);
            continue;
        }
        let before: Option<Option<String>> = match hash {
            Some(_) => recorded.query_row([consumer, id], |row| row.get(0)).optional()?,
            None => None,
        };
        marks.push(Recorded::beside(before.flatten(), *hash));
    }
    Ok(marks)
}

/// What is known of one event.
pub(super) fn look(
    connection: &Connection,
    tables: &Tables,
    consumer: &str,
    event_id: &str,
    hash: Option<&str>,
) -> rusqlite::Result<Option<Recorded>> {
    let mut recorded = connection.prepare_cached(&tables.sql(RECORDED))?;
    let before: Option<Option<String>> = recorded
        .query_row([consumer, event_id], |row| row.get(0))
        .optional()?;
    Ok(before.map(|before| Recorded::beside(before, hash)))
}
