//! What the engine tells people, as counts; the log lines are in `voice`.

use std::sync::atomic::{AtomicU64, Ordering};

use postrider_core::RelayId;

use crate::engine::Note;

/// One run of a relay. Several of one outbox may share a process and an observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<'a> {
    /// The name of the outbox.
    pub outbox: &'a str,
    /// The run, as the database knows it.
    pub relay: &'a RelayId,
}

/// Hears every note of a relay; for metrics and tests. Called on the relay's own task: it must not block.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn note(&self, run: Run<'_>, note: &Note);

    /// The run is over, however it ended, and nothing more is heard of it.
    fn ended(&self, run: Run<'_>) {
        let _ = run;
    }
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
