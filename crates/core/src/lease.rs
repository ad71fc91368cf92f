//! Ownership of shards: one heartbeat claims, renews, releases and brings back what operators decided.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::{DestinationName, Limits, OrderKey, Seq, Shard};

/// One run of one relay. New at every start, so that a restarted process never takes itself for its predecessor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayId(pub Arc<str>);

/// The fence of a lease: raised by the database at every change of owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// The row about to be tried alone on a shard whose owners keep dying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// The shard.
    pub shard: Shard,
    /// The row.
    pub seq: Seq,
}

impl Suspect {
    /// Unclean ends of a shard in a row after which its rows are tried one at a time.
    pub const COUNTS_FROM: u32 = 3;
}

/// What a relay says about itself, a few times per term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Who speaks.
    pub relay: RelayId,
    /// For how long the relay's row, and with it every lease, stays valid from the database's now.
    pub term: Duration,
    /// What the relay holds in memory. A shard that the database gives to this relay under another token, or that
    /// is missing here, is claimed again with a raised token: an answer was lost, and nothing sent under the old
    /// token may count any more.
    pub held: Vec<(Shard, Token)>,
    /// Shards to give up. Ignored for those whose token moved on.
    pub release: Vec<(Shard, Token)>,
    /// Whether the relay takes shards at all; false while it stops.
    pub claim: bool,
    /// How many rows per shard and lane may have been handed to a broker without a settle when this relay dies.
    pub window: u32,
    /// Written to the shard before the row is tried, so that a row that kills the process is known by it.
    pub suspects: Vec<Suspect>,
}

/// The right to one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The shard.
    pub shard: Shard,
    /// The fence to settle with.
    pub token: Token,
    /// How many rows per lane the previous owner may have published without settling them; zero after a clean
    /// hand-over.
    pub maybe_sent: u32,
    /// How many owners in a row ended without a release and without a settle. From [`Suspect::COUNTS_FROM`] on only the
    /// ends count at which the suspect was on trial, and another suspect than before sets it back to there.
    pub unclean: u32,
    /// The row that was last tried alone, by whichever owner.
    pub suspect: Option<Seq>,
}

/// What operators decided; kept in the database, so every replica obeys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controls {
    /// The whole outbox is paused.
    pub paused: bool,
    /// These destinations are paused.
    pub paused_destinations: Vec<DestinationName>,
    /// Limits that differ from the configured ones.
    pub limits: BTreeMap<DestinationName, Limits>,
    /// These keys are paused: of the many that may be, the newest [`Controls::KEYS`]. Reads know them all; this is for
    /// what a relay has in memory.
    pub paused_keys: Vec<OrderKey>,
}

impl Controls {
    /// How many paused keys an answer names.
    pub const KEYS: usize = 1_000;

    /// Takes in what was decided about a destination, or about the whole outbox where the name is empty.
    pub fn decide(&mut self, name: &str, paused: bool, limits: Limits) {
        if name.is_empty() {
            self.paused = paused;
            return;
        }
        let name = DestinationName::from(name);
        if limits != Limits::default() {
            self.limits.insert(name.clone(), limits);
        }
        if paused {
            self.paused_destinations.push(name);
        }
    }
}

/// What the database answers to a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Every shard that this relay owns now.
    pub leases: Vec<Lease>,
    /// How many shards are this relay's fair share. What it owns above that it drains and releases.
    pub share: u16,
    /// How many shards there are.
    pub shards: u16,
    /// What operators decided.
    pub controls: Controls,
}
