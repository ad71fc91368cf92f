//! For users' own tests: what a transaction has enqueued.

use postrider_core::Event;
use rusqlite::Transaction;

use crate::Outbox;
use crate::row::Stored;

/// The queued events as this transaction sees them, in order: its own, and what was committed before and not yet
/// published.
///
/// ```
/// use postrider_core::{Event, Schema};
/// use postrider_sqlite::{Outbox, SqliteOptions, SqliteStore, testing};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("shop.db");
/// # SqliteStore::open(&path, SqliteOptions::default())?.up().await?;
/// # let mut connection = rusqlite::Connection::open(&path)?;
/// let outbox = Outbox::default();
/// let tx = connection.transaction()?;
/// outbox.enqueue(&tx, &Event::builder("OrderPlaced").aggregate("ORDER", 42).json("{}").build()?)?;
///
/// let events = testing::enqueued(&tx, &outbox);
/// assert_eq!(events[0].event_type, "OrderPlaced");
/// testing::assert_enqueued(&tx, &outbox, &["OrderPlaced"]);
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// When the outbox cannot be read, or holds a row that is not a valid event: a test should end there.
pub fn enqueued(tx: &Transaction<'_>, outbox: &Outbox) -> Vec<Event> {
    match read(tx, outbox) {
        Ok(rows) => rows.into_iter().map(valid).collect(),
        Err(error) => panic!("the outbox cannot be read: {error}"),
    }
}

/// Asserts that the queued events have these types, in this order.
///
/// # Panics
///
/// When they have not.
#[track_caller]
pub fn assert_enqueued(tx: &Transaction<'_>, outbox: &Outbox, event_types: &[&str]) {
    let found: Vec<String> = enqueued(tx, outbox)
        .into_iter()
        .map(|event| event.event_type)
        .collect();
    assert_eq!(found, event_types, "the types of the enqueued events");
}

fn read(tx: &Transaction<'_>, outbox: &Outbox) -> rusqlite::Result<Vec<Stored>> {
    let tables = outbox.tables();
    let outbox_id: String = tx.query_row(&tables.sql("SELECT outbox_id FROM {outbox_meta}"), [], |row| {
        row.get(0)
    })?;
    let mut statement = tx.prepare(&tables.sql("SELECT {columns} FROM {outbox} ORDER BY seq"))?;
    let rows = statement.query_map([], |row| Stored::read(row, &outbox_id, 0))?;
    rows.collect()
}

fn valid(stored: Stored) -> Event {
    match stored.event {
        Ok(event) => event,
        Err(reason) => panic!("the row {} is not a valid event: {reason}", stored.seq.0),
    }
}
