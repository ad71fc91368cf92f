//! The one write that says what became of a batch.

use std::time::Duration;

use crate::{DestinationName, ErrorKind, EventId, Failure, OrderKey, Receipt, Seq, Shard, Timestamp, Token};

/// What became of a batch. Written in one transaction, fenced by the shard tokens; may be sent twice.
#[derive(Clone, Debug, Default)]
pub struct Settle {
    /// The token of every shard named below.
    pub fence: Vec<(Shard, Token)>,
    /// Rows of `outbox`.
    pub queued: Vec<SettleQueued>,
    /// Rows of `outbox_parked`.
    pub parked: Vec<SettleParked>,
}

/// What became of a queued row.
#[derive(Clone, Debug)]
pub struct SettleQueued {
    /// Its shard, for the fence.
    pub shard: Shard,
    /// Its place; together with the id it names the row, so that a repeated settle never meets another event.
    pub seq: Seq,
    /// Its id.
    pub event_id: EventId,
    /// The key to park it under, where it is parked.
    pub key: OrderKey,
    /// What became of it.
    pub leaves: Leaves,
}

/// How a row leaves `outbox`.
#[derive(Clone, Debug)]
pub enum Leaves {
    /// Every destination is decided: published there, or parked for it.
    Decided {
        /// Goes into the history, one row a destination.
        sent: Vec<(DestinationName, Receipt)>,
        /// Goes into `outbox_parked`, one row each.
        parked: Vec<Park>,
    },
    /// Its id and content were published to every destination before.
    Duplicate,
    /// A route drops it on purpose.
    Dropped,
}

/// What became of a parked row.
#[derive(Clone, Debug)]
pub struct SettleParked {
    /// Its shard, for the fence.
    pub shard: Shard,
    /// Its place.
    pub seq: Seq,
    /// The destination of the row.
    pub destination: Option<DestinationName>,
    /// The version that was read.
    pub version: u64,
    /// What became of it.
    pub then: Then,
}

/// How a parked row goes on.
#[derive(Clone, Debug)]
pub enum Then {
    /// Published: it moves into the history, whatever its version is by now. If a person has changed the payload since
    /// the version named, what was read is recorded, and the row stays, `maybe_sent`, to be sent as it is now; said of
    /// that version again, or of an earlier one, it changes nothing.
    Sent(Receipt),
    /// Its id and content were published to this destination before. Nothing is written if a person has changed the
    /// payload since the version named.
    Duplicate,
    /// It stays, changed; only if the version is the one named.
    Again(Park),
    /// It is routed anew: replaced by these, one a destination, and none of them its own, which would be
    /// [`Again`](Self::Again); only if the version is the one named. Where the event
    /// is parked for one of them already, that row stays. If a person had edited the row that is replaced and nobody
    /// the one that stays, the payload goes along as by an edit: the version is raised, and what was there is kept, to
    /// be recorded if it was in flight. Where another event is, at the same place, nothing
    /// is replaced: the row stays and is dead, as [`Park::place_taken`] says. The next row of its key, lane and
    /// destination that is not dead counts as redriven from then on, where it had a destination: whoever has the first
    /// routed anew means those that wait behind it.
    ///
    /// No other parked row of its place is in the same settle, so that a store may write all of it at once.
    Split(Vec<Park>),
}

/// How a row stands in `outbox_parked`. All counts are absolute, so that writing them twice changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Park {
    /// The destination it is owed to; none when it could not be routed.
    pub destination: Option<DestinationName>,
    /// Needs a person.
    pub dead: bool,
    /// When to try again, from the database's now.
    pub next_attempt_in: Duration,
    /// When to try instead, by the database's clock: the time that a scheduled event has of its own.
    pub available_at: Option<Timestamp>,
    /// Charged attempts.
    pub attempts: u32,
    /// Failures, charged or not.
    pub failures: u32,
    /// Whether an attempt may have reached the destination.
    pub maybe_sent: bool,
    /// The last failure; none for a row that only waits, is held or is scheduled. In [`Then::Again`] none leaves the
    /// stored error, its times and that an operator sent the row again as they are.
    pub failure: Option<Failure>,
}

impl Park {
    /// Cannot be put where it was to go, because another event is parked at the same place for the same destination:
    /// the sequence of places was set back by hand. Written over it or left out, one of the two would be lost.
    pub fn place_taken(from: Option<DestinationName>) -> Park {
        let text = "another event is parked at this place for the destination that this one was to go to";
        Park::dead(from, Failure::new(ErrorKind::PlaceTaken, text))
    }

    /// Parked without fault: behind another row of its key, held by a closed destination, or handed over.
    pub fn waiting(destination: DestinationName, maybe_sent: bool) -> Park {
        Park {
            destination: Some(destination),
            dead: false,
            next_attempt_in: Duration::ZERO,
            available_at: None,
            attempts: 0,
            failures: 0,
            maybe_sent,
            failure: None,
        }
    }

    /// Dead at once: it can never be sent as it is.
    pub fn dead(destination: Option<DestinationName>, failure: Failure) -> Park {
        Park {
            destination,
            dead: true,
            next_attempt_in: Duration::ZERO,
            available_at: None,
            attempts: 0,
            failures: 1,
            maybe_sent: false,
            failure: Some(failure),
        }
    }
}

/// What a settle did with one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Written.
    Done,
    /// The row is not there any more, or has another version: an operator or an earlier copy of this settle was first.
    Gone,
    /// The row is still there as it was: the place that it would take is another event's, or the database keeps it.
    /// Nothing was written for it; the same entry may be written later.
    Kept,
    /// The shard has another owner: nothing was written for it.
    Fenced,
}
