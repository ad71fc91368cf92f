//! A pure, synchronous outbox database: the reference implementation of the `Store` contract.
//!
//! Nothing here reads a clock, draws a random number or iterates in an order that could differ between two runs, so a
//! simulator can put many relays on one [`Model`] and replay any run from its seed. Every call takes the database's
//! `now`. Where the trait's documentation leaves a choice open, the comment at that place says which one was taken.

mod act;
mod answer;
mod audit;
mod control;
mod duty;
mod edit;
mod history;
mod job;
mod lease;
mod operate;
mod purge;
mod read;
mod record;
mod replay;
mod rows;
mod settle;
mod timeline;
mod tx;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use postrider_core::{
    AuditEntry, Controls, DestinationName, EventId, InForce, JobId, Lane, OrderKey, Original, RelayId, Scope,
    Seq, Shard,
};

pub use lease::{RelayState, ShardState};
pub(crate) use record::{cursor, place_of, sent_event, time};
pub use rows::{Fate, NewRow, Parked, Record, Row, Tries};
pub use tx::{InsertError, TxId};

/// The parked rows of one key and lane, by destination.
type Line = BTreeMap<Option<DestinationName>, BTreeSet<Seq>>;

/// Where a parked row or a row of the history is.
pub type Place = (Seq, Option<DestinationName>);

/// What a database is set up with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of shards, fixed for the life of the database; at least one.
    pub shards: u16,
    /// How long an id is remembered for the level-1 check; none: there is no such check.
    pub dedup_window: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            shards: 64,
            dedup_window: Some(Duration::from_secs(24 * 60 * 60)),
        }
    }
}

/// What happened so far. Counts only grow, and survive a purge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Rows that became visible.
    pub committed: u64,
    /// Rows that never did.
    pub rolled_back: u64,
    /// Publications recorded, one per event and destination.
    pub sent: u64,
    /// Rows settled as duplicates of level 1.
    pub duplicates: u64,
    /// Rows that a route dropped on purpose.
    pub dropped: u64,
    /// Parked rows that an operator threw away.
    pub discarded: u64,
}

/// An outbox database in memory.
#[derive(Clone, Debug)]
pub struct Model {
    options: Options,
    /// The highest place given out.
    last_seq: Seq,
    next_tx: u64,
    /// Every row of `outbox`, visible or not.
    rows: BTreeMap<Seq, Row>,
    /// Ids of every row of `outbox`: the unique constraint.
    ids: BTreeMap<EventId, Seq>,
    /// Open transactions with the places they hold.
    open: BTreeMap<TxId, Vec<Seq>>,
    /// The index that reads walk: visible rows only.
    visible: BTreeMap<(Shard, Lane), BTreeSet<Seq>>,
    parked: BTreeMap<Place, Parked>,
    /// Parked places by what order is kept by; the same rows as `parked`.
    lines: BTreeMap<(Shard, OrderKey, Lane), Line>,
    /// What left, numbered in the order it was recorded.
    history: BTreeMap<u64, Record>,
    history_by_id: BTreeMap<EventId, BTreeSet<u64>>,
    next_record: u64,
    shards: Vec<ShardState>,
    relays: BTreeMap<RelayId, RelayState>,
    controls: Controls,
    /// The same and paused keys, with who decided it.
    in_force: BTreeMap<Scope, InForce>,
    paused_keys: BTreeSet<OrderKey>,
    jobs: Vec<job::Filed>,
    /// What people did, numbered.
    audit: BTreeMap<u64, AuditEntry>,
    next_entry: u64,
    /// Payloads before people changed them.
    originals: BTreeMap<Place, Original>,
    duties: BTreeMap<String, duty::Held>,
    /// What jobs read back from archives, with the time of that.
    restored: Vec<(JobId, Duration, Record)>,
    counters: Counters,
}

impl Model {
    /// A fresh database with this many shards and the usual duplicate window.
    pub fn new(shards: u16) -> Self {
        Self::with(Options {
            shards,
            ..Options::default()
        })
    }

    /// A fresh database.
    pub fn with(options: Options) -> Self {
        let options = Options {
            shards: options.shards.max(1),
            ..options
        };
        Self {
            shards: vec![ShardState::default(); usize::from(options.shards)],
            options,
            last_seq: Seq(0),
            next_tx: 1,
            rows: BTreeMap::new(),
            ids: BTreeMap::new(),
            open: BTreeMap::new(),
            visible: BTreeMap::new(),
            parked: BTreeMap::new(),
            lines: BTreeMap::new(),
            history: BTreeMap::new(),
            history_by_id: BTreeMap::new(),
            next_record: 0,
            relays: BTreeMap::new(),
            controls: Controls::default(),
            in_force: BTreeMap::new(),
            paused_keys: BTreeSet::new(),
            jobs: Vec::new(),
            audit: BTreeMap::new(),
            next_entry: 0,
            originals: BTreeMap::new(),
            duties: BTreeMap::new(),
            restored: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// How many shards there are.
    pub fn shards(&self) -> u16 {
        self.options.shards
    }

    /// The shard of a key.
    pub fn shard_of(&self, key: &OrderKey) -> Shard {
        rows::shard_of(key, self.options.shards)
    }

    /// Visible rows of `outbox`, by place.
    pub fn queued(&self) -> impl Iterator<Item = &Row> {
        self.rows.values().filter(|row| row.tx.is_none())
    }

    /// Rows of `outbox` whose transaction is still open.
    pub fn undecided(&self) -> impl Iterator<Item = &Row> {
        self.rows.values().filter(|row| row.tx.is_some())
    }

    /// Parked rows, by place and destination.
    pub fn parked(&self) -> impl Iterator<Item = &Parked> {
        self.parked.values()
    }

    /// One parked row.
    pub fn parked_row(&self, seq: Seq, destination: Option<&DestinationName>) -> Option<&Parked> {
        self.parked.get(&(seq, destination.cloned()))
    }

    /// What left, in the order in which it was recorded.
    pub fn history(&self) -> impl Iterator<Item = &Record> {
        self.history.values()
    }

    /// The same, each with its number, which no other record ever gets.
    pub fn numbered_history(&self) -> impl Iterator<Item = (u64, &Record)> {
        self.history.iter().map(|(number, record)| (*number, record))
    }

    /// What was published to one destination, in the order in which it was recorded.
    pub fn sent_to<'a>(&'a self, destination: &'a DestinationName) -> impl Iterator<Item = &'a Record> {
        self.history()
            .filter(move |record| record.is_sent() && record.destination.as_ref() == Some(destination))
    }

    /// Who owns what, by shard.
    pub fn owners(&self) -> impl Iterator<Item = (Shard, &ShardState)> {
        (0..).map(Shard).zip(&self.shards)
    }

    /// The relays that have a row, alive or expired.
    pub fn relays(&self) -> impl Iterator<Item = (&RelayId, &RelayState)> {
        self.relays.iter()
    }

    /// What operators decided.
    pub fn controls(&self) -> &Controls {
        &self.controls
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether nothing is queued, parked or undecided.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.parked.is_empty()
    }

    /// Every row at or below is decided: the place below the lowest undecided row, or the highest place given out.
    pub fn horizon(&self) -> Seq {
        let undecided = self.open.values().filter_map(|seqs| seqs.first()).min();
        undecided.map_or(self.last_seq, |seq| seq.before())
    }
}

#[cfg(test)]
mod tests;
