//! Removing records: to let an event take effect again, and because nothing can deliver it any more.

use std::time::Duration;

use postrider_core::{Records, StoreError};
use rusqlite::{Connection, params};

use super::Inbox;
use crate::{clock, schema};

/// Which records are meant: the ids as a JSON array, empty for any; times that are not given hold for all.
const MEANT: &str = "consumer = ?1 AND (?2 = '[]' OR event_id IN (SELECT value FROM json_each(?2)))
    AND (?3 IS NULL OR processed_at <= ?3) AND (?4 IS NULL OR processed_at >= ?4)";

/// Removes old records of one consumer. Those of others are not looked at: they may be older, many, and kept for
/// longer.
pub(crate) const PURGE_OF: &str = "DELETE FROM {outbox} WHERE (consumer, event_id) IN (
    SELECT consumer, event_id FROM {outbox}
    WHERE consumer = ?3 AND processed_at < ?1 ORDER BY processed_at LIMIT ?2)";

/// Removes old records of all.
pub(crate) const PURGE: &str = "DELETE FROM {outbox} WHERE (consumer, event_id) IN (
    SELECT consumer, event_id FROM {outbox} WHERE processed_at < ?1 ORDER BY processed_at LIMIT ?2)";

impl Inbox {
    /// Forgets an event, so that it takes effect again when it is delivered again; true when it was known.
    pub fn forget(
        &self,
        connection: &Connection,
        consumer: &str,
        event_id: &str,
    ) -> Result<bool, StoreError> {
        let one = Records::of(consumer).ids([event_id]);
        Ok(self.forget_all(connection, &one)? > 0)
    }

    /// How many records are meant: what [`Inbox::forget_all`] would remove.
    pub fn count(&self, connection: &Connection, records: &Records) -> Result<u64, StoreError> {
        let sql = self
            .tables
            .sql(&format!("SELECT count(*) FROM {{outbox}} WHERE {MEANT}"));
        let asked = meant(connection, records)
            .and_then(|values| connection.query_row(&sql, values.params(), |row| row.get::<_, i64>(0)));
        match asked {
            Ok(count) => Ok(u64::try_from(count).unwrap_or_default()),
            Err(error) => Err(self.explain(error, "counting records of the inbox")),
        }
    }

    /// Forgets every event whose record is meant; answers how many.
    pub fn forget_all(&self, connection: &Connection, records: &Records) -> Result<u64, StoreError> {
        let sql = self.tables.sql(&format!("DELETE FROM {{outbox}} WHERE {MEANT}"));
        let gone = meant(connection, records).and_then(|values| connection.execute(&sql, values.params()));
        match gone {
            Ok(rows) => Ok(rows as u64),
            Err(error) => Err(self.explain(error, "forgetting events of the inbox")),
        }
    }

    /// Removes records older than the longest time after which a broker can still redeliver, of one consumer or of all,
    /// at most `limit` rows; answers how many.
    pub fn purge(
        &self,
        connection: &Connection,
        consumer: Option<&str>,
        older_than: Duration,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let gone = clock::now(connection).and_then(|now| {
            let before = schema::since(now, older_than);
            match consumer {
                Some(consumer) => {
                    connection.execute(&self.tables.sql(PURGE_OF), params![before, limit, consumer])
                }
                None => connection.execute(&self.tables.sql(PURGE), params![before, limit]),
            }
        });
        match gone {
            Ok(rows) => Ok(rows as u64),
            Err(error) => Err(self.explain(error, "purging the inbox")),
        }
    }
}

/// The values of [`MEANT`].
struct Meant<'a> {
    consumer: &'a str,
    ids: String,
    before: Option<i64>,
    since: Option<i64>,
}

fn meant<'a>(connection: &Connection, records: &'a Records) -> rusqlite::Result<Meant<'a>> {
    let now = clock::now(connection)?;
    Ok(Meant {
        consumer: &records.consumer,
        ids: serde_json::Value::from(records.ids.clone()).to_string(),
        before: records.older_than.map(|age| schema::since(now, age)),
        since: records.newer_than.map(|age| schema::since(now, age)),
    })
}

impl Meant<'_> {
    fn params(&self) -> [&dyn rusqlite::ToSql; 4] {
        [&self.consumer, &self.ids, &self.before, &self.since]
    }
}
