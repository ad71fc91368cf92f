//! The service of the scenarios: customers who place orders, and an event with each.
//!
//! It writes the outbox in plain SQL, as a service in any language would. The customer is the key that order is kept
//! by.

use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use crate::failure::Result;

/// Opens the database of the shop, as a service would: in WAL mode, every commit on disk, patient with other writers.
pub(super) fn open(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(30))?;
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")?;
    Ok(connection)
}

/// Makes the business tables.
pub(super) fn create(connection: &Connection) -> Result<()> {
    let tables = "
        CREATE TABLE customers (name TEXT PRIMARY KEY, orders INTEGER NOT NULL) STRICT;
        CREATE TABLE orders (
            id       TEXT PRIMARY KEY,
            customer TEXT NOT NULL,
            n        INTEGER NOT NULL, -- 1 for the customer's first order, and so on
            cents    INTEGER NOT NULL
        ) STRICT;";
    Ok(connection.execute_batch(tables)?)
}

/// Takes the database for writing; waits for others.
pub(super) fn begin(connection: &mut Connection) -> Result<Transaction<'_>> {
    Ok(connection.transaction_with_behavior(TransactionBehavior::Immediate)?)
}

/// Places one order and says so to the outbox, both in the caller's transaction.
pub(super) fn place(tx: &Transaction<'_>, customer: &str, order: u64) -> Result<()> {
    let n: u32 = tx
        .prepare_cached(
            "INSERT INTO customers (name, orders) VALUES (?1, 1)
             ON CONFLICT (name) DO UPDATE SET orders = orders + 1 RETURNING orders",
        )?
        .query_row([customer], |row| row.get(0))?;
    let id = format!("order-{order:08}");
    let cents = 100 + (order % 9_900) as u32;
    tx.prepare_cached("INSERT INTO orders (id, customer, n, cents) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![id, customer, n, cents])?;
    // The time is taken with the write lock in hand and before the commit, so that what is measured from here on holds
    // the whole commit and none of the waiting for other writers.
    let payload = format!(r#"{{"n":{n},"cents":{cents},"at_us":{}}}"#, now_us());
    tx.prepare_cached(
        "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload)
         VALUES (?1, 'OrderPlaced', 'CUSTOMER', ?2, ?3)",
    )?
    .execute(params![id, customer, payload])?;
    Ok(())
}

/// What is still in the outbox: queued and parked rows.
pub(super) fn waiting(connection: &Connection) -> Result<(u64, u64)> {
    let count = |table: &str| number(connection, &format!("SELECT count(*) FROM {table}"));
    Ok((count("outbox")?, count("outbox_parked")?))
}

/// The number that a query gives.
pub(super) fn number(connection: &Connection, query: &str) -> Result<u64> {
    let number: i64 = connection.query_row(query, [], |row| row.get(0))?;
    Ok(u64::try_from(number)?)
}

/// Microseconds since 1970. All processes of a scenario run on one machine and share its clock.
pub(super) fn now_us() -> u64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
