//! One row in memory, and what it owes to each of its destinations.

use std::sync::Arc;

use postrider_core::{
    Address, DestinationId, DestinationName, Event, EventId, Lane, Leaves, OrderKey, Park, Receipt, Seq,
    Shard, Then,
};

use super::line::LineId;
use super::{Call, Time};

pub(super) type ItemId = usize;

/// A row in memory.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) seq: Seq,
    pub(super) shard: Shard,
    pub(super) lane: Lane,
    pub(super) key: OrderKey,
    pub(super) event_id: EventId,
    pub(super) event: Option<Arc<Event>>,
    pub(super) replay: Option<Arc<str>>,
    pub(super) bytes: usize,
    pub(super) origin: Origin,
    pub(super) deliveries: Vec<Delivery>,
    /// The decision about the row as a whole, where it has no deliveries.
    pub(super) verdict: Option<Verdict>,
    pub(super) settling: bool,
    /// When it was read.
    pub(super) read_at: Time,
    /// The database refuses to write what became of it; it is tried again after this time.
    pub(super) rests_until: Option<Time>,
}

/// Which table the row is in.
#[derive(Debug)]
pub(super) enum Origin {
    Queued,
    Parked(Parked),
}

/// What the parked table says of a row.
#[derive(Clone, Debug)]
pub(super) struct Parked {
    pub(super) destination: Option<DestinationName>,
    pub(super) version: u64,
    pub(super) attempts: u32,
    pub(super) failures: u32,
    pub(super) failed_at: Option<Time>,
    /// The table says that it may have been sent.
    pub(super) maybe_sent: bool,
}

/// A decision about a row without deliveries.
#[derive(Debug)]
pub(super) enum Verdict {
    Leaves(Leaves),
    Then(Then),
}

/// An event owed to one destination.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) destination: DestinationId,
    pub(super) address: Address,
    pub(super) message_key: String,
    pub(super) line: LineId,
    pub(super) maybe_sent: bool,
    pub(super) state: State,
}

/// Where a delivery stands.
#[derive(Debug)]
pub(super) enum State {
    Pending,
    InFlight(Call),
    Confirmed(Receipt),
    Duplicate,
    Park(Park),
}

impl Item {
    pub(super) fn is_queued(&self) -> bool {
        matches!(self.origin, Origin::Queued)
    }

    /// Whether it is known what becomes of it everywhere. Of one without deliveries and without a verdict nothing is
    /// known, and it stays where it is.
    pub(super) fn is_decided(&self) -> bool {
        (self.verdict.is_some() || !self.deliveries.is_empty())
            && self
                .deliveries
                .iter()
                .all(|one| !matches!(one.state, State::Pending | State::InFlight(_)))
    }

    pub(super) fn is_in_flight(&self) -> bool {
        self.deliveries
            .iter()
            .any(|one| matches!(one.state, State::InFlight(_)))
    }

    /// Sent to some destination, and still owed to another.
    pub(super) fn is_half_sent(&self) -> bool {
        self.deliveries
            .iter()
            .any(|one| matches!(one.state, State::Confirmed(_)))
            && self
                .deliveries
                .iter()
                .any(|one| matches!(one.state, State::Pending))
    }

    /// Still owed to a destination that may have it.
    pub(super) fn is_unsure(&self) -> bool {
        let owed = |one: &Delivery| matches!(one.state, State::Pending | State::Park(_));
        self.deliveries.iter().any(|one| one.maybe_sent && owed(one))
    }

    /// Decided, and to be parked for at least one destination or for none.
    pub(super) fn parks(&self) -> bool {
        let nowhere = matches!(&self.verdict, Some(Verdict::Leaves(Leaves::Decided { .. })));
        nowhere
            || (self.is_decided()
                && self
                    .deliveries
                    .iter()
                    .any(|one| matches!(one.state, State::Park(_))))
    }

    /// Rows that its settle leaves in the parked table.
    pub(super) fn parked_rows(&self) -> usize {
        let nowhere = usize::from(matches!(
            &self.verdict,
            Some(Verdict::Leaves(Leaves::Decided { .. }))
        ));
        nowhere
            + self
                .deliveries
                .iter()
                .filter(|one| matches!(one.state, State::Park(_)))
                .count()
    }

    pub(super) fn at(&self, destination: DestinationId) -> Option<&Delivery> {
        self.deliveries.iter().find(|one| one.destination == destination)
    }
}
