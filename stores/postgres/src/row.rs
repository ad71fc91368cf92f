//! A stored row as an event, or the reason why it is none.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use postrider_core::{DestinationName, Event, EventId, Lane, OrderKey, Payload, Seq, Shard, Timestamp};
use tokio_postgres::Row;

use crate::clock::Micros;
use crate::error::Result;

/// The columns of the producer and of the place, in the order that [`Stored::read`] expects.
pub(crate) const COLUMNS: &str = "seq, shard, lane, event_id, event_type, aggregate_type, aggregate_id, \
     event_key, payload, payload_bytes, content_type, headers, priority, available_at, created_at, replay_id, \
     enqueued_at";

/// The same for the history, which keeps neither shard nor lane.
pub(crate) const SENT_COLUMNS: &str = "seq, 0::smallint, 0::smallint, event_id, event_type, aggregate_type, \
     aggregate_id, event_key, payload, payload_bytes, content_type, headers, priority, available_at, created_at, \
     replay_id, enqueued_at";

/// The same for an answer that is no row.
pub(crate) const NO_COLUMNS: &str = "NULL::bigint AS seq, NULL::smallint AS shard, NULL::smallint AS lane, \
     NULL::text AS event_id, NULL::text AS event_type, NULL::text AS aggregate_type, NULL::text AS aggregate_id, \
     NULL::text AS event_key, NULL::text AS payload, NULL::bytea AS payload_bytes, NULL::text AS content_type, \
     NULL::text AS headers, NULL::integer AS priority, NULL::timestamptz AS available_at, \
     NULL::timestamptz AS created_at, NULL::text AS replay_id, NULL::timestamptz AS enqueued_at";

/// What a producer wrote, moved unchanged from table to table.
pub(crate) const CARRIED: &str = "event_type, aggregate_type, aggregate_id, event_key, payload, payload_bytes, \
     content_type, headers, priority, available_at, created_at, replay_id, enqueued_at";

/// Why a row without an id is not an event.
const NO_ID: &str =
    "event_id: is null: the trigger that makes ids was switched off when the row was inserted";

/// Where some of [`COLUMNS`] stand, and how many there are.
pub(crate) const SEQ: usize = 0;
pub(crate) const SHARD: usize = 1;
pub(crate) const LANE: usize = 2;
pub(crate) const COUNT: usize = 17;

/// A list of columns, as those of one table.
pub(crate) fn of(table: &str, columns: &str) -> String {
    let columns: Vec<String> = columns
        .split(',')
        .map(|name| format!("{table}.{}", name.trim()))
        .collect();
    columns.join(", ")
}

/// The hash of the key of a queued row, by which `outbox_parked` is indexed.
pub(crate) fn line(table: &str) -> String {
    format!(
        "md5(CASE WHEN {table}.replay_id IS NULL THEN '' ELSE E'\\x1freplay\\x1f' || {table}.replay_id || E'\\x1f' END \
         || coalesce({table}.event_key, {table}.aggregate_type || E'\\x1f' || {table}.aggregate_id))::uuid"
    )
}

/// Whether a parked row stands alone, as the index by time has it, or in a line, as the index of the lines has it. The
/// planner takes either only for these very words.
pub(crate) fn alone(table: &str, stands: bool) -> String {
    let (dot, is) = (
        if table.is_empty() { "" } else { "." },
        if stands { "=" } else { "<>" },
    );
    format!("left({table}{dot}order_key, 7) {is} E'\\x1falone\\x1f'")
}

/// The id of a queued row. One without is there only when the trigger that makes ids was switched off; it goes by its
/// place, so that it can be parked, shown and named.
pub(crate) fn id(table: &str) -> String {
    format!("coalesce({table}.event_id, 'seq-' || {table}.seq)")
}

/// A row with everything that can be said of it even when it is bad.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) seq: Seq,
    pub(crate) shard: Shard,
    pub(crate) lane: Lane,
    pub(crate) key: OrderKey,
    pub(crate) event_id: EventId,
    pub(crate) available_at: Option<Timestamp>,
    pub(crate) created_at: Timestamp,
    pub(crate) replay: Option<Arc<str>>,
    /// As far as it can be read.
    pub(crate) event: Event,
    /// Why it is not a valid event.
    pub(crate) bad: Option<String>,
}

impl Stored {
    /// Reads a row whose columns from `at` onwards are [`COLUMNS`].
    pub(crate) fn read(row: &Row, at: usize) -> Result<Self> {
        let place: i64 = row.try_get(at + SEQ)?;
        let given: Option<&str> = row.try_get(at + 3)?;
        let event_id = given.map_or_else(|| EventId::from(format!("seq-{place}")), EventId::from);
        let replay: Option<Arc<str>> = row.try_get::<_, Option<&str>>(at + 15)?.map(Arc::from);
        let enqueued_at: Option<Micros> = row.try_get(at + 16)?;
        let created_at: Option<Micros> = row.try_get(at + 14)?;
        let created_at = Timestamp(created_at.or(enqueued_at).map_or(0, |time| time.0));
        let headers = headers(row.try_get(at + 11)?);
        let (headers, bad) = match headers {
            _ if given.is_none() => (BTreeMap::new(), Some(NO_ID.to_owned())),
            Ok(headers) => (headers, None),
            Err(reason) => (BTreeMap::new(), Some(reason)),
        };
        let event = Event {
            id: event_id.clone(),
            event_type: row.try_get(at + 4)?,
            aggregate_type: row.try_get(at + 5)?,
            aggregate_id: row.try_get(at + 6)?,
            key: row.try_get(at + 7)?,
            payload: payload(row.try_get(at + 8)?, row.try_get(at + 9)?),
            content_type: row.try_get(at + 10)?,
            headers,
            priority: row.try_get::<_, Option<i32>>(at + 12)?.unwrap_or(0),
            available_at: row.try_get::<_, Option<Micros>>(at + 13)?.map(Timestamp::from),
            created_at: Some(created_at),
        };
        let key = match &replay {
            Some(replay) => OrderKey::replayed(replay, event.order_key().as_str()),
            None => event.order_key(),
        };
        Ok(Self {
            seq: seq(place),
            shard: Shard(u16::try_from(row.try_get::<_, i16>(at + SHARD)?).unwrap_or(0)),
            lane: Lane::of(i64::from(row.try_get::<_, i16>(at + LANE)?)),
            key,
            event_id,
            available_at: event.available_at,
            created_at,
            replay,
            bad: bad.or_else(|| event.validate().err().map(|invalid| invalid.to_string())),
            event,
        })
    }

    /// The event, or why it is none.
    pub(crate) fn into_event(self) -> std::result::Result<Event, String> {
        match self.bad {
            None => Ok(self.event),
            Some(reason) => Err(reason),
        }
    }
}

/// A place as the core has it.
pub(crate) fn seq(place: i64) -> Seq {
    Seq(u128::try_from(place).unwrap_or(0))
}

/// A place as PostgreSQL has it. One beyond its range names no row, and neither does the highest.
pub(crate) fn place(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

/// The column's form of a destination: empty for a row that could not be routed, because null is equal to nothing.
pub(crate) fn destination_text(destination: Option<&DestinationName>) -> &str {
    destination.map_or("", DestinationName::as_str)
}

/// The destination of a column's text.
pub(crate) fn destination(text: &str) -> Option<DestinationName> {
    (!text.is_empty()).then(|| DestinationName::from(text))
}

/// Text without the one character that PostgreSQL does not store.
pub(crate) fn storable(text: &str) -> Cow<'_, str> {
    match text.as_bytes().contains(&0) {
        true => Cow::Owned(text.replace('\0', "\u{fffd}")),
        false => Cow::Borrowed(text),
    }
}

pub(crate) fn payload(text: Option<String>, bytes: Option<&[u8]>) -> Payload {
    match (text, bytes) {
        (Some(text), _) => Payload::Text(text),
        (None, Some(bytes)) => Payload::Bytes(Bytes::copy_from_slice(bytes)),
        (None, None) => Payload::Tombstone,
    }
}

/// The headers of a column, or why they are none.
pub(crate) fn headers(text: Option<&str>) -> std::result::Result<BTreeMap<String, String>, String> {
    let Some(text) = text else {
        return Ok(BTreeMap::new());
    };
    serde_json::from_str(text).map_err(|error| format!("headers: is not a JSON object of strings: {error}"))
}
