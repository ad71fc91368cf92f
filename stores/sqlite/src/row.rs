//! A stored row as an event, or the reason why it is none.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use postrider_core::{DestinationName, Event, EventId, Lane, OrderKey, Payload, Seq, Timestamp};
use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::clock;

/// The columns of the producer and of the place, in the order that [`Stored::read`] expects. What a caller selects
/// behind them begins at [`BEHIND`].
pub(crate) const COLUMNS: &str = "seq, lane, order_key, event_id, event_type, aggregate_type, aggregate_id, \
     event_key, payload, payload_bytes, content_type, headers, priority, available_at, created_at, replay_id, \
     enqueued_at";

/// The same for the history, which keeps neither lane nor key.
pub(crate) const SENT_COLUMNS: &str = "seq, 0, '', event_id, event_type, aggregate_type, aggregate_id, \
     event_key, payload, payload_bytes, content_type, headers, priority, available_at, created_at, replay_id, \
     enqueued_at";

/// What a producer wrote, moved unchanged from table to table.
pub(crate) const CARRIED: &str = "event_type, aggregate_type, aggregate_id, event_key, payload, payload_bytes, \
     content_type, headers, priority, available_at, created_at, replay_id, enqueued_at";

/// The index of the first column behind [`COLUMNS`].
pub(crate) const BEHIND: usize = 17;

/// A row with everything that can be said of it even when it is bad.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) seq: Seq,
    pub(crate) lane: Lane,
    pub(crate) key: OrderKey,
    pub(crate) event_id: EventId,
    pub(crate) event_type: String,
    pub(crate) aggregate: (String, String),
    pub(crate) event_key: Option<String>,
    pub(crate) available_at: Option<Timestamp>,
    pub(crate) created_at: Timestamp,
    /// With the place it tells an event from another one that was given the same place.
    pub(crate) enqueued_at: Option<i64>,
    pub(crate) replay: Option<Arc<str>>,
    /// The bytes of all columns, whether or not they could be read.
    pub(crate) size: usize,
    pub(crate) event: Result<Event, String>,
    /// The payload of a row that is not an event, as it is stored.
    pub(crate) bad_payload: Option<Payload>,
}

impl Stored {
    /// Reads a row selected with [`COLUMNS`]. `now` stands for a time that nobody wrote.
    pub(crate) fn read(row: &Row<'_>, outbox_id: &str, now: i64) -> rusqlite::Result<Self> {
        let place: i64 = row.get(0)?;
        let mut fields = Fields { row, bad: None };
        let event_id = match fields.raw_text(3)? {
            Some(Ok(id)) => EventId::from(id),
            Some(Err(_)) => {
                fields.refuse("event_id", "is not valid UTF-8");
                derived_id(outbox_id, place)
            }
            None => derived_id(outbox_id, place),
        };
        let event_type = fields.text(4, "event_type")?.unwrap_or_default();
        let aggregate_type = fields.text(5, "aggregate_type")?.unwrap_or_default();
        let aggregate_id = fields.text(6, "aggregate_id")?.unwrap_or_default();
        let event_key = fields.text(7, "event_key")?;
        let payload = fields.payload()?;
        let content_type = fields.text(10, "content_type")?;
        let headers = fields.headers()?;
        let priority = fields.priority()?;
        let available_at = fields.time(13, "available_at")?;
        let enqueued_at: Option<i64> = row.get(16)?;
        let created_at = fields
            .time(14, "created_at")?
            .unwrap_or(Timestamp(enqueued_at.unwrap_or(now)));
        let replay = fields.text(15, "replay_id")?.map(Arc::from);
        let size = fields.size()?;
        let event = Event {
            id: event_id.clone(),
            event_type: event_type.clone(),
            aggregate_type: aggregate_type.clone(),
            aggregate_id: aggregate_id.clone(),
            key: event_key.clone(),
            payload,
            content_type,
            headers,
            priority,
            available_at,
            created_at: Some(created_at),
        };
        let bad = fields
            .bad
            .or_else(|| event.validate().err().map(|invalid| invalid.to_string()));
        let (event, bad_payload) = match bad {
            Some(reason) => (Err(reason), Some(event.payload)),
            None => (Ok(event), None),
        };
        Ok(Self {
            seq: seq(place),
            lane: lane(row.get(1)?),
            key: OrderKey::new(lossy(row.get_ref(2)?)),
            event_id,
            event_type,
            aggregate: (aggregate_type, aggregate_id),
            event_key,
            available_at,
            created_at,
            enqueued_at,
            replay,
            size,
            event,
            bad_payload,
        })
    }

    /// The hash of the payload, also when the row is bad.
    pub(crate) fn payload_hash(&self) -> String {
        let of_event = self.event.as_ref().ok().map(|event| &event.payload);
        let payload = of_event.or(self.bad_payload.as_ref());
        payload.map_or_else(String::new, Payload::hash)
    }

    /// The key as people know it: what the producer gave, or `type/id` of the aggregate.
    pub(crate) fn shown_key(&self) -> String {
        match &self.event_key {
            Some(key) => key.clone(),
            None => format!("{}/{}", self.aggregate.0, self.aggregate.1),
        }
    }
}

/// The id of a row that was inserted without one: the same at every attempt, because a place is never given twice, and
/// different from every other outbox's, because each has a random identity of its own.
pub(crate) fn derived_id(outbox_id: &str, place: i64) -> EventId {
    EventId::from(format!("{outbox_id}-{place}"))
}

/// The place that a derived id names, if it is one of this outbox.
pub(crate) fn place_of(outbox_id: &str, id: &EventId) -> Option<i64> {
    let place = id.as_str().strip_prefix(outbox_id)?.strip_prefix('-')?;
    place.parse().ok().filter(|place| *place > 0)
}

/// A place as the core has it.
pub(crate) fn seq(place: i64) -> Seq {
    Seq(u128::try_from(place).unwrap_or(0))
}

/// A place as SQLite has it. One beyond its range names no row, and neither does the highest.
pub(crate) fn place(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

/// The column's form of a destination: empty for a row that could not be routed, because null is equal to nothing.
pub(crate) fn destination_text(destination: Option<&DestinationName>) -> &str {
    destination.map_or("", DestinationName::as_str)
}

/// The payload of its two columns; text that is none is kept as the bytes it is.
pub(crate) fn payload(text: ValueRef<'_>, bytes: ValueRef<'_>) -> Payload {
    match (text, bytes) {
        (ValueRef::Text(bytes), _) => match std::str::from_utf8(bytes) {
            Ok(text) => Payload::Text(text.to_owned()),
            Err(_) => Payload::Bytes(Bytes::copy_from_slice(bytes)),
        },
        (_, ValueRef::Blob(bytes)) => Payload::Bytes(Bytes::copy_from_slice(bytes)),
        _ => Payload::Tombstone,
    }
}

fn lane(sign: i64) -> Lane {
    Lane::of(sign)
}

/// A text column; what is not valid in it is shown as such.
pub(crate) fn lossy(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}

/// The same of a column that may have nothing.
pub(crate) fn lossy_or_none(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Text(_) | ValueRef::Blob(_) => Some(lossy(value)),
        _ => None,
    }
}

/// The columns of one row; the first thing that is wrong with them is remembered, and reading goes on.
struct Fields<'a, 'row> {
    row: &'a Row<'row>,
    bad: Option<String>,
}

impl Fields<'_, '_> {
    fn refuse(&mut self, column: &str, reason: &str) {
        self.bad.get_or_insert_with(|| format!("{column}: {reason}"));
    }

    /// A text column; bytes that are not UTF-8 in the second place.
    fn raw_text(&self, index: usize) -> rusqlite::Result<Option<Result<String, String>>> {
        Ok(match self.row.get_ref(index)? {
            ValueRef::Text(bytes) => Some(match std::str::from_utf8(bytes) {
                Ok(text) => Ok(text.to_owned()),
                Err(_) => Err(String::from_utf8_lossy(bytes).into_owned()),
            }),
            _ => None,
        })
    }

    fn text(&mut self, index: usize, column: &str) -> rusqlite::Result<Option<String>> {
        Ok(match self.raw_text(index)? {
            Some(Ok(text)) => Some(text),
            Some(Err(lossy)) => {
                self.refuse(column, "is not valid UTF-8");
                Some(lossy)
            }
            None => None,
        })
    }

    /// The bytes of everything that a producer wrote.
    fn size(&self) -> rusqlite::Result<usize> {
        let mut size = 0;
        for index in 3..BEHIND {
            if let ValueRef::Text(bytes) | ValueRef::Blob(bytes) = self.row.get_ref(index)? {
                size += bytes.len();
            }
        }
        Ok(size)
    }

    fn payload(&mut self) -> rusqlite::Result<Payload> {
        let (text, bytes) = (self.row.get_ref(8)?, self.row.get_ref(9)?);
        let payload = payload(text, bytes);
        if matches!((text, &payload), (ValueRef::Text(_), Payload::Bytes(_))) {
            self.refuse("payload", "is not valid UTF-8");
        }
        Ok(payload)
    }

    fn headers(&mut self) -> rusqlite::Result<BTreeMap<String, String>> {
        let Some(text) = self.text(11, "headers")? else {
            return Ok(BTreeMap::new());
        };
        Ok(serde_json::from_str(&text).unwrap_or_else(|error| {
            self.refuse("headers", &format!("is not a JSON object of strings: {error}"));
            BTreeMap::new()
        }))
    }

    fn priority(&mut self) -> rusqlite::Result<i32> {
        let priority: Option<i64> = self.row.get(12)?;
        Ok(i32::try_from(priority.unwrap_or(0)).unwrap_or_else(|_| {
            self.refuse("priority", "is outside the range of 32 bits");
            0
        }))
    }

    fn time(&mut self, index: usize, column: &str) -> rusqlite::Result<Option<Timestamp>> {
        Ok(clock::parse(self.row.get_ref(index)?).unwrap_or_else(|reason| {
            self.refuse(column, &reason);
            None
        }))
    }
}
