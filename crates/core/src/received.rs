//! An event as a consumer's handler sees it.

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::{HandlerError, Message, header};

/// An event that was received: what the message says of it, with the payload taken out of its envelope.
#[derive(Clone, Debug)]
pub struct Received {
    /// The message as it came.
    pub message: Message,
    /// What the inbox knows it by: the event's id, or that of one replay of it where replays take effect again.
    pub record_id: String,
    /// The payload as the producer stored it; None for an event without one.
    pub payload: Option<Bytes>,
    /// How often this process has tried it, the present one included.
    pub attempt: u32,
    /// How often the broker had delivered it before, as far as it tells.
    pub redelivered: u32,
}

impl Received {
    /// The event's id.
    pub fn event_id(&self) -> &str {
        self.message.event_id.as_str()
    }

    /// What happened.
    pub fn event_type(&self) -> &str {
        self.header(header::EVENT_TYPE).unwrap_or_default()
    }

    /// The kind of thing it happened to.
    pub fn aggregate_type(&self) -> &str {
        self.header(header::AGGREGATE_TYPE).unwrap_or_default()
    }

    /// The thing it happened to.
    pub fn aggregate_id(&self) -> &str {
        self.header(header::AGGREGATE_ID).unwrap_or_default()
    }

    /// A transport header by its name: ours, or the producer's own such as `traceparent`.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.message.header(name)
    }

    /// The replay that this delivery belongs to; None for the event itself.
    pub fn replay(&self) -> Option<&str> {
        self.header(header::REPLAY)
    }

    /// What tells a reused id from a repeated event: the hash that the relay made over the stored payload. A broker or
    /// a proxy that writes JSON anew does not change it. None when the message did not come from a relay.
    pub fn payload_hash(&self) -> Option<&str> {
        self.header(header::PAYLOAD_HASH)
    }

    /// The payload as a type of the consumer's own. An event without a payload reads as JSON `null`.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        let bytes = self.payload.as_deref().unwrap_or(b"null");
        serde_json::from_slice(bytes).map_err(|error| {
            let event_type = crate::inert(self.event_type(), 100);
            HandlerError::reject(format!(
                "the payload of {event_type} is not what is expected: {error}"
            ))
        })
    }
}
