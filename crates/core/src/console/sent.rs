//! What was published, as the history has it.

use std::collections::BTreeMap;

use super::{Cursor, JobId};
use crate::{DestinationName, Event, EventId, Payload, Timestamp};

/// One published event, as the history has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When its destination had confirmed it.
    pub published_at: Timestamp,
    /// Which event.
    pub event_id: EventId,
    /// Its type.
    pub event_type: String,
    /// Type and id of its aggregate.
    pub aggregate: (String, String),
    /// What it keeps order by.
    pub key: String,
    /// Its headers.
    pub headers: BTreeMap<String, String>,
    /// Where it went.
    pub destination: Option<DestinationName>,
    /// The destination's receipt.
    pub receipt: Option<String>,
    /// The replay that it is a copy of; none for an event itself.
    pub replay: Option<JobId>,
}

impl Sent {
    /// The event without its payload: enough for a destination to fill in its address.
    pub fn without_payload(&self) -> Event {
        let (aggregate_type, aggregate_id) = self.aggregate.clone();
        Event {
            id: self.event_id.clone(),
            event_type: self.event_type.clone(),
            aggregate_type,
            aggregate_id,
            key: Some(self.key.clone()),
            payload: Payload::Tombstone,
            content_type: None,
            headers: self.headers.clone(),
            priority: 0,
            available_at: None,
            created_at: None,
        }
    }
}

/// A piece of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentPage {
    /// The events, in the order of their publishing.
    pub events: Vec<Sent>,
    /// Behind the last of them: where to look for what is published next.
    pub next: Cursor,
}
