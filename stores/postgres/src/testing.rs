//! For users' own tests: what a transaction has enqueued.

use postrider_core::Event;
use tokio_postgres::Transaction;

use crate::Outbox;
use crate::row::Stored;

/// The queued events as this transaction sees them, in order: its own, and what was committed before and not yet
/// published.
///
/// # Panics
///
/// When the outbox cannot be read, or holds a row that is not a valid event: a test should end there.
pub async fn enqueued(tx: &Transaction<'_>, outbox: &Outbox) -> Vec<Event> {
    let sql = outbox.tables().sql("SELECT {columns} FROM {outbox} ORDER BY seq");
    let rows = match tx.query(&sql, &[]).await {
        Ok(rows) => rows,
        Err(error) => panic!("the outbox cannot be read: {error}"),
    };
    let valid = |stored: Stored| {
        let place = stored.seq.0;
        match stored.into_event() {
            Ok(event) => event,
            Err(reason) => panic!("the row {place} is not a valid event: {reason}"),
        }
    };
    rows.iter()
        .map(|row| match Stored::read(row, 0) {
            Ok(stored) => valid(stored),
            Err(error) => panic!(
                "the outbox cannot be read: {}",
                error.while_doing("reading a row")
            ),
        })
        .collect()
}

/// Asserts that the queued events have these types, in this order.
///
/// # Panics
///
/// When they have not.
pub async fn assert_enqueued(tx: &Transaction<'_>, outbox: &Outbox, event_types: &[&str]) {
    let found: Vec<String> = enqueued(tx, outbox)
        .await
        .into_iter()
        .map(|event| event.event_type)
        .collect();
    assert_eq!(found, event_types, "the types of the enqueued events");
}
