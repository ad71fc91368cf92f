//! Producing: an event goes into the outbox in the caller's own transaction.

#[cfg(feature = "diesel-async")]
mod diesel;
#[cfg(feature = "sqlx")]
mod sqlx;
mod tokio_postgres;

use std::error::Error as StdError;
use std::fmt;

use postrider_core::{Event, EventId, InvalidEvent, Payload, StoreError, StoreErrorKind, inert, limits};

use crate::clock::Micros;
use crate::error;
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

/// One statement for one event or for a thousand: each column is an array. Places are given in the order of the arrays.
const INSERT: &str = "INSERT INTO {outbox} (event_id, event_type, aggregate_type, aggregate_id, event_key, payload,
        payload_bytes, content_type, headers, priority, available_at, created_at)
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::text[],
        $9::text[], $10::integer[], $11::timestamptz[], $12::timestamptz[])";

impl Outbox {
    /// The outbox of this prefix in the schema `public`; the same as in [`PgOptions::prefix`](crate::PgOptions::prefix).
    pub fn new(prefix: &str) -> Result<Outbox, IdentError> {
        Self::in_schema("public", prefix)
    }

    /// The outbox of this prefix in a schema.
    pub fn in_schema(schema: &str, prefix: &str) -> Result<Outbox, IdentError> {
        Tables::new(schema, prefix).map(Outbox::of)
    }

    pub(crate) fn of(tables: Tables) -> Self {
        let insert = tables.sql(INSERT);
        Self { tables, insert }
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// What a refusal of the server is: by SQLSTATE and constraint, because messages are translated. The id is the one of
    /// the first event; the server's own words name the right one of a batch.
    fn kind(
        &self,
        state: Option<&str>,
        constraint: Option<&str>,
        detail: Option<&str>,
        events: &[&Event],
    ) -> EnqueueErrorKind {
        let unique = format!("{}_event_id_key", self.tables.prefix());
        match state {
            Some("23505") if constraint == Some(&unique) => {
                let named = |event: &&&Event| {
                    let key = format!("=({})", event.id);
                    detail.is_some_and(|detail| detail.contains(&key))
                };
                let event = events.iter().find(named).or(events.first());
                event.map_or(EnqueueErrorKind::Store, |event| {
                    EnqueueErrorKind::DuplicateId(event.id.clone())
                })
            }
            Some(state) if error::kind_of_state(state) == StoreErrorKind::Schema => EnqueueErrorKind::Schema,
            _ => EnqueueErrorKind::Store,
        }
    }
}

impl Default for Outbox {
    fn default() -> Self {
        Self::of(Tables::default())
    }
}

/// What kind of failure an enqueue is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnqueueErrorKind {
    /// The event breaks a limit; nothing was sent to the database.
    Invalid(InvalidEvent),
    /// An event with this id is in the outbox already.
    DuplicateId(EventId),
    /// The connection is not in a transaction: the event would be committed apart from what it speaks of.
    NoTransaction,
    /// The outbox table is missing or of another version.
    Schema,
    /// Anything else that the database says.
    Store,
}

/// An event was not enqueued. After anything but [`EnqueueErrorKind::Invalid`] PostgreSQL takes
/// nothing more in this transaction: roll it back.
#[derive(Debug)]
pub struct EnqueueError {
    kind: EnqueueErrorKind,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl EnqueueError {
    /// What kind of failure it is.
    pub fn kind(&self) -> &EnqueueErrorKind {
        &self.kind
    }

    fn new(kind: EnqueueErrorKind, source: impl StdError + Send + Sync + 'static) -> Self {
        Self {
            kind,
            source: Some(Box::new(source)),
        }
    }
}

impl From<InvalidEvent> for EnqueueError {
    fn from(invalid: InvalidEvent) -> Self {
        Self {
            kind: EnqueueErrorKind::Invalid(invalid),
            source: None,
        }
    }
}

impl From<StoreError> for EnqueueError {
    fn from(error: StoreError) -> Self {
        let kind = match error.kind() {
            StoreErrorKind::Schema => EnqueueErrorKind::Schema,
            _ => EnqueueErrorKind::Store,
        };
        Self::new(kind, error)
    }
}

impl fmt::Display for EnqueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            EnqueueErrorKind::Invalid(invalid) => {
                write!(f, "the event is not valid and was not enqueued: {invalid}")
            }
            EnqueueErrorKind::DuplicateId(id) => write!(
                f,
                "an event with the id {id} is queued already; give every event an id of its own, or take this as \
                 success if it is the same event enqueued twice"
            ),
            EnqueueErrorKind::NoTransaction => f.write_str(
                "the connection is not in a transaction; enqueue inside the one that the event belongs to",
            ),
            EnqueueErrorKind::Schema => {
                f.write_str("the outbox table is missing or of another version; run `postrider migrate up`")
            }
            EnqueueErrorKind::Store => f.write_str(
                "the database did not take the event; roll the transaction back and try it again as a whole",
            ),
        }
    }
}

impl StdError for EnqueueError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match (&self.kind, &self.source) {
            (EnqueueErrorKind::Invalid(invalid), _) => Some(invalid),
            (_, Some(source)) => Some(&**source),
            (_, None) => None,
        }
    }
}

/// Events in the form of the columns.
#[derive(Default)]
struct Columns<'a> {
    id: Vec<&'a str>,
    event_type: Vec<&'a str>,
    aggregate_type: Vec<&'a str>,
    aggregate_id: Vec<&'a str>,
    key: Vec<Option<&'a str>>,
    payload: Vec<Option<&'a str>>,
    payload_bytes: Vec<Option<&'a [u8]>>,
    content_type: Vec<Option<&'a str>>,
    headers: Vec<Option<String>>,
    priority: Vec<i32>,
    available_at: Vec<Option<Micros>>,
    created_at: Vec<Option<Micros>>,
}

impl<'a> Columns<'a> {
    /// Checks the events before the database sees them: a statement that fails spoils the whole business transaction.
    fn of(events: &[&'a Event]) -> Result<Self, InvalidEvent> {
        let mut columns = Self::default();
        for event in events {
            event.validate()?;
            columns.push(event)?;
        }
        Ok(columns)
    }

    fn push(&mut self, event: &'a Event) -> Result<(), InvalidEvent> {
        let (text, bytes) = match &event.payload {
            Payload::Text(text) if text.contains('\0') => {
                return Err(InvalidEvent {
                    field: "payload",
                    reason:
                        "has the character U+0000, which PostgreSQL does not store in text; give it as bytes"
                            .to_owned(),
                });
            }
            Payload::Text(text) => (Some(text.as_str()), None),
            Payload::Bytes(bytes) => (None, Some(&bytes[..])),
            Payload::Tombstone => (None, None),
        };
        self.id.push(event.id.as_str());
        self.event_type.push(&event.event_type);
        self.aggregate_type.push(&event.aggregate_type);
        self.aggregate_id.push(&event.aggregate_id);
        self.key.push(event.key.as_deref());
        self.payload.push(text);
        self.payload_bytes.push(bytes);
        self.content_type.push(event.content_type.as_deref());
        self.headers
            .push((!event.headers.is_empty()).then(|| headers(event)));
        self.priority.push(event.priority);
        self.available_at.push(event.available_at.map(Micros::from));
        self.created_at.push(event.created_at.map(Micros::from));
        Ok(())
    }
}

/// The same statement for drivers that have no type for times without one more dependency: seconds since 1970.
#[cfg(any(feature = "sqlx", feature = "diesel-async"))]
fn with_seconds(insert: &str) -> String {
    let insert = insert.replace(
        "SELECT * FROM unnest(",
        "SELECT i, t, a, d, k, p, b, c, h, n, to_timestamp(x), to_timestamp(y) FROM unnest(",
    );
    let insert = insert.replace(
        "$11::timestamptz[], $12::timestamptz[])",
        "$11::double precision[], $12::double precision[])",
    );
    format!("{insert} e(i, t, a, d, k, p, b, c, h, n, x, y)")
}

fn headers(event: &Event) -> String {
    let object = event
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), serde_json::Value::from(value.as_str())));
    serde_json::Value::Object(object.collect()).to_string()
}

/// One line an event, for whoever looks for where it got lost: it is in the caller's transaction, not yet committed.
fn saved(events: &[&Event]) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    for event in events {
        let (event_id, event_type) = (
            inert(event.id.as_str(), limits::ID),
            inert(&event.event_type, limits::ID),
        );
        tracing::debug!(%event_id, %event_type, bytes = event.payload.len(), "saved");
    }
}
