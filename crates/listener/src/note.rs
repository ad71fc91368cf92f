//! What a listener tells people: log lines, counts, and whoever observes it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use postrider_core::{EventId, SourceErrorKind, StoreErrorKind};
use tracing::{debug, error, info, warn};

use crate::letter::Reason;

/// Something worth telling. Ids and numbers, never payloads.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Note {
    /// Messages came.
    Received {
        /// How many.
        count: usize,
        /// How many of them the broker had delivered before.
        redelivered: usize,
    },
    /// A transaction was committed.
    Applied {
        /// Events that took effect.
        effects: usize,
        /// Events that had taken effect before.
        duplicates: usize,
        /// From its beginning to its commit, handlers included.
        took: Duration,
    },
    /// An event failed and is tried again.
    WillRetry {
        /// Which event.
        event_id: EventId,
        /// Why.
        error: Box<str>,
        /// How often it has failed.
        attempts: u32,
        /// When.
        retry_in: Duration,
    },
    /// A message is with the dead letters.
    DeadLetter {
        /// Which event; empty if the message has no id.
        event_id: EventId,
        /// Why.
        reason: Reason,
    },
    /// Dead letters cannot be published. The messages stay with the broker that they came from.
    LettersFailed {
        /// Why.
        error: Box<str>,
        /// What to do.
        advice: &'static str,
    },
    /// Dead letters are published again.
    LettersBack,
    /// The broker cannot be read.
    SourceFailed {
        /// The kind of trouble.
        kind: SourceErrorKind,
        /// The error.
        error: Box<str>,
        /// What to do.
        advice: &'static str,
    },
    /// The broker can be read again.
    SourceBack,
    /// Effects cannot happen, because their database or whoever is called for them is away: nothing is received until
    /// they can.
    StoreFailed {
        /// The kind of trouble.
        kind: StoreErrorKind,
        /// The error and its causes.
        error: Box<str>,
        /// What to do.
        advice: &'static str,
    },
    /// Effects can happen again.
    StoreBack,
    /// Everything that is held waits for another attempt, and nothing more can be received until one is made.
    Stuck {
        /// How many are held.
        held: usize,
    },
}

/// Hears every note of a listener; for metrics and tests. Called on the listener's own task: it must not block.
pub trait Observer: Send + Sync {
    /// Something happened at this consumer.
    fn note(&self, consumer: &str, note: &Note);
}

/// What a listener did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Messages received.
    pub received: u64,
    /// Messages that the broker had delivered before.
    pub redelivered: u64,
    /// Events that took effect.
    pub effects: u64,
    /// Events that had taken effect before.
    pub duplicates: u64,
    /// Attempts that failed and were followed by a pause.
    pub retries: u64,
    /// Messages that went to the dead letters.
    pub dead_letters: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    received: AtomicU64,
    redelivered: AtomicU64,
    effects: AtomicU64,
    duplicates: AtomicU64,
    retries: AtomicU64,
    dead_letters: AtomicU64,
}

impl Counts {
    pub(crate) fn report(&self) -> Report {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Report {
            received: get(&self.received),
            redelivered: get(&self.redelivered),
            effects: get(&self.effects),
            duplicates: get(&self.duplicates),
            retries: get(&self.retries),
            dead_letters: get(&self.dead_letters),
        }
    }

    pub(crate) fn count(&self, note: &Note) {
        let add = |count: &AtomicU64, by: usize| {
            count.fetch_add(by as u64, Ordering::Relaxed);
        };
        match note {
            Note::Received { count, redelivered } => {
                add(&self.received, *count);
                add(&self.redelivered, *redelivered);
            }
            Note::Applied {
                effects, duplicates, ..
            } => {
                add(&self.effects, *effects);
                add(&self.duplicates, *duplicates);
            }
            Note::WillRetry { .. } => add(&self.retries, 1),
            Note::DeadLetter { .. } => add(&self.dead_letters, 1),
            _ => {}
        }
    }
}

/// Writes the log line of a note.
pub(crate) fn log(consumer: &str, note: &Note) {
    match note {
        Note::Received { count, redelivered } => debug!(consumer, count, redelivered, "received"),
        Note::Applied {
            effects,
            duplicates,
            took,
        } => debug!(consumer, effects, duplicates, ?took, "applied"),
        Note::WillRetry {
            event_id,
            error,
            attempts,
            retry_in,
        } => warn!(consumer, %event_id, error, attempts, ?retry_in, "an event failed and is tried again"),
        Note::DeadLetter { event_id, reason } => {
            let (cause, reason) = (reason.cause.as_str(), &reason.text);
            error!(consumer, %event_id, cause, reason, "a message went to the dead letters");
        }
        Note::LettersFailed { error, advice } => {
            error!(
                consumer,
                error, advice, "dead letters cannot be published; they stay in their queue"
            );
        }
        Note::LettersBack => info!(consumer, "dead letters are published again"),
        Note::SourceFailed { kind, error, advice } => {
            warn!(
                consumer,
                ?kind,
                error,
                advice,
                "the broker cannot be read; it is tried again"
            );
        }
        Note::SourceBack => info!(consumer, "the broker can be read again"),
        Note::StoreFailed { kind, error, advice } => {
            let kind = kind.as_str();
            warn!(
                consumer,
                kind, error, advice, "effects cannot happen; nothing is received until they can"
            );
        }
        Note::StoreBack => info!(consumer, "effects can happen again"),
        Note::Stuck { held } => {
            let advice = "mend what the failing events need, or raise the prefetch";
            warn!(
                consumer,
                held, advice, "everything held waits for another attempt; nothing more is received"
            );
        }
    }
}
