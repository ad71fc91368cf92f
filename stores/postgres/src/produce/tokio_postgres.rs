//! Producing inside a transaction of `tokio-postgres`.

use postrider_core::{Event, EventId};
use tokio_postgres::error::DbError;
use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Transaction};

use super::{Columns, EnqueueError, Outbox};

/// The types of the columns: named, so that one round trip does it all.
const TYPES: [Type; 12] = [
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::BYTEA_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT4_ARRAY,
    Type::TIMESTAMPTZ_ARRAY,
    Type::TIMESTAMPTZ_ARRAY,
];

impl Outbox {
    /// Enqueues an event in the caller's transaction, in one round trip. It is published if and only if that commits.
    ///
    /// A commit whose answer was lost may be repeated with the same event: if the first one had worked, the id is a
    /// duplicate now.
    pub async fn enqueue(&self, tx: &Transaction<'_>, event: &Event) -> Result<EventId, EnqueueError> {
        self.insert(tx, &[event]).await?;
        Ok(event.id.clone())
    }

    /// Enqueues events in order, all of them or none, in one round trip.
    pub async fn enqueue_all(
        &self,
        tx: &Transaction<'_>,
        events: &[Event],
    ) -> Result<Vec<EventId>, EnqueueError> {
        let events: Vec<&Event> = events.iter().collect();
        self.insert(tx, &events).await?;
        Ok(events.iter().map(|event| event.id.clone()).collect())
    }

    pub(crate) async fn insert(
        &self,
        tx: &impl GenericClient,
        events: &[&Event],
    ) -> Result<(), EnqueueError> {
        let columns = Columns::of(events)?;
        if events.is_empty() {
            return Ok(());
        }
        let mut types = TYPES.into_iter();
        let mut typed = |value| (value, types.next().unwrap_or(Type::TEXT_ARRAY));
        let values = [
            typed(&columns.id as &(dyn tokio_postgres::types::ToSql + Sync)),
            typed(&columns.event_type),
            typed(&columns.aggregate_type),
            typed(&columns.aggregate_id),
            typed(&columns.key),
            typed(&columns.payload),
            typed(&columns.payload_bytes),
            typed(&columns.content_type),
            typed(&columns.headers),
            typed(&columns.priority),
            typed(&columns.available_at),
            typed(&columns.created_at),
        ];
        let inserted = tx.query_typed(&self.insert, &values).await;
        inserted.map_err(|error| self.explain(error, events))?;
        super::saved(events);
        Ok(())
    }

    fn explain(&self, error: tokio_postgres::Error, events: &[&Event]) -> EnqueueError {
        let said = error.as_db_error();
        let kind = self.kind(
            said.map(|said| said.code().code()),
            said.and_then(DbError::constraint),
            said.and_then(DbError::detail),
            events,
        );
        EnqueueError::new(kind, error)
    }
}
