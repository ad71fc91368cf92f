//! Producing: an event goes into the outbox in the caller's own transaction.

mod rusqlite;
#[cfg(feature = "sqlx")]
mod sqlx;

use postrider_core::{EnqueueError, EnqueueErrorKind, Event, InvalidEvent, inert, limits};

use crate::clock;
use crate::ident::{IdentError, Tables};

/// The outbox as a producer sees it: the name of the table, and nothing else.
///
/// Every method takes the caller's transaction, never a connection or a pool: an event that is committed apart from the
/// business row it speaks of is exactly what an outbox is there to prevent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbox {
    tables: Tables,
    insert: String,
}

impl Outbox {
    /// The outbox of this prefix; the same as in [`SqliteOptions::prefix`](crate::SqliteOptions::prefix).
    pub fn new(prefix: &str) -> Result<Outbox, IdentError> {
        Tables::new(prefix).map(Outbox::of)
    }

    fn of(tables: Tables) -> Self {
        let insert = tables.sql(
            "INSERT INTO {outbox} (event_id, event_type, aggregate_type, aggregate_id, event_key, payload,
                    payload_bytes, content_type, headers, priority, available_at, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        );
        Self { tables, insert }
    }

    /// The quoted name of the table or view of this outbox that has this suffix, for statements beside it: `_events` is
    /// the view that people read.
    ///
    /// ```
    /// assert_eq!(postrider_sqlite::Outbox::default().relation("_events"), "\"outbox_events\"");
    /// ```
    pub fn relation(&self, suffix: &str) -> String {
        format!("\"{}{}\"", self.tables.prefix(), suffix.replace('"', "\"\""))
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Whether a message of SQLite is about the unique id of this table, and not about any other constraint.
    fn is_duplicate(&self, message: &str) -> bool {
        let named = format!("UNIQUE constraint failed: {}.event_id", self.tables.prefix());
        message.to_ascii_lowercase().contains(&named.to_ascii_lowercase())
    }
}

impl Default for Outbox {
    fn default() -> Self {
        Self::of(Tables::default())
    }
}

/// An event in the form of the columns.
struct Columns<'a> {
    event: &'a Event,
    headers: Option<String>,
    available_at: Moment,
    created_at: Moment,
}

/// A time as a column takes it: text, or a number where the calendar ends, or null.
enum Moment {
    Text(String),
    Number(i64),
    Null,
}

impl<'a> Columns<'a> {
    /// Checks the event before the database sees it, so that a bad one never costs the business transaction a
    /// statement.
    fn of(event: &'a Event) -> Result<Self, InvalidEvent> {
        event.validate()?;
        let moment = |time: Option<_>| match time.map(clock::text) {
            Some(Ok(text)) => Moment::Text(text),
            Some(Err(number)) => Moment::Number(number),
            None => Moment::Null,
        };
        Ok(Self {
            event,
            headers: event.headers_text(),
            available_at: moment(event.available_at),
            created_at: moment(event.created_at),
        })
    }

    fn payload_text(&self) -> Option<&str> {
        match &self.event.payload {
            postrider_core::Payload::Text(text) => Some(text),
            _ => None,
        }
    }

    fn payload_bytes(&self) -> Option<&[u8]> {
        match &self.event.payload {
            postrider_core::Payload::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// One line an event, for whoever looks for where it got lost: it is in the caller's transaction, not yet committed.
fn saved(event: &Event) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let (event_id, event_type) = (
        inert(event.id.as_str(), limits::ID),
        inert(&event.event_type, limits::ID),
    );
    let key = inert(&event.key_text(), limits::ID);
    tracing::debug!(%event_id, %event_type, %key, bytes = event.payload.len(), "saved");
}
