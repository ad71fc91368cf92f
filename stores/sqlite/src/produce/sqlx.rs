//! Producing inside a transaction of `sqlx`.

use postrider_core::{Event, EventId};
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Sqlite, Transaction};

use super::{Columns, EnqueueError, EnqueueErrorKind, Moment, Outbox};

impl Outbox {
    /// Enqueues an event in the caller's transaction; as [`Outbox::enqueue`] does.
    pub async fn enqueue_sqlx(
        &self,
        tx: &mut Transaction<'_, Sqlite>,
        event: &Event,
    ) -> Result<EventId, EnqueueError> {
        let columns = Columns::of(event)?;
        self.insert_sqlx(tx, &columns).await
    }

    /// Enqueues events in order; as [`Outbox::enqueue_all`] does.
    pub async fn enqueue_all_sqlx(
        &self,
        tx: &mut Transaction<'_, Sqlite>,
        events: &[Event],
    ) -> Result<Vec<EventId>, EnqueueError> {
        let columns = events.iter().map(Columns::of).collect::<Result<Vec<_>, _>>()?;
        let mut ids = Vec::with_capacity(columns.len());
        for columns in &columns {
            ids.push(self.insert_sqlx(tx, columns).await?);
        }
        Ok(ids)
    }

    async fn insert_sqlx(
        &self,
        tx: &mut Transaction<'_, Sqlite>,
        columns: &Columns<'_>,
    ) -> Result<EventId, EnqueueError> {
        let event = columns.event;
        let query = sqlx::query(sqlx::AssertSqlSafe(self.insert.clone()))
            .bind(event.id.as_str().to_owned())
            .bind(event.event_type.clone())
            .bind(event.aggregate_type.clone())
            .bind(event.aggregate_id.clone())
            .bind(event.key.clone())
            .bind(columns.payload_text().map(str::to_owned))
            .bind(columns.payload_bytes().map(<[u8]>::to_vec))
            .bind(event.content_type.clone())
            .bind(columns.headers.clone())
            .bind(event.priority);
        let query = bind(bind(query, &columns.available_at), &columns.created_at);
        match query.execute(&mut **tx).await {
            Ok(_) => {
                super::saved(event);
                Ok(event.id.clone())
            }
            Err(error) => Err(self.explain_sqlx(error, event)),
        }
    }

    fn explain_sqlx(&self, error: sqlx::Error, event: &Event) -> EnqueueError {
        let kind = match &error {
            sqlx::Error::Database(database) if self.is_duplicate(database.message()) => {
                EnqueueErrorKind::DuplicateId(event.id.clone())
            }
            sqlx::Error::Database(database) if crate::error::missing(database.message()) => {
                EnqueueErrorKind::Schema
            }
            _ => EnqueueErrorKind::Store,
        };
        EnqueueError::new(kind, error)
    }
}

fn bind<'q>(
    query: Query<'q, Sqlite, SqliteArguments>,
    moment: &Moment,
) -> Query<'q, Sqlite, SqliteArguments> {
    match moment {
        Moment::Text(text) => query.bind(text.clone()),
        Moment::Number(number) => query.bind(*number),
        Moment::Null => query.bind(None::<String>),
    }
}
