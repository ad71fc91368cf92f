//! Producing inside a transaction of `rusqlite`.

use postrider_core::{Event, EventId, StoreErrorKind};
use rusqlite::types::{ToSql, ToSqlOutput, Value, ValueRef};
use rusqlite::{Statement, Transaction, params};

use super::{Columns, EnqueueError, EnqueueErrorKind, Moment, Outbox};
use crate::error;

impl Outbox {
    /// Enqueues an event in the caller's transaction. It is published if and only if that commits.
    ///
    /// A commit whose answer was lost may be repeated with the same event: if the first one had worked, the id is a
    /// duplicate now.
    pub fn enqueue(&self, tx: &Transaction<'_>, event: &Event) -> Result<EventId, EnqueueError> {
        let columns = Columns::of(event)?;
        let mut insert = tx
            .prepare_cached(&self.insert)
            .map_err(|error| self.explain(error, event))?;
        self.insert(&mut insert, &columns)
    }

    /// Enqueues events in order, all of them or, on an error, those before the one that failed: roll the transaction
    /// back then. Every event is checked before the first is inserted.
    pub fn enqueue_all(&self, tx: &Transaction<'_>, events: &[Event]) -> Result<Vec<EventId>, EnqueueError> {
        let columns = events.iter().map(Columns::of).collect::<Result<Vec<_>, _>>()?;
        let Some(first) = events.first() else {
            return Ok(Vec::new());
        };
        let mut insert = tx
            .prepare_cached(&self.insert)
            .map_err(|error| self.explain(error, first))?;
        columns
            .iter()
            .map(|columns| self.insert(&mut insert, columns))
            .collect()
    }

    fn insert(&self, insert: &mut Statement<'_>, columns: &Columns<'_>) -> Result<EventId, EnqueueError> {
        let event = columns.event;
        insert
            .execute(params![
                event.id.as_str(),
                event.event_type,
                event.aggregate_type,
                event.aggregate_id,
                event.key,
                columns.payload_text(),
                columns.payload_bytes(),
                event.content_type,
                columns.headers,
                event.priority,
                columns.available_at,
                columns.created_at,
            ])
            .map_err(|error| self.explain(error, event))?;
        super::saved(event);
        Ok(event.id.clone())
    }

    fn explain(&self, error: rusqlite::Error, event: &Event) -> EnqueueError {
        let kind = match &error {
            rusqlite::Error::SqliteFailure(_, Some(message)) if self.is_duplicate(message) => {
                EnqueueErrorKind::DuplicateId(event.id.clone())
            }
            error if error::kind(error) == StoreErrorKind::Schema => EnqueueErrorKind::Schema,
            _ => EnqueueErrorKind::Store,
        };
        EnqueueError::new(kind, error)
    }
}

impl ToSql for Moment {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Moment::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Moment::Number(number) => ToSqlOutput::Owned(Value::Integer(*number)),
            Moment::Null => ToSqlOutput::Owned(Value::Null),
        })
    }
}
