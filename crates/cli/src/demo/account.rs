//! The account: what the service's tables say was committed, against what the consumer's tables say arrived.

use std::collections::HashMap;
use std::time::Duration;

use rusqlite::Connection;
use serde::Serialize;

use super::Files;
use super::board::Board;
use crate::failure::Failure;
use crate::output::Output;

/// How a run ended. The order of the fields is the order in the JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Account {
    committed: u64,
    rolled_back: u64,
    published: u64,
    effects: u64,
    /// Committed, and without effect.
    lost: u64,
    /// Arrived, and never committed.
    phantom: u64,
    /// Arrived after a later one of its customer.
    reordered: u64,
    /// Effects beyond the first of an event.
    duplicate_effects: u64,
    p50_ms: f64,
    p99_ms: f64,
}

impl Account {
    /// Compares the tables. Only what leaves no trace in any table comes from the board: roll-backs and times.
    pub fn take(files: &Files, board: &Board) -> Result<Account, Failure> {
        let failed = |error: rusqlite::Error| Failure::backend("the account cannot be taken").because(&error);
        let connection = super::open(&files.service)?;
        let consumer = files.consumer.display().to_string();
        connection
            .execute("ATTACH DATABASE ?1 AS consumer", [consumer])
            .map_err(failed)?;
        let mut account = count(&connection).map_err(failed)?;
        account.rolled_back = board.counts().rolled_back;
        account.p50_ms = millis(board.latency(0.5));
        account.p99_ms = millis(board.latency(0.99));
        Ok(account)
    }

    /// Whether every promise held.
    pub fn is_clean(&self) -> bool {
        self.lost + self.phantom + self.reordered + self.duplicate_effects == 0
    }

    pub fn report(&self, out: Output, folder: &str) -> Result<(), Failure> {
        if out.is_json() {
            let line = serde_json::to_string(self)
                .map_err(|error| Failure::backend("the account cannot be written").because(&error))?;
            return out.line(line);
        }
        let verdict = match self.is_clean() {
            true => "every committed order took effect exactly once, in order".to_owned(),
            false => format!("a promise was broken; the files are in {folder}"),
        };
        out.line(format!(
            "\n\
             committed {:>8}  rolled back {:>8}  published {:>8}  effects {:>8}\n\
             lost      {:>8}  phantom     {:>8}  reordered {:>8}  twice   {:>8}\n\
             commit → effect: p50 {:.1} ms, p99 {:.1} ms\n\
             {verdict}",
            self.committed,
            self.rolled_back,
            self.published,
            self.effects,
            self.lost,
            self.phantom,
            self.reordered,
            self.duplicate_effects,
            self.p50_ms,
            self.p99_ms,
        ))
    }
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 100_000.0).round() / 100.0
}

fn count(connection: &Connection) -> rusqlite::Result<Account> {
    connection.execute_batch(
        "CREATE INDEX IF NOT EXISTS orders_event ON orders (event_id);
         CREATE INDEX IF NOT EXISTS consumer.arrival_event ON arrival (event_id);
         CREATE INDEX IF NOT EXISTS consumer.shipment_event ON shipment (event_id);",
    )?;
    let one = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, u32>(0).map(u64::from));
    Ok(Account {
        committed: one("SELECT count(*) FROM orders")?,
        rolled_back: 0,
        published: one("SELECT count(DISTINCT event_id) FROM arrival")?,
        effects: one("SELECT count(*) FROM shipment")?,
        lost: one("SELECT count(*) FROM orders WHERE NOT EXISTS (
                 SELECT 1 FROM shipment WHERE shipment.event_id = orders.event_id)")?,
        phantom: one("SELECT count(DISTINCT event_id) FROM arrival WHERE NOT EXISTS (
                 SELECT 1 FROM orders WHERE orders.event_id = arrival.event_id)")?,
        reordered: reordered(connection)?,
        duplicate_effects: one("SELECT count(*) - count(DISTINCT event_id) FROM shipment")?,
        p50_ms: 0.0,
        p99_ms: 0.0,
    })
}

/// First arrivals that came after a later order of the same customer.
fn reordered(connection: &Connection) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare(
        "SELECT orders.customer, orders.place
         FROM (SELECT event_id, min(n) AS n FROM arrival GROUP BY event_id) AS arrived
         JOIN orders ON orders.event_id = arrived.event_id
         ORDER BY arrived.n",
    )?;
    let mut latest: HashMap<String, i64> = HashMap::new();
    let mut rows = statement.query([])?;
    let mut reordered = 0;
    while let Some(row) = rows.next()? {
        let (customer, place): (String, i64) = (row.get(0)?, row.get(1)?);
        let last = latest.entry(customer).or_insert(0);
        match place < *last {
            true => reordered += 1,
            false => *last = place,
        }
    }
    Ok(reordered)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The account must find what it is there to find: each case plants one fault.
    fn account(arrivals: &[(&str, i64)], effects: &[&str]) -> Account {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "ATTACH DATABASE ':memory:' AS consumer;
                 CREATE TABLE orders (customer TEXT, place INTEGER, event_id TEXT);
                 CREATE TABLE consumer.arrival (n INTEGER PRIMARY KEY, event_id TEXT, customer TEXT, place INTEGER);
                 CREATE TABLE consumer.shipment (event_id TEXT);
                 INSERT INTO orders VALUES ('a', 1, 'a1'), ('a', 2, 'a2'), ('b', 1, 'b1');",
            )
            .unwrap();
        for (event_id, place) in arrivals {
            let insert = "INSERT INTO arrival (event_id, customer, place) VALUES (?1, 'x', ?2)";
            connection
                .execute(insert, rusqlite::params![event_id, place])
                .unwrap();
        }
        for event_id in effects {
            connection
                .execute("INSERT INTO shipment VALUES (?1)", [event_id])
                .unwrap();
        }
        count(&connection).unwrap()
    }

    #[test]
    fn a_good_run_is_clean_even_with_a_repeated_delivery() {
        let account = account(&[("a1", 1), ("a2", 2), ("a1", 1), ("b1", 1)], &["a1", "a2", "b1"]);
        assert!(account.is_clean(), "{account:?}");
        assert_eq!((account.committed, account.published, account.effects), (3, 3, 3));
    }

    #[test]
    fn every_broken_promise_is_found() {
        let lost = account(&[("a1", 1), ("b1", 1)], &["a1", "b1"]);
        assert_eq!((lost.lost, lost.is_clean()), (1, false));
        let phantom = account(&[("a1", 1), ("a2", 2), ("b1", 1), ("zz", 9)], &["a1", "a2", "b1"]);
        assert_eq!((phantom.phantom, phantom.is_clean()), (1, false));
        let reordered = account(&[("a2", 2), ("a1", 1), ("b1", 1)], &["a2", "a1", "b1"]);
        assert_eq!((reordered.reordered, reordered.is_clean()), (1, false));
        let twice = account(&[("a1", 1), ("a2", 2), ("b1", 1)], &["a1", "a1", "a2", "b1"]);
        assert_eq!((twice.duplicate_effects, twice.is_clean()), (1, false));
    }
}
