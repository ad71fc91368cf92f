//! What happened, as a listener reads it from a message: the business event, and whom it is for.

use postrider_core::{HandlerError, Received, Timestamp};
use serde::{Deserialize, Serialize};

/// Whom an event is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum To {
    /// One person, by id.
    User(String),
    /// Whoever subscribed to a topic. The members of an audience are the subscribers of the topic of its name.
    Topic(String),
}

/// A business event that may concern somebody. It is kept with a fan-out that is not finished, so it can be read back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Occasion {
    /// The id of the event: what notifications are unique by.
    pub event_id: String,
    /// What happened.
    pub event_type: String,
    /// The audience, by the name that is in `aggregate_type`.
    pub audience: String,
    /// The thing it happened to.
    pub aggregate_id: String,
    /// Whom it is for.
    pub to: To,
    /// When it happened, as far as the message tells, else when it was received.
    pub at: Timestamp,
    /// What the producer said of it: an object.
    pub payload: serde_json::Map<String, serde_json::Value>,
}

impl Occasion {
    /// Reads an event. Whom it is for is said by `recipientType` in the payload: `BROADCAST` means the whole audience,
    /// any other value (`USER`, `SINGLE_USER`, …) one person, whose id is `recipientId`, else `userId`, else the
    /// aggregate's. Without `recipientType` it is one person where the payload names one, and else everybody who
    /// subscribed to this aggregate (`restaurant/42`).
    ///
    /// What can never be read is rejected, with a reason for the person who sees the dead letter.
    pub fn read(event: &Received) -> Result<Self, HandlerError> {
        let _ = event;
        todo!("agent A")
    }
}
