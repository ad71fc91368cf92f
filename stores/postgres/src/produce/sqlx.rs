//! Producing inside a transaction of `sqlx`, and a store on the database of a `sqlx` pool.

use postrider_core::{Event, EventId, StoreError};
use sqlx::postgres::PgDatabaseError;
use sqlx::{ConnectOptions, PgPool, Postgres, Transaction};

use super::{Columns, EnqueueError, EnqueueErrorKind, Outbox};
use crate::{PgOptions, PgStore};

impl Outbox {
    /// Enqueues an event in the caller's transaction; as [`Outbox::enqueue`] does.
    pub async fn enqueue_sqlx(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        event: &Event,
    ) -> Result<EventId, EnqueueError> {
        self.insert_sqlx(tx, &[event]).await?;
        Ok(event.id.clone())
    }

    /// Enqueues events in order, all of them or none, in one round trip; as [`Outbox::enqueue_all`] does.
    pub async fn enqueue_all_sqlx(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        events: &[Event],
    ) -> Result<Vec<EventId>, EnqueueError> {
        let events: Vec<&Event> = events.iter().collect();
        self.insert_sqlx(tx, &events).await?;
        Ok(events.iter().map(|event| event.id.clone()).collect())
    }

    async fn insert_sqlx(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        events: &[&Event],
    ) -> Result<(), EnqueueError> {
        let columns = Columns::of(events)?;
        if events.is_empty() {
            return Ok(());
        }
        let inserted = sqlx::query(sqlx::AssertSqlSafe(super::with_seconds(&self.insert)))
            .bind(owned(&columns.id))
            .bind(owned(&columns.event_type))
            .bind(owned(&columns.aggregate_type))
            .bind(owned(&columns.aggregate_id))
            .bind(optional(&columns.key))
            .bind(optional(&columns.payload))
            .bind(
                columns
                    .payload_bytes
                    .iter()
                    .map(|bytes| bytes.map(<[u8]>::to_vec))
                    .collect::<Vec<_>>(),
            )
            .bind(optional(&columns.content_type))
            .bind(columns.headers.clone())
            .bind(columns.priority.clone())
            .bind(super::seconds(&columns.available_at))
            .bind(super::seconds(&columns.created_at))
            .execute(&mut **tx)
            .await;
        inserted.map_err(|error| self.explain_sqlx(error, events))?;
        super::saved(events);
        Ok(())
    }

    fn explain_sqlx(&self, error: sqlx::Error, events: &[&Event]) -> EnqueueError {
        let kind = match &error {
            sqlx::Error::Database(said) => {
                let said = said.try_downcast_ref::<PgDatabaseError>();
                self.kind(
                    said.map(PgDatabaseError::code),
                    said.and_then(PgDatabaseError::constraint),
                    said.and_then(PgDatabaseError::detail),
                    events,
                )
            }
            _ => EnqueueErrorKind::Store,
        };
        EnqueueError::new(kind, error)
    }
}

impl PgStore {
    /// A store on the database that a pool leads to, as `#[sqlx::test]` gives one. It has connections of its own: the
    /// relay pipelines, which `sqlx` does not, and must not wait for a pool that the application has emptied.
    pub fn from_sqlx(pool: &PgPool, options: PgOptions) -> Result<PgStore, StoreError> {
        let mut url = pool.connect_options().to_url_lossy();
        // What else is in it is for `sqlx`.
        let mode = url
            .query_pairs()
            .find(|(name, _)| name == "sslmode")
            .map(|(_, mode)| mode.into_owned());
        url.set_query(mode.map(|mode| format!("sslmode={mode}")).as_deref());
        PgStore::lazy(url.as_str(), options)
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn optional(texts: &[Option<&str>]) -> Vec<Option<String>> {
    texts.iter().map(|text| text.map(str::to_owned)).collect()
}
