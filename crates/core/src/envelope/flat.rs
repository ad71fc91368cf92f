//! One JSON object around the untouched payload.

use bytes::Bytes;

use crate::json::{self, NotJson};
use crate::{Event, Payload};

/// The content type of every flat body.
pub(super) const CONTENT_TYPE: &str = "application/json";

/// Writes the object into one buffer of the right size; the payload is checked in place and copied once.
pub(super) fn body(event: &Event) -> Result<Bytes, NotJson> {
    let mut out = Vec::with_capacity(capacity(event));
    out.push(b'{');
    field(&mut out, "event_id", event.id.as_str());
    field(&mut out, "event_type", &event.event_type);
    field(&mut out, "aggregate_type", &event.aggregate_type);
    field(&mut out, "aggregate_id", &event.aggregate_id);
    if let Some(key) = &event.key {
        field(&mut out, "event_key", key);
    }
    if !event.headers.is_empty() {
        name(&mut out, "headers");
        json::push_object(
            &mut out,
            event.headers.iter().map(|(name, value)| (&**name, &**value)),
        );
        out.push(b',');
    }
    payload(&mut out, event)?;
    out.push(b'}');
    Ok(out.into())
}

fn payload(out: &mut Vec<u8>, event: &Event) -> Result<(), NotJson> {
    let is_json = json::is_json(event.content_type());
    if !is_json {
        field(out, "content_type", event.content_type());
    }
    match &event.payload {
        Payload::Tombstone => {
            name(out, "payload");
            out.extend_from_slice(b"null");
        }
        Payload::Text(text) if is_json => {
            json::check(text)?;
            name(out, "payload");
            out.extend_from_slice(text.as_bytes());
        }
        Payload::Bytes(bytes) if is_json => {
            json::check_bytes(bytes)?;
            name(out, "payload");
            out.extend_from_slice(bytes);
        }
        Payload::Text(text) => {
            name(out, "payload");
            json::push_string(out, text);
        }
        Payload::Bytes(bytes) => {
            name(out, "payload_base64");
            json::push_base64(out, bytes);
        }
    }
    Ok(())
}

fn field(out: &mut Vec<u8>, key: &str, value: &str) {
    name(out, key);
    json::push_string(out, value);
    out.push(b',');
}

/// A field's name is one of ours and needs no escaping.
fn name(out: &mut Vec<u8>, key: &str) {
    out.push(b'"');
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

/// What the object takes when nothing needs escaping; a buffer that is too small grows.
fn capacity(event: &Event) -> usize {
    let payload = match &event.payload {
        Payload::Bytes(bytes) if !json::is_json(event.content_type()) => bytes.len().div_ceil(3) * 4,
        payload => payload.len(),
    };
    let headers: usize = event
        .headers
        .iter()
        .map(|(name, value)| name.len() + value.len() + 6)
        .sum();
    let key = event.key.as_ref().map_or(0, String::len);
    let fields = event.id.as_str().len()
        + event.event_type.len()
        + event.aggregate_type.len()
        + event.aggregate_id.len();
    256 + fields + key + headers + payload
}
