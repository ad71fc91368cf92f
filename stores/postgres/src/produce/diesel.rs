//! Producing inside a transaction of `diesel-async`.

use diesel::sql_types::{Array, Binary, Double, Integer, Nullable, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use postrider_core::{Event, EventId};

use super::{Columns, EnqueueError, EnqueueErrorKind, Outbox};

impl Outbox {
    /// Enqueues an event on a connection that is inside `transaction(…)`; as [`Outbox::enqueue`] does. `diesel-async`
    /// has no type for a transaction, so the connection is asked whether it is in one: outside, the event is refused.
    pub async fn enqueue_diesel(
        &self,
        connection: &mut AsyncPgConnection,
        event: &Event,
    ) -> Result<EventId, EnqueueError> {
        self.insert_diesel(connection, &[event]).await?;
        Ok(event.id.clone())
    }

    /// Enqueues events in order, all of them or none, in one round trip; as [`Outbox::enqueue_all`] does.
    pub async fn enqueue_all_diesel(
        &self,
        connection: &mut AsyncPgConnection,
        events: &[Event],
    ) -> Result<Vec<EventId>, EnqueueError> {
        let events: Vec<&Event> = events.iter().collect();
        self.insert_diesel(connection, &events).await?;
        Ok(events.iter().map(|event| event.id.clone()).collect())
    }

    async fn insert_diesel(
        &self,
        connection: &mut AsyncPgConnection,
        events: &[&Event],
    ) -> Result<(), EnqueueError> {
        let columns = Columns::of(events)?;
        if !in_transaction(connection) {
            return Err(EnqueueError::new(
                EnqueueErrorKind::NoTransaction,
                diesel::result::Error::NotInTransaction,
            ));
        }
        if events.is_empty() {
            return Ok(());
        }
        let inserted = diesel::sql_query(super::with_seconds(&self.insert))
            .bind::<Array<Text>, _>(columns.id)
            .bind::<Array<Text>, _>(columns.event_type)
            .bind::<Array<Text>, _>(columns.aggregate_type)
            .bind::<Array<Text>, _>(columns.aggregate_id)
            .bind::<Array<Nullable<Text>>, _>(columns.key)
            .bind::<Array<Nullable<Text>>, _>(columns.payload)
            .bind::<Array<Nullable<Binary>>, _>(columns.payload_bytes)
            .bind::<Array<Nullable<Text>>, _>(columns.content_type)
            .bind::<Array<Nullable<Text>>, _>(columns.headers)
            .bind::<Array<Integer>, _>(columns.priority)
            .bind::<Array<Nullable<Double>>, _>(super::seconds(&columns.available_at))
            .bind::<Array<Nullable<Double>>, _>(super::seconds(&columns.created_at))
            .execute(connection)
            .await;
        inserted.map_err(|error| self.explain_diesel(error, events))?;
        super::saved(events);
        Ok(())
    }

    /// `diesel` has no SQLSTATE in its errors, but a kind for what matters here.
    fn explain_diesel(&self, error: diesel::result::Error, events: &[&Event]) -> EnqueueError {
        use diesel::result::DatabaseErrorKind::UniqueViolation;
        let kind = match &error {
            diesel::result::Error::DatabaseError(UniqueViolation, said) => {
                self.kind(Some("23505"), said.constraint_name(), said.details(), events)
            }
            diesel::result::Error::DatabaseError(_, said) if said.message().contains("does not exist") => {
                EnqueueErrorKind::Schema
            }
            _ => EnqueueErrorKind::Store,
        };
        EnqueueError::new(kind, error)
    }
}

fn in_transaction(connection: &mut AsyncPgConnection) -> bool {
    use diesel_async::TransactionManager;
    type Manager = <AsyncPgConnection as diesel_async::AsyncConnection>::TransactionManager;
    let status = Manager::transaction_manager_status_mut(connection);
    matches!(status.transaction_depth(), Ok(Some(_)))
}
