//! A message as its consumer opens it.

use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::Envelope;
use crate::{EventId, InvalidEvent, Message, header, json, limits, validate};

/// What was in an envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The event's id.
    pub event_id: EventId,
    /// The content type of the payload, which a flat envelope keeps inside.
    pub content_type: String,
    /// The payload as the producer stored it; None for an event without one.
    pub payload: Option<Bytes>,
    /// What the body says of the event and no header does, by the names that those headers have.
    pub headers: Vec<(String, String)>,
}

/// Takes an event out of its envelope; the payload is a part of the body and not copied, where it is JSON.
///
/// Anybody may have put the message into the queue, so everything is checked that a handler relies on: that there is an
/// id, one and the same at all places, and no header that says something else than a flat body does; that the content
/// type is one the envelope can have; that the body is what it calls itself; that JSON is nested no deeper than
/// [`limits::JSON_DEPTH`]. An error names a place, never the content.
///
/// ```
/// use postrider_core::{Address, Envelope, Event, encode, open};
///
/// let event = Event::builder("OrderPlaced").id("e-1").key("42").json(r#"{"total": 1250}"#).build()?;
/// let key = event.order_key();
/// let message = encode(Envelope::Flat, &event, &key, Address::default(), "42".to_owned())
///     .map_err(|failure| failure.text.into_string())?;
/// let opened = open(Envelope::Flat, &message)?;
/// assert_eq!(opened.payload.as_deref(), Some(br#"{"total": 1250}"#.as_slice()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open(envelope: Envelope, message: &Message) -> Result<Opened, InvalidEvent> {
    if message.body.len() > limits::EVENT * 2 {
        let reason = format!(
            "has {} bytes; no event in any envelope has as many",
            message.body.len()
        );
        return Err(InvalidEvent::new("body", reason));
    }
    let opened = match envelope {
        Envelope::Flat => flat(message)?,
        Envelope::Raw => raw(message)?,
    };
    validate::name("event_id", opened.event_id.as_str(), 1, limits::ID)?;
    Ok(opened)
}

fn raw(message: &Message) -> Result<Opened, InvalidEvent> {
    let payload = (!is_tombstone(message)).then(|| message.body.clone());
    if let Some(body) = payload
        .as_deref()
        .filter(|_| json::is_json(&message.content_type))
    {
        json::check_bytes(body).map_err(|error| not_json("body", &error))?;
    }
    Ok(Opened {
        event_id: message.event_id.clone(),
        content_type: message.content_type.clone(),
        payload,
        headers: Vec::new(),
    })
}

#[derive(Deserialize)]
struct Flat<'a> {
    event_id: Option<String>,
    event_type: Option<String>,
    aggregate_type: Option<String>,
    aggregate_id: Option<String>,
    content_type: Option<String>,
    #[serde(borrow, default, deserialize_with = "present")]
    payload: Option<&'a RawValue>,
    payload_base64: Option<String>,
}

/// A payload that is JSON `null` is there; one that is left out is not.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

fn flat(message: &Message) -> Result<Opened, InvalidEvent> {
    if !json::is_json(&message.content_type) {
        let found = crate::inert(&message.content_type, 100);
        let reason = format!("is {found:?}; a flat envelope is application/json");
        return Err(InvalidEvent::new("content_type", reason));
    }
    let text = std::str::from_utf8(&message.body).map_err(|error| {
        InvalidEvent::new("body", format!("is not UTF-8 at byte {}", error.valid_up_to()))
    })?;
    // Neither a raw value nor one that is skipped costs stack, however deep it is nested.
    let flat: Flat<'_> = serde_json::from_str(text).map_err(|error| {
        let reason = format!("is no flat envelope: {} at byte {}", kind(&error), error.column());
        InvalidEvent::new("body", reason)
    })?;
    Ok(Opened {
        payload: payload(message, text, &flat)?,
        headers: headers(message, &flat)?,
        event_id: one_id(message, flat.event_id)?,
        content_type: flat.content_type.unwrap_or_else(|| "application/json".to_owned()),
    })
}

/// The text of a parser may quote what it read.
fn kind(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Data => "a field is missing, twice there or of another type",
        serde_json::error::Category::Eof => "it ends early",
        _ => "it is not JSON",
    }
}

/// The id of the transport and that of the body. Either may be missing, because another publisher may know only one.
fn one_id(message: &Message, inside: Option<String>) -> Result<EventId, InvalidEvent> {
    let outside = &message.event_id;
    match inside {
        Some(inside) if outside.as_str().is_empty() => Ok(inside.into()),
        Some(inside) if inside != outside.as_str() => {
            let reason = "is one in the body and another outside it; have its publisher give one";
            Err(InvalidEvent::new("event_id", reason))
        }
        _ => Ok(outside.clone()),
    }
}

/// A publisher that is no relay may say what happened in the body alone. Whoever says it twice says the same: routes go
/// by headers and people read bodies, and an event must not be one thing to these and another to those.
fn headers(message: &Message, flat: &Flat<'_>) -> Result<Vec<(String, String)>, InvalidEvent> {
    let mut headers = Vec::new();
    for (field, name, said) in [
        ("event_type", header::EVENT_TYPE, &flat.event_type),
        ("aggregate_type", header::AGGREGATE_TYPE, &flat.aggregate_type),
        ("aggregate_id", header::AGGREGATE_ID, &flat.aggregate_id),
    ] {
        let Some(inside) = said.as_deref().filter(|said| !said.is_empty()) else {
            continue;
        };
        match message.header(name).filter(|outside| !outside.is_empty()) {
            Some(outside) if outside == inside => {}
            Some(_) => {
                let reason = format!(
                    "is one in the body and another in the header {name}; have its publisher give one"
                );
                return Err(InvalidEvent::new(field, reason));
            }
            None => {
                validate::name(field, inside, 1, limits::ID)?;
                headers.push((name.to_owned(), inside.to_owned()));
            }
        }
    }
    Ok(headers)
}

fn payload(message: &Message, text: &str, flat: &Flat<'_>) -> Result<Option<Bytes>, InvalidEvent> {
    match (&flat.payload, &flat.payload_base64) {
        (Some(raw), None) if raw.get() == "null" && is_tombstone(message) => Ok(None),
        (Some(raw), None) if flat.content_type.as_deref().is_none_or(json::is_json) => {
            json::check(raw.get()).map_err(|error| not_json("payload", &error))?;
            Ok(Some(
                message.body.slice_ref(as_stored(text, raw.get()).as_bytes()),
            ))
        }
        (Some(raw), None) => match serde_json::from_str::<String>(raw.get()) {
            Ok(text) => Ok(Some(text.into())),
            Err(_) => Err(InvalidEvent::new("payload", "is not JSON and must be a string")),
        },
        (None, Some(encoded)) => match json::read_base64(encoded) {
            Some(bytes) => Ok(Some(bytes.into())),
            None => Err(InvalidEvent::new("payload_base64", "is not Base64 with padding")),
        },
        _ => Err(InvalidEvent::new(
            "payload",
            "is needed once: as payload or as payload_base64",
        )),
    }
}

/// The value with the spaces around it, which the producer may have stored and made a signature over.
fn as_stored<'a>(text: &'a str, value: &'a str) -> &'a str {
    let start = value.as_ptr() as usize - text.as_ptr() as usize;
    let is_space = |byte: &&u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    let before = text.as_bytes()[..start].iter().rev().take_while(is_space).count();
    let end = start + value.len();
    let after = text.as_bytes()[end..].iter().take_while(is_space).count();
    &text[start - before..end + after]
}

fn is_tombstone(message: &Message) -> bool {
    message.header(header::TOMBSTONE) == Some("true")
}

fn not_json(field: &'static str, error: &json::NotJson) -> InvalidEvent {
    InvalidEvent::new(field, format!("calls itself JSON and is not: {error}"))
}
