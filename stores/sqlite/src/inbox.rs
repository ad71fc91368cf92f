//! The consumer's record of what has taken effect.

use std::time::{Duration, Instant};

use postrider_core::{OnceError, StoreError};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use crate::error::{self, store_error};
use crate::ident::{IdentError, Tables};
use crate::{clock, schema};

/// How long [`Inbox::once`] goes on trying while other connections keep the database busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// The inbox of a consumer's database: an event takes effect once per consumer, however often it is delivered.
///
/// ```
/// use postrider_sqlite::Inbox;
///
/// let mut connection = rusqlite::Connection::open_in_memory()?;
/// let inbox = Inbox::default();
/// inbox.migrate(&connection)?;
/// for delivery in 0..3 {
///     let done = inbox.once(&mut connection, "mailer", "event-1", |_tx| Ok::<_, rusqlite::Error>("sent"))?;
///     assert_eq!(done.is_some(), delivery == 0);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbox {
    tables: Tables,
}

impl Default for Inbox {
    /// The inbox in the table `inbox`.
    fn default() -> Self {
        Self {
            tables: Tables::inbox(),
        }
    }
}

impl Inbox {
    /// The inbox in this table.
    pub fn new(prefix: &str) -> Result<Inbox, IdentError> {
        Ok(Self {
            tables: Tables::new(prefix)?,
        })
    }

    /// Makes the table where it is missing.
    pub fn migrate(&self, connection: &Connection) -> Result<(), StoreError> {
        connection
            .execute_batch(&self.tables.sql(include_str!("sql/inbox.sql")))
            .map_err(|error| store_error(error, "making the inbox table"))
    }

    /// Records an event in the transaction of its effect; false when it has taken effect before. Call it before the
    /// effect, so that of two deliveries at once the second waits here and then sees the first.
    pub fn first(&self, tx: &Transaction<'_>, consumer: &str, event_id: &str) -> Result<bool, StoreError> {
        self.first_with_hash(tx, consumer, event_id, None)
    }

    /// The same, keeping the hash of the payload beside the id, so that a reused id can be told from a repeated event.
    pub fn first_with_hash(
        &self,
        tx: &Transaction<'_>,
        consumer: &str,
        event_id: &str,
        hash: Option<&str>,
    ) -> Result<bool, StoreError> {
        let sql = self.tables.sql(
            "INSERT INTO {outbox} (consumer, event_id, payload_hash) VALUES (?1, ?2, ?3)
             ON CONFLICT (consumer, event_id) DO NOTHING",
        );
        let inserted = tx
            .prepare_cached(&sql)
            .and_then(|mut insert| insert.execute(params![consumer, event_id, hash]));
        match inserted {
            Ok(rows) => Ok(rows == 1),
            Err(error) => Err(self.explain(error, "recording an event in the inbox")),
        }
    }

    /// Runs an effect once: begins, records, runs, commits. None when the event has taken effect before. While the
    /// database is busy it is tried again, so the effect must leave nothing behind but what it does in its transaction.
    pub fn once<T, E>(
        &self,
        connection: &mut Connection,
        consumer: &str,
        event_id: &str,
        mut effect: impl FnMut(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<Option<T>, OnceError<E>> {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = Duration::from_millis(2);
        loop {
            match self.attempt(connection, consumer, event_id, &mut effect) {
                Err(Attempt::Busy(_)) if Instant::now() < deadline => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(200));
                }
                Err(Attempt::Busy(error)) => {
                    return Err(OnceError::Store(store_error(error, "running an effect once")));
                }
                Err(Attempt::Over(error)) => return Err(error),
                Ok(done) => return Ok(done),
            }
        }
    }

    /// Forgets an event, so that it takes effect again when it is delivered again; true when it was known.
    pub fn forget(
        &self,
        connection: &Connection,
        consumer: &str,
        event_id: &str,
    ) -> Result<bool, StoreError> {
        let sql = self
            .tables
            .sql("DELETE FROM {outbox} WHERE consumer = ?1 AND event_id = ?2");
        match connection.execute(&sql, [consumer, event_id]) {
            Ok(rows) => Ok(rows > 0),
            Err(error) => Err(self.explain(error, "forgetting an event of the inbox")),
        }
    }

    /// Removes records older than the longest time after which a broker can still redeliver, at most `limit` rows;
    /// answers how many.
    pub fn purge(
        &self,
        connection: &Connection,
        older_than: Duration,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let sql = self.tables.sql(
            "DELETE FROM {outbox} WHERE (consumer, event_id) IN (
                 SELECT consumer, event_id FROM {outbox} WHERE processed_at < ?1 ORDER BY processed_at LIMIT ?2)",
        );
        let gone = clock::now(connection)
            .and_then(|now| connection.execute(&sql, params![schema::since(now, older_than), limit]));
        match gone {
            Ok(rows) => Ok(rows as u64),
            Err(error) => Err(self.explain(error, "purging the inbox")),
        }
    }

    fn attempt<T, E>(
        &self,
        connection: &mut Connection,
        consumer: &str,
        event_id: &str,
        effect: &mut impl FnMut(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<Option<T>, Attempt<E>> {
        // A deferred transaction that turns into a writer is refused at once, whatever the busy timeout says.
        let tx = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(Attempt::of)?;
        let first = self.first(&tx, consumer, event_id);
        if !first.map_err(|error| Attempt::Over(OnceError::Store(error)))? {
            return Ok(None);
        }
        let done = effect(&tx).map_err(|error| Attempt::Over(OnceError::Effect(error)))?;
        tx.commit().map_err(Attempt::of)?;
        Ok(Some(done))
    }

    fn explain(&self, error: rusqlite::Error, doing: &str) -> StoreError {
        store_error(error, &format!("{doing} ({})", self.tables.prefix()))
    }
}

/// Why one attempt ended.
enum Attempt<E> {
    Busy(rusqlite::Error),
    Over(OnceError<E>),
}

impl<E> Attempt<E> {
    fn of(error: rusqlite::Error) -> Self {
        match error::is_busy(&error) {
            true => Attempt::Busy(error),
            false => Attempt::Over(OnceError::Store(store_error(error, "running an effect once"))),
        }
    }
}
