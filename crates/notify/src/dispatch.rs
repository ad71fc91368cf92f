//! What is delivered: the payload of an event in the outbox of deliveries, written by a board and read by a channel.

use serde::{Deserialize, Serialize};

use crate::Channel;

/// A delivery on its way to a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    /// The notification.
    pub notification_id: i64,
    /// Whose it is.
    pub user_id: String,
    /// How they are called; may be empty.
    pub name: String,
    /// By which channel.
    pub channel: Channel,
    /// Where to: an address of mail, or a url.
    pub to: String,
    /// The title: plain text of one line.
    pub title: String,
    /// The text, plain.
    pub body: String,
    /// The text as HTML, for mail whose workflow has such a template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// Of which category.
    pub category: String,
    /// The business event behind it.
    pub event_id: String,
    /// Its type.
    pub event_type: String,
}

impl Dispatch {
    /// The aggregate type of the events that carry these.
    pub const AGGREGATE_TYPE: &'static str = "NOTIFICATION";

    /// The id of the event that carries it, and its key: no delivery waits for another.
    pub fn id_of(notification_id: i64, channel: Channel) -> String {
        format!("notification-{notification_id}-{}", channel.as_str())
    }
}
