//! The consumer's record of what has taken effect.

use std::time::{Duration, Instant};

use postrider_core::{OnceError, StoreError, StoreErrorKind};
use tokio_postgres::{Client, Transaction};

use crate::clock;
use crate::error::{self, store_error};
use crate::ident::{IdentError, Tables};

/// How long [`Inbox::once`] goes on trying while other transactions stand in the way.
const PATIENCE: Duration = Duration::from_secs(30);

/// The inbox of a consumer's database: an event takes effect once per consumer, however often it is delivered.
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
    pub fn new(prefix: &str) -> Result<Inbox, IdentError> {
        Self::in_schema("public", prefix)
    }

    /// The inbox in this table of a schema.
    pub fn in_schema(schema: &str, prefix: &str) -> Result<Inbox, IdentError> {
        let tables = Tables::new(schema, prefix)?;
        Ok(Self { tables })
    }

    /// Makes the table where it is missing.
    pub async fn migrate(&self, client: &Client) -> Result<(), StoreError> {
        let sql = self.tables.sql(include_str!("sql/inbox.sql"));
        client
            .batch_execute(&sql)
            .await
            .map_err(|error| store_error(error, "making the inbox table"))
    }

    /// Records an event in the transaction of its effect; false when it has taken effect before. Call it before the
    /// effect, so that of two deliveries at once the second waits here and then sees the first.
    pub async fn first(
        &self,
        tx: &Transaction<'_>,
        consumer: &str,
        event_id: &str,
    ) -> Result<bool, StoreError> {
        self.first_with_hash(tx, consumer, event_id, None).await
    }

    /// The same, keeping the hash of the payload beside the id, so that a reused id can be told from a repeated event.
    pub async fn first_with_hash(
        &self,
        tx: &Transaction<'_>,
        consumer: &str,
        event_id: &str,
        hash: Option<&str>,
    ) -> Result<bool, StoreError> {
        self.record(tx, consumer, event_id, hash)
            .await
            .map_err(|error| self.explain(error, "recording an event in the inbox"))
    }

    /// Runs an effect once: begins, records, runs, commits. None when the event has taken effect before. After a
    /// serialisation failure or a deadlock it is tried again, so the effect must leave nothing behind but what it
    /// does in its transaction.
    pub async fn once<T, E>(
        &self,
        client: &mut Client,
        consumer: &str,
        event_id: &str,
        mut effect: impl AsyncFnMut(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<Option<T>, OnceError<E>>
    where
        E: std::error::Error + 'static,
    {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = Duration::from_millis(2);
        loop {
            match self.attempt(client, consumer, event_id, &mut effect).await {
                Err(failed) if failed.is_passing() && Instant::now() < deadline => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_millis(200));
                }
                Err(Attempt::Store(error)) => {
                    return Err(OnceError::Store(self.explain(error, "running an effect once")));
                }
                Err(Attempt::Effect(error)) => return Err(OnceError::Effect(error)),
                Ok(done) => return Ok(done),
            }
        }
    }

    /// Forgets an event, so that it takes effect again when it is delivered again; true when it was known.
    pub async fn forget(&self, client: &Client, consumer: &str, event_id: &str) -> Result<bool, StoreError> {
        let sql = self
            .tables
            .sql("DELETE FROM {outbox} WHERE consumer = $1 AND event_id = $2");
        match client.execute(&sql, &[&consumer, &event_id]).await {
            Ok(rows) => Ok(rows > 0),
            Err(error) => Err(self.explain(error, "forgetting an event of the inbox")),
        }
    }

    /// Removes records older than the longest time after which a broker can still redeliver, at most `limit` rows;
    /// answers how many.
    pub async fn purge(&self, client: &Client, older_than: Duration, limit: u32) -> Result<u64, StoreError> {
        let sql = self.tables.sql(
            "DELETE FROM {outbox} WHERE (consumer, event_id) IN (
                 SELECT consumer, event_id FROM {outbox}
                 WHERE processed_at < clock_timestamp() - make_interval(secs => $1)
                 ORDER BY processed_at LIMIT $2)",
        );
        let gone = client
            .execute(&sql, &[&clock::seconds(older_than), &i64::from(limit)])
            .await;
        gone.map_err(|error| self.explain(error, "purging the inbox"))
    }

    async fn record(
        &self,
        tx: &Transaction<'_>,
        consumer: &str,
        event_id: &str,
        hash: Option<&str>,
    ) -> Result<bool, tokio_postgres::Error> {
        let sql = self.tables.sql(
            "INSERT INTO {outbox} (consumer, event_id, payload_hash) VALUES ($1, $2, $3)
             ON CONFLICT (consumer, event_id) DO NOTHING",
        );
        Ok(tx.execute(&sql, &[&consumer, &event_id, &hash]).await? == 1)
    }

    async fn attempt<T, E>(
        &self,
        client: &mut Client,
        consumer: &str,
        event_id: &str,
        effect: &mut impl AsyncFnMut(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<Option<T>, Attempt<E>> {
        let tx = client.transaction().await.map_err(Attempt::Store)?;
        if !self
            .record(&tx, consumer, event_id, None)
            .await
            .map_err(Attempt::Store)?
        {
            return Ok(None);
        }
        let done = effect(&tx).await.map_err(Attempt::Effect)?;
        tx.commit().await.map_err(Attempt::Store)?;
        Ok(Some(done))
    }

    fn explain(&self, error: tokio_postgres::Error, doing: &str) -> StoreError {
        store_error(error, &format!("{doing} ({})", self.tables.prefix()))
    }
}

/// Why one attempt ended.
enum Attempt<E> {
    Store(tokio_postgres::Error),
    Effect(E),
}

impl<E: std::error::Error + 'static> Attempt<E> {
    /// Whether waiting and trying again may help: the effect's own error counts when a driver's error is behind it.
    fn is_passing(&self) -> bool {
        let busy = |error: &tokio_postgres::Error| error::kind(error) == StoreErrorKind::Busy;
        match self {
            Attempt::Store(error) => busy(error),
            Attempt::Effect(error) => {
                let mut at: Option<&(dyn std::error::Error + 'static)> = Some(error);
                while let Some(one) = at {
                    if one.downcast_ref::<tokio_postgres::Error>().is_some_and(busy) {
                        return true;
                    }
                    at = one.source();
                }
                false
            }
        }
    }
}
