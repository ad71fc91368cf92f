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

    /// The key of a replayed event: it keeps order among the events of the same replay only.
    pub fn replayed(replay: &str, key: &str) -> Self {
        Self::new(format!("\u{1f}replay\u{1f}{replay}\u{1f}{key}"))
    }
}
