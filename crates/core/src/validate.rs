//! Every limit of an event, in one place.
//!
//! The builder applies them before anything is written, and the stores apply them again to what they read, because
//! other languages insert rows without our builder. A limit is a promise to every broker that comes later: what passes
//! here can be carried by all of them, unless a broker says otherwise about sizes.

use crate::json;
use crate::{Event, Payload, Timestamp, header};

/// The limits themselves.
pub mod limits {
    /// Characters of an event's id. What an indexed text column holds in every store.
    pub const ID: usize = 255;
    /// Characters of an event's type; it becomes a topic or a routing key at several brokers.
    pub const EVENT_TYPE: usize = 255;
    /// Characters of an aggregate's type.
    pub const AGGREGATE_TYPE: usize = 255;
    /// Characters of an aggregate's id; it becomes the message key.
    pub const AGGREGATE_ID: usize = 255;
    /// Characters of a key. It is part of an index that decides what is blocked.
    pub const KEY: usize = 255;
    /// Bytes of a content type. AMQP has 255 bytes for it.
    pub const CONTENT_TYPE: usize = 255;
    /// Headers of one event. Brokers bound the size of all headers together; correlation and tracing need a handful.
    pub const HEADERS: usize = 64;
    /// Bytes of a header's name. AMQP has 255, our own prefixes need room.
    pub const HEADER_NAME: usize = 128;
    /// Bytes of a header's value. HTTP servers commonly refuse 8 KiB for one header with its name.
    pub const HEADER_VALUE: usize = 4_096;
    /// Bytes of a payload. Larger ones belong in a blob store, with the event carrying the reference: brokers take 1 to
    /// 16 MiB, and the relay's memory is bounded by a multiple of this.
    pub const PAYLOAD: usize = 16 * 1024 * 1024;
    /// Bytes of the headers as a store's column has them: more than the longest names and values need, however they are
    /// escaped.
    pub const HEADERS_TEXT: usize = 2 * 1024 * 1024;
    /// Bytes of all columns of an event together. A row that is larger cannot be an event, and is judged without being
    /// moved to the relay: names have at most four bytes a character.
    pub const EVENT: usize = PAYLOAD + HEADERS_TEXT + 7 * 4 * KEY;
    /// Bytes of all columns of a row that a table takes at all. Below it a row that is no event can be parked in the
    /// time that a settle has; above it the producer is told.
    pub const ROW: usize = 64 * 1024 * 1024;
    /// Levels of nesting of a JSON payload. Many parsers stop at 128 so that a hostile document cannot exhaust their
    /// stack, and envelopes put a few levels around the payload.
    pub const JSON_DEPTH: usize = 100;
}

/// Why an event is refused: a field and the limit it breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct InvalidEvent {
    /// The field.
    pub field: &'static str,
    /// The limit.
    pub reason: String,
}

impl InvalidEvent {
    pub(crate) fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Self {
            field,
            reason: reason.into(),
        }
    }
}

pub(crate) fn event(event: &Event) -> Result<(), InvalidEvent> {
    name("event_id", event.id.as_str(), 1, limits::ID)?;
    name("event_type", &event.event_type, 1, limits::EVENT_TYPE)?;
    name("aggregate_type", &event.aggregate_type, 0, limits::AGGREGATE_TYPE)?;
    name("aggregate_id", &event.aggregate_id, 0, limits::AGGREGATE_ID)?;
    match &event.key {
        Some(key) => name("event_key", key, 1, limits::KEY)?,
        // All such events would keep order with each other, and one failure would hold up all of them.
        None if event.aggregate_id.is_empty() => {
            let reason = "is empty and there is no event_key: give one of them, order is kept by it";
            return Err(InvalidEvent::new("aggregate_id", reason));
        }
        None => {}
    }
    time("created_at", event.created_at)?;
    time("available_at", event.available_at)?;
    if let Some(content_type) = &event.content_type {
        media_type(content_type)?;
    }
    headers(event)?;
    payload(event)
}

/// Ids, types and keys: names that travel in routing keys, headers, logs and terminals.
pub(crate) fn name(field: &'static str, text: &str, min: usize, max: usize) -> Result<(), InvalidEvent> {
    if text.len() < min {
        return Err(InvalidEvent::new(
            field,
            format!("is empty; it needs {min} to {max} characters"),
        ));
    }
    // A character has at least one byte, so that counting is needed for long texts only.
    if text.len() > max {
        let length = text.chars().count();
        if length > max {
            return Err(InvalidEvent::new(
                field,
                format!("has {length} characters; at most {max} are allowed"),
            ));
        }
    }
    no_control_characters(field, text)
}

fn no_control_characters(field: &'static str, text: &str) -> Result<(), InvalidEvent> {
    match text.chars().enumerate().find(|(_, c)| c.is_control()) {
        Some((at, c)) => Err(InvalidEvent::new(
            field,
            format!(
                "has the control character U+{:04X} at position {}; none is allowed",
                u32::from(c),
                at + 1
            ),
        )),
        None => Ok(()),
    }
}

/// RFC 3339, in which times are published, ends with the year 9999.
fn time(field: &'static str, time: Option<Timestamp>) -> Result<(), InvalidEvent> {
    const FIRST: Timestamp = Timestamp(-62_135_596_800_000_000);
    const LAST: Timestamp = Timestamp(253_402_300_799_999_999);
    let Some(time) = time.filter(|time| !(FIRST..=LAST).contains(time)) else {
        return Ok(());
    };
    // What databases call infinity is the end of our count.
    let shown = match time.0 {
        i64::MAX => "infinity".to_owned(),
        i64::MIN => "-infinity".to_owned(),
        _ => time.to_string(),
    };
    Err(InvalidEvent::new(
        field,
        format!("is {shown}; years 1 to 9999 are allowed"),
    ))
}

fn media_type(text: &str) -> Result<(), InvalidEvent> {
    let refuse = |reason: String| Err(InvalidEvent::new("content_type", reason));
    if text.len() > limits::CONTENT_TYPE {
        return refuse(format!(
            "has {} bytes; at most {} are allowed",
            text.len(),
            limits::CONTENT_TYPE
        ));
    }
    let media = text.split(';').next().unwrap_or_default().trim_end_matches(' ');
    let well_formed = media
        .split_once('/')
        .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype));
    if !well_formed || !text.bytes().all(|byte| matches!(byte, 0x20..0x7f)) {
        return refuse(
            "must be of the form type/subtype, in printable ASCII, with parameters behind a semicolon"
                .to_owned(),
        );
    }
    Ok(())
}

fn headers(event: &Event) -> Result<(), InvalidEvent> {
    let count = event.headers.len();
    if count > limits::HEADERS {
        return Err(InvalidEvent::new(
            "headers",
            format!("has {count} entries; at most {} are allowed", limits::HEADERS),
        ));
    }
    for (name, value) in &event.headers {
        header_name(name)?;
        if value.len() > limits::HEADER_VALUE {
            return Err(InvalidEvent::new(
                "headers",
                format!(
                    "{name:?} has a value of {} bytes; at most {} are allowed",
                    value.len(),
                    limits::HEADER_VALUE
                ),
            ));
        }
        no_control_characters("headers", value).map_err(|error| {
            InvalidEvent::new("headers", format!("the value of {name:?} {}", error.reason))
        })?;
        // Several transports ignore the case of names; one of the two would be lost there.
        if event
            .headers
            .keys()
            .any(|other| other != name && other.eq_ignore_ascii_case(name))
        {
            return Err(InvalidEvent::new(
                "headers",
                format!("two names differ from {name:?} in case only"),
            ));
        }
    }
    Ok(())
}

fn header_name(name: &str) -> Result<(), InvalidEvent> {
    if name.is_empty() || name.len() > limits::HEADER_NAME {
        return Err(InvalidEvent::new(
            "headers",
            format!(
                "a name has {} bytes; 1 to {} are allowed",
                name.len(),
                limits::HEADER_NAME
            ),
        ));
    }
    if !is_token(name) {
        return Err(InvalidEvent::new(
            "headers",
            format!("the name {name:?} may hold letters, digits and !#$%&'*+-.^_`|~ only"),
        ));
    }
    if is_reserved(name) {
        return Err(InvalidEvent::new(
            "headers",
            format!("the name {name:?} is reserved; choose another"),
        ));
    }
    Ok(())
}

/// RFC 9110's token, which every transport takes as a name. It has no colon, space or line end, so that no name can
/// smuggle a second header in.
fn is_token(text: &str) -> bool {
    let tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(tchar)
}

/// Names that we write ourselves, and those with which a message would give orders to the server that carries it.
fn is_reserved(name: &str) -> bool {
    const NAMES: [&str; 6] = [
        header::EVENT_ID,
        header::EVENT_TYPE,
        header::AGGREGATE_TYPE,
        header::AGGREGATE_ID,
        header::EVENT_KEY,
        "content-type",
    ];
    const PREFIXES: [&str; 2] = ["postrider-", "nats-"];
    let starts_with = |prefix: &str| {
        name.get(..prefix.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    NAMES.iter().any(|reserved| reserved.eq_ignore_ascii_case(name)) || PREFIXES.into_iter().any(starts_with)
}

fn payload(event: &Event) -> Result<(), InvalidEvent> {
    let refuse = |reason: String| Err(InvalidEvent::new("payload", reason));
    let length = event.payload.len();
    if length > limits::PAYLOAD {
        return refuse(format!(
            "has {length} bytes; at most {} are allowed",
            limits::PAYLOAD
        ));
    }
    let is_json = json::is_json(event.content_type());
    let checked = match &event.payload {
        Payload::Tombstone => return Ok(()),
        Payload::Text(text) if text.starts_with("\\x") => {
            return refuse(
                "begins with \\x: bytes were bound to a text column; put them into payload_bytes instead"
                    .to_owned(),
            );
        }
        Payload::Text(text) if is_json && text.is_empty() => {
            return refuse(
                "is empty, which is not JSON; leave it out for an event without a payload".to_owned(),
            );
        }
        Payload::Text(text) if is_json => json::check(text),
        Payload::Bytes(bytes) if is_json => json::check_bytes(bytes).map(drop),
        Payload::Text(_) | Payload::Bytes(_) => return Ok(()),
    };
    checked.or_else(|error| {
        refuse(format!(
            "is not JSON, though its content type is {}: {error}",
            event.content_type()
        ))
    })
}

#[cfg(test)]
mod tests;
