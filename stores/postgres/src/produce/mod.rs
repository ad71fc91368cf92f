//! Producing: an event goes into the outbox in the caller's own transaction.

#[cfg(feature = "diesel-async")]
mod diesel;
#[cfg(feature = "sqlx")]
mod sqlx;
mod tokio_postgres;

use postrider_core::{
    EnqueueError, EnqueueErrorKind, Event, InvalidEvent, Payload, StoreErrorKind, inert, limits,
};

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
const INSERT: &str =
    "INSERT INTO {outbox} (event_id, event_type, aggregate_type, aggregate_id, event_key, payload,
        payload_bytes, content_type, headers, priority, available_at, created_at)
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[],
    $8::text[], $9::text[], $10::integer[], $11::timestamptz[], $12::timestamptz[])";

impl Outbox {
    /// The outbox of this prefix in the schema `public`; the same as in
    /// [`PgOptions::prefix`](crate::PgOptions::prefix).
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

    /// The schema that the tables are in.
    pub fn schema(&self) -> &str {
        self.tables.schema()
    }

    /// The quoted name of a table or view of this outbox, by what is behind the prefix, for statements of a service's
    /// own: `""` is the queue, `"_events"` the view that people and monitoring read.
    ///
    /// ```
    /// let outbox = postrider_postgres::Outbox::default();
    /// assert_eq!(outbox.relation("_events"), r#""public"."outbox_events""#);
    /// ```
    pub fn relation(&self, suffix: &str) -> String {
        self.tables.relation(suffix)
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// What a refusal of the server is: by SQLSTATE and constraint, because messages are translated. The id is the
    /// one of the first event; the server's own words name the right one of a batch.
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
        self.headers.push(event.headers_text());
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

#[cfg(any(feature = "sqlx", feature = "diesel-async"))]
fn seconds(times: &[Option<Micros>]) -> Vec<Option<f64>> {
    let seconds = |time: &Option<Micros>| time.map(|time| time.0 as f64 / 1e6);
    times.iter().map(seconds).collect()
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
        let key = inert(&event.key_text(), limits::ID);
        tracing::debug!(%event_id, %event_type, %key, bytes = event.payload.len(), "saved");
    }
}
