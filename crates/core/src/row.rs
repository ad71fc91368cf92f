//! What a read asks for and what it brings: queued rows above a floor, and parked rows that are due.

use std::sync::Arc;
use std::time::Duration;

use crate::{DestinationName, Event, EventId, Failure, OrderKey};

/// The place of a row in its outbox: an identity column in SQL, (cluster time, ordinal) in MongoDB.
/// Within a key, the order of `Seq` is the order of publishing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u128);

impl Seq {
    /// Above every row.
    pub const MAX: Seq = Seq(u128::MAX);

    /// The place just below; zero stays zero.
    pub fn before(self) -> Seq {
        Seq(self.0.saturating_sub(1))
    }
}

/// A bucket of keys; the unit of ownership between relays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(pub u16);

/// The priority lane of a row, from the sign of its priority. Order is kept within a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Positive priority.
    High,
    /// Priority zero, or none.
    #[default]
    Normal,
    /// Negative priority.
    Low,
}

impl Lane {
    /// All lanes, the most urgent first.
    pub const ALL: [Lane; 3] = [Lane::High, Lane::Normal, Lane::Low];

    /// The lane of a priority.
    pub fn of(priority: i64) -> Lane {
        match priority.signum() {
            1 => Lane::High,
            0 => Lane::Normal,
            _ => Lane::Low,
        }
    }

    /// The sign that the stores keep in their `lane` column: 1, 0 or -1.
    pub fn sign(self) -> i8 {
        match self {
            Lane::High => 1,
            Lane::Normal => 0,
            Lane::Low => -1,
        }
    }
}

/// One index range of a read: a shard and lane, from behind `floor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Which shard.
    pub shard: Shard,
    /// Which lane.
    pub lane: Lane,
    /// Rows at or below are settled or in the engine's memory.
    pub floor: Seq,
    /// Rows above the floor that the engine holds in memory. They must not be returned and must not fill the limit.
    pub skip: Vec<Seq>,
    /// At most this many rows.
    pub limit: u32,
}

/// What to bring of the parked rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParkedRange {
    /// The shards whose parked rows are wanted.
    pub shards: Vec<Shard>,
    /// At most this many due heads.
    pub heads: u32,
    /// At most this many rows behind each head, in order.
    pub followers: u32,
    /// Rows that the engine holds in memory: neither they nor anything of their key, lane and destination is returned.
    pub busy: Vec<(Seq, Option<DestinationName>)>,
    /// Destinations whose circuit is not closed: none of their rows is due.
    pub not_for: Vec<DestinationName>,
}

/// One read of an outbox. At most one is under way per outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Queued rows, by range.
    pub ranges: Vec<Range>,
    /// A bound on the bytes of the answer: payloads, headers and names. At least one row is returned all the same, or
    /// nothing would move.
    pub max_bytes: usize,
    /// Parked rows; the same snapshot as the queued ones.
    pub parked: ParkedRange,
    /// Destinations whose dead rows do not hold their key (`dead_letter = "skip"`).
    pub skip_dead: Vec<DestinationName>,
}

/// At which destinations the parked rows of a queued row's key and lane stand in its way, in the read's own snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Blocked {
    /// Nothing of this key is parked.
    #[default]
    Nowhere,
    /// Something is parked for these destinations.
    At(Vec<DestinationName>),
    /// A row without a destination is parked: it blocks its key at every destination.
    Everywhere,
}

/// That this event id was published to a destination within the duplicate window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentBefore {
    /// Where it was published.
    pub destination: DestinationName,
    /// Whether what was published is what this row holds, or what a person has put in its place: a row of the same
    /// event that was edited has gone there, and this one, which nobody has edited, would take that back.
    pub same_content: bool,
}

/// A row of `outbox`.
#[derive(Clone, Debug)]
pub struct QueuedRow {
    /// Its place.
    pub seq: Seq,
    /// Its shard.
    pub shard: Shard,
    /// Its lane.
    pub lane: Lane,
    /// What it keeps order by.
    pub key: OrderKey,
    /// Its id, also when the rest of the row is bad.
    pub event_id: EventId,
    /// The event, or why the row is not one. A bad row keeps its place and is parked with the reason.
    pub event: Result<Arc<Event>, Failure>,
    /// How long until it may be published, by the database's clock; zero for now.
    pub due_in: Duration,
    /// What stands in its way.
    pub blocked: Blocked,
    /// Where its id was published before. Empty for replayed rows, which are meant to go again.
    pub sent_before: Vec<SentBefore>,
    /// Set on a replayed row: the id of its replay.
    pub replay: Option<Arc<str>>,
}

/// A row of `outbox_parked`: an event, for one destination, that needs time or a person.
#[derive(Clone, Debug)]
pub struct ParkedRow {
    /// The event with its place; `blocked` is not used.
    pub row: QueuedRow,
    /// The destination it is owed to. None: it could not be routed, and blocks its key everywhere.
    pub destination: Option<DestinationName>,
    /// Raised by every write. A settle that names another version changes nothing, unless the event was confirmed.
    pub version: u64,
    /// Charged attempts.
    pub attempts: u32,
    /// Failures, charged or not: what the back-off grows by.
    pub failures: u32,
    /// How long ago the last failure was, by the database's clock.
    pub failed_ago: Option<Duration>,
    /// For how long it has been failing.
    pub failing_for: Option<Duration>,
    /// Whether an earlier attempt may have reached the destination.
    pub maybe_sent: bool,
    /// Whether an operator sent it again since it was dead.
    pub redriven: bool,
}

/// What a read brings, all from one snapshot.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Queued rows, ascending by `seq` within each range.
    pub queued: Vec<QueuedRow>,
    /// Due heads, each directly followed by the rows that wait behind it, ascending by `seq`.
    pub parked: Vec<ParkedRow>,
    /// Every row at or below was decided (committed or rolled back) before this snapshot was taken.
    pub horizon: Seq,
    /// Per range, in the order asked: no visible row up to here was left out. [`Seq::MAX`] when the range was
    /// exhausted.
    pub read_to: Vec<Seq>,
    /// Every due head was looked at and, but for those busy or not asked for, returned: the search was not cut short
    /// by a limit of rows, bytes or effort.
    pub parked_to_end: bool,
    /// When the next parked row comes due by time alone, by the database's clock; sooner when the search was cut short.
    pub next_due_in: Option<Duration>,
}
