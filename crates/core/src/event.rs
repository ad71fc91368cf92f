//! What a service says happened.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::Serialize;
use uuid::Uuid;

use crate::{EventId, InvalidEvent, Lane, OrderKey, Payload, validate};

/// Microseconds since 1970, UTC. What databases keep; no time-zone, no calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The wall clock of this machine. Good for showing; never used in a decision between processes.
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let micros = |d: Duration| i64::try_from(d.as_micros()).unwrap_or(i64::MAX);
        match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => Self(micros(after)),
            Err(before) => Self(-micros(before.duration())),
        }
    }
}

/// An event: what a service's transaction commits beside its business row.
///
/// Fields are public because stores and tests build events from rows; [`Event::builder`] is the way for services, and
/// [`Event::validate`] checks the same limits for both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Identifies the event end to end; made as a UUIDv7 when the producer gives none.
    pub id: EventId,
    /// What happened, such as `OrderPlaced`.
    pub event_type: String,
    /// The kind of thing it happened to.
    pub aggregate_type: String,
    /// The thing it happened to.
    pub aggregate_id: String,
    /// What order is kept by; none: aggregate type and id.
    pub key: Option<String>,
    /// What the event carries, byte-exact.
    pub payload: Payload,
    /// None: `application/json`, or `application/octet-stream` for bytes.
    pub content_type: Option<String>,
    /// Correlation id, trace context and the like.
    pub headers: BTreeMap<String, String>,
    /// Positive overtakes, negative yields.
    pub priority: i32,
    /// Not to be published before.
    pub available_at: Option<Timestamp>,
    /// When it was made; the database's now when the producer gives none.
    pub created_at: Option<Timestamp>,
}

impl Event {
    /// Starts an event of a type.
    ///
    /// ```
    /// # use postrider_core::Event;
    /// let event = Event::builder("OrderPlaced").aggregate("ORDER", "42").json("{}").build()?;
    /// # Ok::<(), postrider_core::InvalidEvent>(())
    /// ```
    pub fn builder(event_type: impl Into<String>) -> EventBuilder {
        EventBuilder {
            event: Event {
                id: EventId::new(Uuid::now_v7().to_string()),
                event_type: event_type.into(),
                aggregate_type: String::new(),
                aggregate_id: String::new(),
                key: None,
                payload: Payload::Tombstone,
                content_type: None,
                headers: BTreeMap::new(),
                priority: 0,
                available_at: None,
                created_at: None,
            },
            error: None,
        }
    }

    /// What order is kept by: the key given, or aggregate type and id with a unit separator between them.
    pub fn order_key(&self) -> OrderKey {
        match &self.key {
            Some(key) => OrderKey::new(key.as_str()),
            None => OrderKey::new(format!("{}\u{1f}{}", self.aggregate_type, self.aggregate_id)),
        }
    }

    /// The headers as the column of a store has them: a JSON object of strings, or none.
    pub fn headers_text(&self) -> Option<String> {
        let object = self
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), serde_json::Value::from(value.as_str())));
        (!self.headers.is_empty()).then(|| serde_json::Value::Object(object.collect()).to_string())
    }

    /// The same for people, headers and templates: the key given, or `type/id` of the aggregate.
    pub fn key_text(&self) -> Cow<'_, str> {
        match &self.key {
            Some(key) => Cow::Borrowed(key),
            None => Cow::Owned(format!("{}/{}", self.aggregate_type, self.aggregate_id)),
        }
    }

    /// The lane of its priority.
    pub fn lane(&self) -> Lane {
        Lane::of(i64::from(self.priority))
    }

    /// The content type given, or the default of its payload.
    pub fn content_type(&self) -> &str {
        self.content_type
            .as_deref()
            .unwrap_or(self.payload.default_content_type())
    }

    /// Whether two events with one id are one event. Headers do not count: a producer that repeats itself sends a new
    /// trace context with the same event.
    pub fn same_content(&self, other: &Event) -> bool {
        self.payload.as_bytes() == other.payload.as_bytes()
            && self.content_type() == other.content_type()
            && self.event_type == other.event_type
            && self.aggregate_type == other.aggregate_type
            && self.aggregate_id == other.aggregate_id
            && self.key == other.key
    }

    /// Checks every limit; the error names the field and the limit.
    pub fn validate(&self) -> Result<(), InvalidEvent> {
        validate::event(self)
    }

    /// Roughly what the event occupies in memory: what windows are bounded by.
    pub fn size(&self) -> usize {
        let headers: usize = self
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.len() + 48)
            .sum();
        256 + self.payload.len() + headers
    }
}

/// Builds an [`Event`]; every limit is checked by [`EventBuilder::build`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until build() is called"]
pub struct EventBuilder {
    event: Event,
    error: Option<InvalidEvent>,
}

impl EventBuilder {
    /// The id, when the producer has one of its own: the same id twice is one event.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.event.id = EventId::new(id.into());
        self
    }

    /// What it happened to. Also the key that order is kept by, unless [`EventBuilder::key`] says otherwise.
    pub fn aggregate(mut self, aggregate_type: impl Into<String>, aggregate_id: impl ToString) -> Self {
        self.event.aggregate_type = aggregate_type.into();
        self.event.aggregate_id = aggregate_id.to_string();
        self
    }

    /// What order is kept by, where the aggregate is not the right answer.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.event.key = Some(key.into());
        self
    }

    /// A payload that is JSON text already; kept byte for byte.
    pub fn json(mut self, text: impl Into<String>) -> Self {
        self.event.payload = Payload::Text(text.into());
        self
    }

    /// A payload to be written as JSON. A value that cannot be is an error of [`EventBuilder::build`].
    pub fn payload(mut self, value: &impl Serialize) -> Self {
        match serde_json::to_string(value) {
            Ok(text) => self.event.payload = Payload::Text(text),
            Err(error) => {
                self.error = Some(InvalidEvent::new(
                    "payload",
                    format!("cannot be written as JSON: {error}"),
                ));
            }
        }
        self
    }

    /// Text that is not JSON.
    pub fn text(mut self, text: impl Into<String>, content_type: impl Into<String>) -> Self {
        self.event.payload = Payload::Text(text.into());
        self.event.content_type = Some(content_type.into());
        self
    }

    /// A binary payload.
    pub fn bytes(mut self, bytes: impl Into<Bytes>) -> Self {
        self.event.payload = Payload::Bytes(bytes.into());
        self
    }

    /// The content type of the payload.
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.event.content_type = Some(content_type.into());
        self
    }

    /// One header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.event.headers.insert(name.into(), value.into());
        self
    }

    /// Positive overtakes the normal flow, negative yields to it.
    pub fn priority(mut self, priority: i32) -> Self {
        self.event.priority = priority;
        self
    }

    /// Not to be published before this time. Such an event stands outside the order of its key.
    pub fn available_at(mut self, time: impl Into<Timestamp>) -> Self {
        self.event.available_at = Some(time.into());
        self
    }

    /// Checks every limit and gives the event.
    pub fn build(self) -> Result<Event, InvalidEvent> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.event.validate()?;
        Ok(self.event)
    }
}
