//! The consumer's record of what has taken effect.
//!
//! `record` has the statements, `once` runs an effect of the caller's, `effects` runs those of a listener on a `pool`
//! of connections, `transact` what is to be in a transaction without a record, `forget` removes records, and `migrate`
//! makes the table.

mod console;
mod effects;
mod forget;
mod migrate;
mod once;
mod pool;
mod record;
#[cfg(feature = "sqlx")]
mod sqlx;
mod transact;

use postrider_core::{FirstError, Recorded, StoreError, refuse_unfit};
use tokio_postgres::Transaction;

use crate::error::store_error;
use crate::ident::{IdentError, Tables};

#[cfg(test)]
pub(crate) use forget::{PURGE, PURGE_OF};

pub use effects::{PgEffects, PgHandler, handler};
use record::{Entry, Insert};
#[cfg(feature = "sqlx")]
pub use sqlx::{SqlxPgEffects, SqlxPgHandler, sqlx_handler};

/// The inbox of a consumer's database: an event takes effect once per consumer, however often it is delivered.
///
/// ```no_run
/// use postrider_postgres::Inbox;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let url = "postgres://shop@127.0.0.1/shop";
/// # let (mut client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
/// # tokio::spawn(connection);
/// let inbox = Inbox::default();
/// inbox.migrate(&client).await?;
/// let charge = async |tx: &tokio_postgres::Transaction<'_>| {
///     tx.execute("INSERT INTO charges (order_id, amount) VALUES (42, 1250)", &[]).await
/// };
/// let done = inbox.once(&mut client, "billing", "event-1", charge).await?;
/// assert!(done.is_some(), "None: it had taken effect before");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbox {
    tables: Tables,
}

impl Default for Inbox {
    /// The inbox in the table `inbox` of the schema `public`.
    fn default() -> Self {
        Self {
            tables: Tables::inbox(),
        }
    }
}

impl Inbox {
    /// The inbox in this table of the schema `public`.
    pub fn new(table: &str) -> Result<Inbox, IdentError> {
        Self::in_schema("public", table)
    }

    /// The inbox in this table of a schema.
    pub fn in_schema(schema: &str, table: &str) -> Result<Inbox, IdentError> {
        let tables = Tables::new(schema, table)?;
        Ok(Self { tables })
    }

    /// Records an event in the transaction of its effect; false when it has taken effect before. Call it before the
    /// effect, so that of two deliveries at once the second waits here and then sees the first.
    ///
    /// ```no_run
    /// # async fn f(mut client: tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let inbox = postrider_postgres::Inbox::default();
    /// let tx = client.transaction().await?;
    /// if inbox.first(&tx, "billing", "event-1").await? {
    ///     tx.execute("INSERT INTO charges (order_id, amount) VALUES (42, 1250)", &[]).await?;
    /// }
    /// tx.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn first(
        &self,
        tx: &Transaction<'_>,
        consumer: &str,
        event_id: &str,
    ) -> Result<bool, StoreError> {
        let marks = self.first_all(tx, consumer, &[(event_id, None)]).await?;
        Ok(Recorded::only(marks)? == Recorded::Now)
    }

    /// The same, keeping the hash of the payload beside the id, so that a reused id can be told from a repeated event:
    /// it is an error. Give the relay's header over the stored bytes; where either hash is missing nothing is compared.
    pub async fn first_with_hash(
        &self,
        tx: &Transaction<'_>,
        consumer: &str,
        event_id: &str,
        hash: Option<&str>,
    ) -> Result<bool, FirstError> {
        let marks = self.first_all(tx, consumer, &[(event_id, hash)]).await;
        let mark = marks.and_then(Recorded::only).map_err(FirstError::Store)?;
        mark.is_first(event_id, hash).map_err(FirstError::Reused)
    }

    /// Records many events, each with its hash, in one round trip; a second one only where one was recorded before.
    /// Answers one [`Recorded`] an event, in their order. An event that is twice among them is recorded once.
    pub async fn first_all(
        &self,
        tx: &Transaction<'_>,
        consumer: &str,
        events: &[(&str, Option<&str>)],
    ) -> Result<Vec<Recorded>, StoreError> {
        refuse_unfit(events)?;
        let entries: Vec<Entry<'_>> = events.iter().map(|&(id, hash)| Entry { id, hash }).collect();
        let insert = self.tables.sql(record::INSERT);
        record::record(tx, &self.tables, &Insert::Text(&insert), consumer, &entries)
            .await
            .map_err(|error| self.explain(error, "recording an event in the inbox"))
    }

    /// The public error, with the name of the table and what to do about it when it is not there.
    fn explain(&self, error: tokio_postgres::Error, doing: &str) -> StoreError {
        explain(&self.tables, error, doing)
    }
}

fn explain(tables: &Tables, error: tokio_postgres::Error, doing: &str) -> StoreError {
    let error = store_error(error, &format!("{doing} ({})", tables.prefix()));
    match error.kind() {
        postrider_core::StoreErrorKind::Schema => error.with_advice(MAKE_IT),
        _ => error,
    }
}

/// What to do about a table that is not there.
const MAKE_IT: &str = "make the table of the inbox with `postrider inbox migrate`";
