//! What the engine tells people, as log lines and as counts.

use std::sync::atomic::{AtomicU64, Ordering};

use postrider_core::{EventId, inert, limits};
use tracing::{debug, error, info, warn};

use crate::engine::Note;

/// Hears every note of a relay; for metrics and tests. Called on the relay's own task: it must not block.
pub trait Observer: Send + Sync {
    /// Something happened in an outbox.
    fn note(&self, outbox: &str, note: &Note);
}

/// What a relay did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Deliveries confirmed: one a destination of an event.
    pub published: u64,
    /// Deliveries that were published before.
    pub duplicates: u64,
    /// Events dropped on purpose.
    pub dropped: u64,
    /// Rows moved to the parked table, or changed there.
    pub parked: u64,
    /// Events that need a person.
    pub dead: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    published: AtomicU64,
    duplicates: AtomicU64,
    dropped: AtomicU64,
    parked: AtomicU64,
    dead: AtomicU64,
}

impl Counts {
    pub(crate) fn report(&self) -> Report {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Report {
            published: get(&self.published),
            duplicates: get(&self.duplicates),
            dropped: get(&self.dropped),
            parked: get(&self.parked),
            dead: get(&self.dead),
        }
    }

    pub(crate) fn count(&self, note: &Note) {
        let (count, by) = match note {
            Note::Published { events, .. } => (&self.published, events.len()),
            Note::Duplicate { .. } => (&self.duplicates, 1),
            Note::Dropped { .. } => (&self.dropped, 1),
            Note::Parked { count } => (&self.parked, *count),
            Note::Dead { .. } => (&self.dead, 1),
            _ => return,
        };
        count.fetch_add(by as u64, Ordering::Relaxed);
    }
}

/// An id as a log may show it: whatever a producer put into it, it stays on its line.
fn shown(id: &EventId) -> Box<str> {
    inert(id.as_str(), limits::ID)
}

/// One log line a note: ids and sizes, never payloads.
pub(crate) fn log(outbox: &str, note: &Note) {
    match note {
        Note::Published {
            destination,
            events,
            took,
        } => {
            debug!(outbox, %destination, events = events.len(), took_ms = took.as_secs_f64() * 1e3, "published");
        }
        Note::WillRetry {
            event_id,
            destination,
            failure,
            retry_in,
            attempts,
        } => {
            let (kind, text) = (failure.kind.as_str(), &failure.text);
            warn!(outbox, event_id = %shown(event_id), %destination, kind, %text, ?retry_in, attempts, "refused, will retry");
        }
        Note::Dead {
            event_id,
            destination,
            failure,
            ..
        } => {
            let (kind, text) = (failure.kind.as_str(), &failure.text);
            let destination = destination.as_ref().map_or("none", |name| name.as_str());
            let advice = failure.kind.policy().sentence;
            error!(outbox, event_id = %shown(event_id), destination, kind, %text, advice, "dead: needs a person");
        }
        Note::Duplicate {
            event_id,
            destination,
        } => {
            info!(outbox, event_id = %shown(event_id), %destination, "already published, skipping");
        }
        Note::Dropped { event_id } => debug!(outbox, event_id = %shown(event_id), "dropped by its route"),
        Note::Parked { count } => debug!(outbox, count, "parked"),
        Note::CircuitOpened {
            destination,
            failure,
            retry_in,
        } => {
            let (kind, text) = (failure.kind.as_str(), &failure.text);
            let advice = failure.kind.policy().sentence;
            warn!(outbox, %destination, kind, %text, ?retry_in, advice, "circuit open");
        }
        Note::CircuitClosed { destination } => info!(outbox, %destination, "circuit closed"),
        Note::LeaseWon { shard, unclean } => info!(outbox, shard = shard.0, unclean, "lease won"),
        Note::LeaseLost { shard, released } => info!(outbox, shard = shard.0, released, "lease lost"),
        Note::StoreFailed {
            doing,
            kind,
            error,
            retry_in,
        } => {
            let (word, advice) = (kind.as_str(), kind.advice());
            warn!(outbox, doing, kind = word, %error, ?retry_in, advice, "database call failed, will retry");
        }
        Note::Stranded { event_id } => {
            error!(outbox, event_id = %shown(event_id), "found below the floor by the sweep; it is published now, late");
        }
    }
}
