//! The account: what the shop's own table says happened, against what people were told.

use std::path::Path;

use rusqlite::Connection;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;

/// How a run ended. The order of the fields is the order in the JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Account {
    /// Committed by the shop.
    events: u64,
    rolled_back: u64,
    /// Stored.
    notifications: u64,
    /// Events about what somebody had been told of before.
    duplicates: u64,
    /// People who should have been told of an event and were not.
    missing: u64,
    /// Notifications of what never happened, or to somebody whom it does not concern.
    unexpected: u64,
    /// Notifications beyond the first of a person and an event.
    twice: u64,
    p50_ms: f64,
    p99_ms: f64,
}

/// Whom each event concerns: one row a person. What somebody muted on the page was rightly not told, and cannot be told
/// apart from what was lost: of those who said what they want, nothing is missed.
const CONCERNS: &str = "
CREATE TEMP VIEW concerns AS
    SELECT event_id, user_id, event_type, resource, at FROM happened WHERE user_id IS NOT NULL
    UNION ALL
    SELECT h.event_id, s.user_id, h.event_type, h.resource, h.at
    FROM happened h JOIN notification_subscription s ON s.topic = lower(h.audience)
    WHERE h.user_id IS NULL;
CREATE TEMP VIEW told AS
    SELECT c.*, EXISTS (SELECT 1 FROM notification n WHERE n.event_id = c.event_id AND n.user_id = c.user_id) AS itself,
        c.resource IS NOT NULL AND EXISTS (SELECT 1 FROM notification n WHERE n.user_id = c.user_id
            AND n.resource_id = c.event_type || ':' || c.resource) AS same
    FROM concerns c;";

impl Account {
    /// Compares the tables. Only roll-backs leave no trace in any.
    pub fn take(path: &Path, rolled_back: u64) -> Result<Account, Failure> {
        let failed = |error: rusqlite::Error| Failure::backend("the account cannot be taken").because(&error);
        let connection = Connection::open(path).map_err(failed)?;
        connection
            .busy_timeout(std::time::Duration::from_secs(10))
            .map_err(failed)?;
        let account = count(&connection).map_err(failed)?;
        Ok(Account {
            rolled_back,
            ..account
        })
    }

    /// How much is not told so far.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Whether every promise held.
    pub fn is_clean(&self) -> bool {
        self.missing + self.unexpected + self.twice == 0
    }

    /// Tells it; with the folder of the file where something went wrong.
    pub fn report(&self, out: Output, folder: Option<&str>) -> Result<(), Failure> {
        if out.is_json() {
            let line = serde_json::to_string(self)
                .map_err(|error| Failure::backend("the account cannot be written").because(&error))?;
            return out.line(line);
        }
        let verdict = match folder {
            None => "everybody was told of everything, once".to_owned(),
            Some(folder) => format!("a promise was broken; the file is in {folder}"),
        };
        out.line(format!(
            "\n\
             events    {:>8}  rolled back {:>8}  notifications {:>8}  duplicates {:>8}\n\
             missing   {:>8}  unexpected  {:>8}  twice         {:>8}\n\
             commit → stored: p50 {:.1} ms, p99 {:.1} ms\n\
             {verdict}",
            self.events,
            self.rolled_back,
            self.notifications,
            self.duplicates,
            self.missing,
            self.unexpected,
            self.twice,
            self.p50_ms,
            self.p99_ms,
        ))
    }
}

fn count(connection: &Connection) -> rusqlite::Result<Account> {
    connection.execute_batch(CONCERNS)?;
    let one = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, u32>(0).map(u64::from));
    Ok(Account {
        events: one("SELECT count(*) FROM happened")?,
        rolled_back: 0,
        notifications: one("SELECT count(*) FROM notification")?,
        duplicates: one("SELECT count(*) FROM told WHERE same AND NOT itself")?,
        missing: one(
            "SELECT count(*) FROM told WHERE NOT itself AND NOT same AND user_id NOT IN (
            SELECT user_id FROM notification_preference)",
        )?,
        unexpected: one("SELECT count(*) FROM notification n WHERE NOT EXISTS (
            SELECT 1 FROM concerns c WHERE c.event_id = n.event_id AND c.user_id = n.user_id)")?,
        twice: one("SELECT coalesce(sum(rows - 1), 0) FROM (
            SELECT count(*) AS rows FROM notification GROUP BY event_id, user_id)")?,
        p50_ms: latency(connection, 0.5)?,
        p99_ms: latency(connection, 0.99)?,
    })
}

/// From the moment before the commit to the moment at which it was stored, in milliseconds.
fn latency(connection: &Connection, part: f64) -> rusqlite::Result<f64> {
    let mut times = connection.prepare_cached(
        "SELECT max(n.created_at - h.at, 0) FROM notification n JOIN happened h USING (event_id) ORDER BY 1",
    )?;
    let times: Vec<i64> = times.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let at = (times.len() as f64 * part) as usize;
    let micros = times
        .get(at.min(times.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0);
    Ok((micros as f64 / 10.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The account must find what it is there to find: each case plants one fault.
    fn account(told: &[(&str, &str, Option<&str>)]) -> Account {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE happened (event_id TEXT, event_type TEXT, user_id TEXT, audience TEXT, resource TEXT,
                    at INTEGER);
                 CREATE TABLE notification (event_id TEXT, user_id TEXT, resource_id TEXT, created_at INTEGER);
                 CREATE TABLE notification_subscription (topic TEXT, user_id TEXT);
                 CREATE TABLE notification_preference (user_id TEXT);
                 INSERT INTO notification_preference VALUES ('emmy');
                 INSERT INTO notification_subscription VALUES ('customer', 'ada'), ('customer', 'alan'),
                    ('customer', 'emmy');
                 INSERT INTO happened VALUES ('e1', 'Shipped', 'ada', 'CUSTOMER', NULL, 0),
                    ('e2', 'News', NULL, 'CUSTOMER', NULL, 0),
                    ('e3', 'Followed', 'ada', 'CUSTOMER', 'bob', 0), ('e4', 'Followed', 'ada', 'CUSTOMER', 'bob', 0);",
            )
            .unwrap();
        for (event, user, resource) in told {
            let insert = "INSERT INTO notification VALUES (?1, ?2, ?3, 2000)";
            connection
                .execute(insert, rusqlite::params![event, user, resource])
                .unwrap();
        }
        count(&connection).unwrap()
    }

    const GOOD: [(&str, &str, Option<&str>); 4] = [
        ("e1", "ada", None),
        ("e2", "ada", None),
        ("e2", "alan", None),
        ("e3", "ada", Some("Followed:bob")),
    ];

    #[test]
    fn a_good_run_is_clean_with_its_duplicates() {
        let account = account(&GOOD);
        assert!(account.is_clean(), "{account:?}");
        assert_eq!(
            (account.events, account.notifications, account.duplicates),
            (4, 4, 1)
        );
        assert_eq!(account.p50_ms, 2.0);
    }

    #[test]
    fn every_broken_promise_is_found() {
        let lost = account(&GOOD[1..]);
        assert_eq!((lost.missing, lost.is_clean()), (1, false));
        let half = account(&[GOOD[0], GOOD[1], GOOD[3]]);
        assert_eq!((half.missing, half.is_clean()), (1, false), "of a broadcast");
        let unfollowed = account(&GOOD[..3]);
        assert_eq!((unfollowed.missing, unfollowed.is_clean()), (2, false));
        let invented = account(&[&GOOD[..], &[("e9", "ada", None)]].concat());
        assert_eq!((invented.unexpected, invented.is_clean()), (1, false));
        let stranger = account(&[&GOOD[..], &[("e1", "alan", None)]].concat());
        assert_eq!((stranger.unexpected, stranger.is_clean()), (1, false));
        let twice = account(&[&GOOD[..], &[GOOD[0]]].concat());
        assert_eq!((twice.twice, twice.is_clean()), (1, false));
    }
}
