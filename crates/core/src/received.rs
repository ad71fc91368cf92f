//! An event as a consumer's handler sees it.

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::{Envelope, HandlerError, Incoming, InvalidEvent, Message, header, json, open};

/// An event that was received: what the message says of it, with the payload taken out of its envelope.
#[derive(Clone, Debug)]
pub struct Received {
    /// The message as it came.
    pub message: Message,
    /// What the inbox knows it by: the event's id, or that of one replay of it where replays take effect again.
    pub record_id: String,
    /// The payload as the producer stored it; None for an event without one.
    pub payload: Option<Bytes>,
    /// The content type of the payload.
    pub content_type: String,
    /// How often this process has tried it on its own, the present time included.
    pub attempt: u32,
    /// How often the broker had delivered it before, as far as it tells.
    pub redelivered: u32,
}

impl Received {
    /// Takes a delivery out of its envelope. An error means that the message can never take effect as it is.
    pub fn open(envelope: Envelope, incoming: &Incoming) -> Result<Self, InvalidEvent> {
        let opened = open(envelope, &incoming.message)?;
        let mut message = incoming.message.clone();
        message.event_id = opened.event_id;
        for (name, value) in opened.headers {
            message.headers.retain(|(known, _)| *known != name);
            message.headers.push((name, value));
        }
        Ok(Self {
            record_id: message.event_id.to_string(),
            message,
            payload: opened.payload,
            content_type: opened.content_type,
            attempt: 1,
            redelivered: incoming.redelivered,
        })
    }

    /// Has the inbox know a replayed event by its replay as well, so that it takes effect again, once a replay.
    pub fn once_a_replay(mut self) -> Self {
        if let Some(replay) = self.replay() {
            // No id has a control character, so that this is the id of no event.
            self.record_id = format!("{}\u{1f}{replay}", self.message.event_id);
        }
        self
    }

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
        if !json::is_json(&self.content_type) {
            let found = crate::inert(&self.content_type, 100);
            return Err(HandlerError::reject(format!(
                "the payload is {found:?} and not JSON"
            )));
        }
        let bytes = self.payload.as_deref().unwrap_or(b"null");
        serde_json::from_slice(bytes).map_err(|error| {
            let event_type = crate::inert(self.event_type(), 100);
            HandlerError::reject(format!(
                "the payload of {event_type} is not what is expected: {error}"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, Event, encode};

    fn received(content_type: &str, replay: Option<&str>) -> Received {
        let event = Event::builder("T")
            .id("e-1")
            .key("k")
            .json("{\"total\":5}")
            .build()
            .unwrap();
        let key = event.order_key();
        let mut message = encode(Envelope::Raw, &event, &key, Address::default(), String::new()).unwrap();
        message.content_type = content_type.to_owned();
        message
            .headers
            .extend(replay.map(|id| (header::REPLAY.to_owned(), id.to_owned())));
        let incoming = Incoming {
            message,
            tag: 1,
            redelivered: 3,
        };
        Received::open(Envelope::Raw, &incoming).unwrap()
    }

    #[derive(Debug, serde::Deserialize, PartialEq)]
    struct Order {
        total: u64,
    }

    #[test]
    fn a_payload_is_read_as_what_it_says_it_is() {
        let event = received("application/json", None);
        assert_eq!(event.json::<Order>().unwrap(), Order { total: 5 });
        assert_eq!(
            (event.event_id(), event.event_type(), event.redelivered),
            ("e-1", "T", 3)
        );
        for refused in [
            event.json::<u64>().err(),
            received("text/plain", None).json::<Order>().err(),
        ] {
            assert!(!refused.unwrap().may_pass());
        }
    }

    #[test]
    fn what_a_flat_body_says_is_known_without_headers() {
        let message = Message {
            event_id: "e-1".into(),
            body: r#"{"event_type":"T","aggregate_type":"ORDER","aggregate_id":"7","payload":1}"#.into(),
            ..received("application/json", None).message
        };
        let message = Message {
            headers: vec![("event-type".to_owned(), String::new())],
            ..message
        };
        let incoming = Incoming {
            message,
            tag: 1,
            redelivered: 0,
        };
        let event = Received::open(Envelope::Flat, &incoming).unwrap();
        assert_eq!(
            (event.event_type(), event.aggregate_type(), event.aggregate_id()),
            ("T", "ORDER", "7")
        );
    }

    #[test]
    fn a_replay_is_known_by_its_own_id_where_it_shall_take_effect() {
        assert_eq!(received("a/b", Some("r")).record_id, "e-1");
        assert_eq!(received("a/b", Some("r")).once_a_replay().record_id, "e-1\u{1f}r");
        assert_eq!(received("a/b", None).once_a_replay().record_id, "e-1");
    }
}
