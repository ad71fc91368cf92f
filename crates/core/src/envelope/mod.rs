//! The form of a message.
//!
//! Both envelopes carry the same transport headers, so that a consumer can filter and tell duplicates apart without
//! opening the body, and so that changing the envelope changes the body only. In this order, leaving out what is empty:
//!
//! | header | value |
//! |---|---|
//! | `event-type`, `aggregate-type`, `aggregate-id` | the fields of the event |
//! | `event-key` | what order is kept by: the key given, or `type/id` of the aggregate |
//! | `postrider-payload-sha256` | SHA-256 of the stored payload, in hexadecimal |
//! | `postrider-created-at` | RFC 3339 in UTC, where the event says when it was made |
//! | `postrider-tombstone` | `true` on an event without a payload |
//! | the producer's own | as given: correlation id, `traceparent`, `tracestate` and so on |
//!
//! The event's id is a field of [`Message`]; each broker puts it where its transport has a place for it, or into the
//! header `event-id`.

mod flat;
mod open;
mod raw;

use crate::{Address, ErrorKind, Event, Failure, Message, OrderKey, Payload, header};

pub use open::{Opened, open};

/// The form of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Envelope {
    /// One JSON object, content type `application/json`. Its fields have the names of the outbox's columns and come in
    /// this order:
    ///
    /// | field | value |
    /// |---|---|
    /// | `event_id`, `event_type`, `aggregate_type`, `aggregate_id` | strings, always present |
    /// | `event_key` | string, if the producer gave a key |
    /// | `headers` | object of strings, if the producer gave any |
    /// | `content_type` | string, if the payload is not JSON |
    /// | `payload` | JSON: the stored bytes, untouched; other text: a string; no payload: `null` |
    /// | `payload_base64` | in place of `payload`: bytes that are not JSON, in standard Base64 with padding |
    ///
    /// New fields may be added; consumers ignore those they do not know.
    #[default]
    Flat,
    /// The stored payload and nothing else, with its own content type; empty for an event without a payload. All the
    /// rest is in the headers.
    Raw,
}

impl Envelope {
    /// The word used in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Envelope::Flat => "flat",
            Envelope::Raw => "raw",
        }
    }
}

/// Encodes an event for a destination.
///
/// Fails with [`ErrorKind::NotEncodable`] when the payload cannot be put into the envelope: flat has no place for text
/// that calls itself JSON and is not. The event is taken to be one that [`Event::validate`] accepts.
pub fn encode(
    envelope: Envelope,
    event: &Event,
    order_key: &OrderKey,
    address: Address,
    message_key: String,
) -> Result<Message, Failure> {
    let (body, content_type) = match envelope {
        Envelope::Flat => (flat::body(event).map_err(not_encodable)?, flat::CONTENT_TYPE),
        Envelope::Raw => (raw::body(event), event.content_type()),
    };
    Ok(Message {
        event_id: event.id.clone(),
        order_key: order_key.clone(),
        message_key,
        address,
        content_type: content_type.to_owned(),
        headers: headers(event),
        body,
    })
}

fn headers(event: &Event) -> Vec<(String, String)> {
    let mut headers = Vec::with_capacity(7 + event.headers.len());
    let mut push = |name: &str, value: &str| {
        if !value.is_empty() {
            headers.push((name.to_owned(), value.to_owned()));
        }
    };
    push(header::EVENT_TYPE, &event.event_type);
    push(header::AGGREGATE_TYPE, &event.aggregate_type);
    push(header::AGGREGATE_ID, &event.aggregate_id);
    push(header::EVENT_KEY, &event.key_text());
    push(header::PAYLOAD_HASH, &event.payload.hash());
    if let Some(time) = event.created_at {
        push(header::CREATED_AT, &time.to_string());
    }
    if event.payload == Payload::Tombstone {
        push(header::TOMBSTONE, "true");
    }
    headers.extend(
        event
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), value.clone())),
    );
    headers
}

fn not_encodable(error: crate::json::NotJson) -> Failure {
    Failure::new(
        ErrorKind::NotEncodable,
        format!("the payload calls itself JSON and is not: {error}"),
    )
}

#[cfg(test)]
mod tests;
