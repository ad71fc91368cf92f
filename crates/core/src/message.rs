//! What is handed to a broker: one event, encoded for one destination.

use bytes::Bytes;

use crate::{EventId, OrderKey};

/// The transport-level header names, the same at every broker.
pub mod header {
    /// The event's id, where the transport has no field of its own for it.
    pub const EVENT_ID: &str = "event-id";
    /// The event's type.
    pub const EVENT_TYPE: &str = "event-type";
    /// The aggregate's type.
    pub const AGGREGATE_TYPE: &str = "aggregate-type";
    /// The aggregate's id.
    pub const AGGREGATE_ID: &str = "aggregate-id";
    /// What order is kept by.
    pub const EVENT_KEY: &str = "event-key";
    /// SHA-256 of the stored payload bytes.
    pub const PAYLOAD_HASH: &str = "postrider-payload-sha256";
    /// When the event was made, in RFC 3339.
    pub const CREATED_AT: &str = "postrider-created-at";
    /// Set to `true` on an event without a payload: an empty body alone could be an empty payload.
    pub const TOMBSTONE: &str = "postrider-tombstone";
    /// Set to `true` when an earlier attempt may have arrived.
    pub const MAYBE_DUPLICATE: &str = "postrider-maybe-duplicate";
    /// The id of the replay, on replayed events.
    pub const REPLAY: &str = "postrider-replay";

    /// On a dead letter of a listener: the kind of its reason.
    pub const DEAD_CAUSE: &str = "postrider-dead-cause";
    /// On a dead letter: the reason, for people.
    pub const DEAD_REASON: &str = "postrider-dead-reason";
    /// On a dead letter: the consumer that could not work on it.
    pub const DEAD_CONSUMER: &str = "postrider-dead-consumer";
    /// On a dead letter: how often the handler failed.
    pub const DEAD_ATTEMPTS: &str = "postrider-dead-attempts";
    /// On a dead letter: where the broker had it before.
    pub const DEAD_FROM: &str = "postrider-dead-from";
    /// Every header of a dead letter.
    pub const DEAD: &[&str] = &[DEAD_CAUSE, DEAD_REASON, DEAD_CONSUMER, DEAD_ATTEMPTS, DEAD_FROM];
}

/// Where a message goes within its broker: the rendered parts of a destination's address, in the order configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub Vec<(String, String)>);

impl Address {
    /// A part by its name.
    pub fn get(&self, part: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(name, _)| name == part)
            .map(|(_, value)| value.as_str())
    }
}

/// A part of an address that a sink understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressField {
    /// Its name in a route's `to` entry.
    pub name: &'static str,
    /// Whether a route must give it.
    pub required: bool,
}

/// One event, encoded for one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The event's id; it always travels at transport level too.
    pub event_id: EventId,
    /// What order is kept by. Two messages of one batch with the same key must arrive in the batch's order.
    pub order_key: OrderKey,
    /// What the broker partitions by, where it does.
    pub message_key: String,
    /// Where it goes.
    pub address: Address,
    /// The content type of the body.
    pub content_type: String,
    /// Transport headers, ours and the producer's.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

impl Message {
    /// A header by its name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Body, headers and key: what counts towards a broker's size limit.
    pub fn size(&self) -> usize {
        let headers: usize = self
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        self.body.len() + headers + self.message_key.len() + self.event_id.as_str().len()
    }
}
