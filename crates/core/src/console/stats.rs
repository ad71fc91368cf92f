//! The state of an outbox in numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Status;
use crate::{RelayId, Shard, Timestamp};

/// The state of an outbox in numbers. `published` survives cleanup; no number is found by scanning a table of history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events in `outbox`.
    pub queued: u64,
    /// Parked rows that move by themselves, by status word.
    pub parked: BTreeMap<&'static str, u64>,
    /// Parked rows that need a person.
    pub dead: u64,
    /// Events ever published, counted once per destination.
    pub published: u64,
    /// Events settled as duplicates of level 1.
    pub duplicates: u64,
    /// Rows ever thrown away by people, counted once per destination; survives cleanup.
    pub discarded: u64,
    /// The age of the oldest event that is queued, or parked and not dead and not scheduled.
    pub oldest: Option<Duration>,
    /// When that one was written, by the database's clock.
    pub oldest_at: Option<Timestamp>,
    /// For how long a transaction has been seen to write to the outbox without an end, the longest of them: its events
    /// wait for it. None: there is none, or the store cannot tell.
    pub writer_open_for: Option<Duration>,
    /// How many shards there are.
    pub shards: u16,
    /// The relays that are alive by the database's clock, with what they own.
    pub relays: Vec<LiveRelay>,
}

impl Stats {
    /// Parked rows with this status.
    pub fn parked_as(&self, status: Status) -> u64 {
        self.parked.get(status.as_str()).copied().unwrap_or(0)
    }

    /// What should have been published by now: queued, or parked and neither dead nor scheduled.
    pub fn unpublished(&self) -> u64 {
        let parked: u64 = self.parked.values().sum();
        self.queued + parked - self.parked_as(Status::Scheduled)
    }
}

/// A relay as the database knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRelay {
    /// Which run of which relay.
    pub relay: RelayId,
    /// When its leases end unless it renews them.
    pub expires_in: Duration,
    /// The shards it owns, in order.
    pub shards: Vec<Shard>,
}
