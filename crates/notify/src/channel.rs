//! The ways to a person.

use serde::{Deserialize, Serialize};

/// A way to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// The feed: what is stored is there, nothing has to be sent.
    InApp,
    /// A mail.
    Email,
    /// A url that is told, for example of a service that wakes up telephones.
    Push,
}

impl Channel {
    /// Every channel.
    pub const ALL: [Channel; 3] = [Channel::InApp, Channel::Email, Channel::Push];

    /// The word in tables, configuration and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Channel::InApp => "in_app",
            Channel::Email => "email",
            Channel::Push => "push",
        }
    }

    /// The channel of a word.
    pub fn parse(word: &str) -> Option<Channel> {
        Self::ALL.into_iter().find(|channel| channel.as_str() == word)
    }

    /// The type of the events in the outbox that deliver by it; None where nothing has to be sent.
    pub fn event_type(self) -> Option<&'static str> {
        match self {
            Channel::InApp => None,
            Channel::Email => Some("notification.email"),
            Channel::Push => Some("notification.push"),
        }
    }
}
