//! The consumer's record of what has taken effect.
//!
//! `record` has the statements, `once` runs an effect of the caller's, `effects` runs those of a listener on a thread
//! of its own, `transact` what is to be in a transaction without a record, and `forget` removes records.

mod console;
mod effects;
mod forget;
mod once;
mod record;
mod transact;

use postrider_core::{FirstError, Recorded, StoreError, StoreErrorKind, refuse_unfit};
use rusqlite::{Connection, Transaction};

use crate::error::store_error;
use crate::ident::{IdentError, Tables};

#[cfg(test)]
pub(crate) use forget::{PURGE, PURGE_OF};

pub use effects::{SqliteEffects, SqliteHandler, handler};

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
    pub fn new(table: &str) -> Result<Inbox, IdentError> {
        Ok(Self {
            tables: Tables::new(table)?,
        })
    }

    /// The statements that make the table, for whoever makes it by other means.
    ///
    /// ```
    /// let sql = postrider_sqlite::Inbox::default().sql();
    /// assert!(sql.contains(r#"CREATE TABLE IF NOT EXISTS "inbox""#));
    /// ```
    pub fn sql(&self) -> String {
        self.tables.sql(include_str!("../sql/inbox.sql"))
    }

    /// Makes the table where it is missing.
    pub fn migrate(&self, connection: &Connection) -> Result<(), StoreError> {
        connection
            .execute_batch(&self.sql())
            .map_err(|error| store_error(error, "making the inbox table"))
    }

    /// Records an event in the transaction of its effect; false when it has taken effect before. Call it before the
    /// effect, so that of two deliveries at once the second waits here and then sees the first.
    ///
    /// ```
    /// # let mut connection = rusqlite::Connection::open_in_memory()?;
    /// # connection.execute_batch("CREATE TABLE charges (order_id INTEGER)")?;
    /// let inbox = postrider_sqlite::Inbox::default();
    /// # inbox.migrate(&connection)?;
    /// // Immediate: a transaction that begins with a read may be refused when it comes to write.
    /// let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    /// if inbox.first(&tx, "billing", "event-1")? {
    ///     tx.execute("INSERT INTO charges VALUES (42)", [])?;
    /// }
    /// tx.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn first(&self, tx: &Transaction<'_>, consumer: &str, event_id: &str) -> Result<bool, StoreError> {
        let marks = self.first_all(tx, consumer, &[(event_id, None)])?;
        Ok(Recorded::only(marks)? == Recorded::Now)
    }

    /// The same, keeping the hash of the payload beside the id, so that a reused id can be told from a repeated event:
    /// it is an error. Give the relay's header over the stored bytes; where either hash is missing nothing is compared.
    pub fn first_with_hash(
        &self,
        tx: &Transaction<'_>,
        consumer: &str,
        event_id: &str,
        hash: Option<&str>,
    ) -> Result<bool, FirstError> {
        let marks = self.first_all(tx, consumer, &[(event_id, hash)]);
        let mark = marks.and_then(Recorded::only).map_err(FirstError::Store)?;
        mark.is_first(event_id, hash).map_err(FirstError::Reused)
    }

    /// Records many events, each with its hash; answers one [`Recorded`] an event, in their order. An event that is
    /// twice among them is recorded once.
    pub fn first_all(
        &self,
        tx: &Transaction<'_>,
        consumer: &str,
        events: &[(&str, Option<&str>)],
    ) -> Result<Vec<Recorded>, StoreError> {
        refuse_unfit(events)?;
        record::record(tx, &self.tables, consumer, events)
            .map_err(|error| self.explain(error, "recording an event in the inbox"))
    }

    /// The public error, with the name of the table and what to do about it when it is not there.
    fn explain(&self, error: rusqlite::Error, doing: &str) -> StoreError {
        let error = store_error(error, &format!("{doing} ({})", self.tables.prefix()));
        match error.kind() {
            StoreErrorKind::Schema => {
                error.with_advice("make the table of the inbox with `postrider inbox migrate`")
            }
            _ => error,
        }
    }
}
