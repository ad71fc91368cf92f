//! The names that travel through the whole system, each in a type of its own so that none is taken for another.

use std::fmt;
use std::sync::Arc;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the text as it is; validation belongs to the builder that accepts it from people.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self::new(text)
            }
        }
    };
}

name! {
    /// What identifies an event end to end: text of up to 255 characters, a UUIDv7 when we make it.
    EventId
}

name! {
    /// The name of one `to` entry of a route. It is stored with the rows it concerns, so it outlives the
    /// configuration that defined it.
    DestinationName
}

name! {
    /// What order is kept by. Usually the event's key; a replayed event has one of its own replay, and a
    /// scheduled event stands alone.
    OrderKey
}

impl OrderKey {
    /// The key of an event that neither waits for another nor makes one wait.
    pub fn alone(seq: crate::Seq) -> Self {
        Self::new(format!("\u{1f}alone\u{1f}{}", seq.0))
    }

    /// Whether it is one of those.
    pub fn is_alone(&self) -> bool {
        self.as_str().starts_with("\u{1f}alone\u{1f}")
    }

    /// Every key that people see as this text: it may be the key that a producer gave, or type and id of an aggregate,
    /// parted at any of its slashes.
    pub fn seen_as(text: &str) -> Vec<Self> {
        let parted = text
            .match_indices('/')
            .map(|(at, _)| format!("{}\u{1f}{}", &text[..at], &text[at + 1..]));
        std::iter::once(text.to_owned())
            .chain(parted)
            .map(Self::new)
            .collect()
    }

    /// The key of a replayed event: it keeps order among the events of the same replay only.
    pub fn replayed(replay: &str, key: &str) -> Self {
        Self::new(format!("\u{1f}replay\u{1f}{replay}\u{1f}{key}"))
    }
}

#[cfg(test)]
mod tests {
    use super::OrderKey;
    use crate::Event;

    #[test]
    fn a_text_means_every_key_that_is_seen_as_it() {
        let given = Event::builder("T").key("A/B/1");
        let short = Event::builder("T").aggregate("A", "B/1");
        let long = Event::builder("T").aggregate("A/B", "1");
        for event in [given, short, long].map(|builder| builder.json("{}").build()) {
            let event = event.expect("a valid event");
            assert_eq!(event.key_text(), "A/B/1");
            assert!(OrderKey::seen_as("A/B/1").contains(&event.order_key()));
        }
        assert_eq!(OrderKey::seen_as("A/B/1").len(), 3);
        assert_eq!(OrderKey::seen_as("plain"), [OrderKey::new("plain")]);
    }
}
