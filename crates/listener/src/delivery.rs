//! One delivery on its way: an event to apply, or a letter to publish.

use postrider_core::{Incoming, Message, OrderKey, Received};

use crate::builder::{Order, Replays, Settings};
use crate::letter::{Cause, DeadLetters, Reason, letter};

/// A message in our hands.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) place: Place,
    pub(crate) content: Content,
}

/// Where a message stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// What the broker knows the delivery by.
    pub(crate) tag: u64,
    /// Failures of its present content, by which pauses grow: of the handler, or of publishing the letter.
    pub(crate) failures: u32,
    /// Those failures of the handler that are charged to the event.
    pub(crate) attempts: u32,
    /// How many transactions with effects had been committed when it came, or failed last.
    pub(crate) commits: u64,
    /// It came so often that it may be what ends its consumers.
    pub(crate) suspect: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Event(Received),
    Letter { message: Message, reason: Reason },
}

impl Delivery {
    /// Opens a message and decides what it is; gives the key of its line too. Of those that came too often only the
    /// first is given up: `given_up` says whether one was.
    pub(crate) fn new(
        incoming: Incoming,
        settings: &Settings,
        commits: u64,
        given_up: bool,
    ) -> (Option<OrderKey>, Self) {
        let place = Place {
            tag: incoming.tag,
            failures: 0,
            attempts: 0,
            commits,
            suspect: incoming.redelivered >= settings.redelivery_limit.max(1),
        };
        let letter = |message, cause, text: String| Self {
            place,
            content: Content::Letter {
                message,
                reason: Reason::new(cause, text),
            },
        };
        let received = match Received::open(settings.envelope, &incoming) {
            Ok(received) => received,
            // What is no event has no key, and all of it must not be one line.
            Err(error) => {
                return (
                    None,
                    letter(incoming.message, Cause::Malformed, error.to_string()),
                );
            }
        };
        let key = (settings.order == Order::PerKey).then(|| received.message.order_key.clone());
        if received.redelivered > settings.redelivery_limit && !given_up {
            let text = format!(
                "delivered {} times before, and {} are allowed; it may be what ends its consumers",
                received.redelivered, settings.redelivery_limit
            );
            return (key, letter(received.message, Cause::Redelivered, text));
        }
        let received = match settings.replays {
            Replays::Ignore => received,
            Replays::Apply => received.once_a_replay(),
        };
        let content = Content::Event(received);
        (key, Self { place, content })
    }

    /// Whether it was given up because it came too often.
    pub(crate) fn is_given_up(&self) -> bool {
        matches!(&self.content, Content::Letter { reason, .. } if reason.cause == Cause::Redelivered)
    }

    pub(crate) fn is_letter(&self) -> bool {
        matches!(self.content, Content::Letter { .. })
    }

    /// The letter to publish; None where the broker keeps dead letters itself.
    pub(crate) fn as_letter(&self, consumer: &str, place: &DeadLetters) -> Option<Message> {
        match (&self.content, place) {
            (Content::Letter { message, reason }, DeadLetters::To { address, .. }) => {
                let attempts = self.place.attempts;
                Some(letter(message.clone(), reason, consumer, attempts, address))
            }
            _ => None,
        }
    }
}
