//! One `to` entry of a route.

use crate::{DestinationName, Envelope, RetryPolicy, Template};

/// The number of a destination within a [`crate::Router`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationId(pub usize);

/// What a dead event does to the later events of its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeadLetter {
    /// They wait until a person has decided.
    #[default]
    Hold,
    /// They pass.
    Skip,
}

/// Bounds on what a destination is given; they may be changed while the relay runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Events handed over and not yet answered.
    pub max_in_flight: Option<u32>,
    /// Events per second.
    pub max_rate: Option<u32>,
}

impl Limits {
    /// A limit as a database holds it. Somebody may have written any number there: one that is out of range is none,
    /// and stops nothing.
    ///
    /// ```
    /// use postrider_core::Limits;
    /// assert_eq!(Limits::stored(Some(7)), Some(7));
    /// assert_eq!(Limits::stored(Some(0)), None);
    /// ```
    pub fn stored(number: Option<i64>) -> Option<u32> {
        let number = number.and_then(|number| u32::try_from(number).ok());
        number.filter(|number| *number > 0)
    }
}

/// Where an event goes, in which form. It has one circuit, and its name is stored with its rows.
#[derive(Clone, Debug)]
pub struct Destination {
    /// Its name.
    pub name: DestinationName,
    /// The broker that carries it: the name of a sink given to the relay.
    pub broker: String,
    /// The parts of the address, each a template: exchange and routing key, topic, path.
    pub address: Vec<(String, Template)>,
    /// The message key; none: the event's aggregate id.
    pub message_key: Option<Template>,
    /// The form of the message.
    pub envelope: Envelope,
    /// What a dead event does to its key.
    pub dead_letter: DeadLetter,
    /// How refused events are tried again.
    pub retry: RetryPolicy,
    /// Configured bounds.
    pub limits: Limits,
}
