//! What the tables hold: queued rows, parked rows and history.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    DestinationName, Event, EventId, Failure, Lane, OrderKey, Park, Receipt, Seq, Shard, Timestamp,
};

use super::TxId;

/// What a producer inserts.
#[derive(Clone, Debug)]
pub struct NewRow {
    /// The columns. A bad row has them too: its id, key and priority are readable, its event is not.
    pub event: Event,
    /// Why the row cannot be read as an event; set for rows that our own builder would have refused.
    pub bad: Option<Failure>,
    /// The id of the replay that inserts it.
    pub replay: Option<Arc<str>>,
}

impl From<Event> for NewRow {
    fn from(event: Event) -> Self {
        Self {
            event,
            bad: None,
            replay: None,
        }
    }
}

/// A row of `outbox`.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its place.
    pub seq: Seq,
    /// Its shard.
    pub shard: Shard,
    /// Its lane.
    pub lane: Lane,
    /// What it keeps order by.
    pub key: OrderKey,
    /// Its columns.
    pub event: Arc<Event>,
    /// Why it is not an event.
    pub bad: Option<Failure>,
    /// The id of its replay.
    pub replay: Option<Arc<str>>,
    /// When it was inserted.
    pub inserted: Duration,
    /// The open transaction that holds it; none once it is visible.
    pub tx: Option<TxId>,
}

impl Row {
    /// Its id.
    pub fn event_id(&self) -> &EventId {
        &self.event.id
    }
}

/// A row of `outbox_parked`.
#[derive(Clone, Debug)]
pub struct Parked {
    /// The row as it was queued; `key` is the one it was parked under.
    pub row: Row,
    /// The destination it is owed to.
    pub destination: Option<DestinationName>,
    /// Raised by every write.
    pub version: u64,
    /// Needs a person.
    pub dead: bool,
    /// Not to be tried before.
    pub next_attempt: Duration,
    /// Charged attempts.
    pub attempts: u32,
    /// Failures, charged or not.
    pub failures: u32,
    /// Whether an attempt may have reached the destination.
    pub maybe_sent: bool,
    /// The last failure.
    pub failure: Option<Failure>,
    /// When it failed first and last.
    pub failed: Option<(Duration, Duration)>,
    /// How and when it had failed before it was routed anew; none where it has failed since.
    pub before: Option<(String, Duration)>,
    /// Whether an operator sent it again since the last attempt.
    pub redriven: bool,
    /// What people changed: the version that an edit made, and what the row was before it.
    pub edits: Vec<(u64, Arc<Event>)>,
    /// The version at which a payload that was edited later was read and sent.
    pub sent_as: Option<u64>,
}

impl Parked {
    /// Dead and refused rows are sent again; a row that only waits has nothing to be sent again for.
    pub fn can_redrive(&self) -> bool {
        self.dead || self.failure.is_some()
    }

    /// Only a row that stands alone has a time of its own; one that has come to it may be under way already.
    pub fn can_move(&self, now: Duration) -> bool {
        !self.can_redrive() && self.next_attempt > now && self.row.key == OrderKey::alone(self.row.seq)
    }

    /// A person has decided: the row gets all its attempts again. Its failure stays for people to read.
    pub(super) fn redrive(&mut self, now: Duration) {
        self.version += 1;
        self.dead = false;
        self.next_attempt = now;
        self.attempts = 0;
        self.failures = 0;
        self.redriven = true;
    }

    /// What somebody read who read this version; none: what it is now.
    pub(super) fn read_as(&self, version: u64) -> Option<&Arc<Event>> {
        let mut later = self.edits.iter().filter(|(edit, _)| *edit > version);
        later.next().map(|(_, before)| before)
    }

    pub(super) fn tries(&self) -> Tries {
        let last = self.failed.map(|(_, last)| last);
        Tries {
            attempts: self.attempts,
            failures: self.failures,
            failure: self.failure.clone().zip(last),
            before: self.before.clone(),
        }
    }

    /// What the rows that replace it keep of how it failed.
    pub(super) fn failed_before(&self) -> Option<(String, Duration)> {
        match (&self.failure, self.failed) {
            (Some(failure), Some((_, last))) => {
                Some((format!("{}: {}", failure.kind.as_str(), failure.text), last))
            }
            _ => self.before.clone(),
        }
    }

    pub(super) fn new(now: Duration, row: Row, park: &Park, version: u64) -> Self {
        let mut parked = Self {
            row,
            destination: park.destination.clone(),
            version,
            dead: false,
            next_attempt: now,
            attempts: 0,
            failures: 0,
            maybe_sent: false,
            failure: None,
            failed: None,
            before: None,
            redriven: false,
            edits: Vec::new(),
            sent_as: None,
        };
        parked.write(now, park);
        parked
    }

    /// Takes over what a settle says. Counts are absolute; the error and its times stay where no new failure is named.
    /// That it was redriven stays until it is dead again.
    pub(super) fn write(&mut self, now: Duration, park: &Park) {
        self.dead = park.dead;
        self.next_attempt = match park.available_at {
            Some(Timestamp(at)) => Duration::from_micros(u64::try_from(at).unwrap_or(0)),
            None => now.saturating_add(park.next_attempt_in),
        };
        self.attempts = park.attempts;
        self.failures = park.failures;
        self.maybe_sent = park.maybe_sent;
        if let Some(failure) = &park.failure {
            self.redriven &= !park.dead;
            self.before = None;
            self.failure = Some(failure.clone());
            let first = self.failed.map_or(now, |(first, _)| first);
            self.failed = Some((first, now));
        }
    }
}

/// How a row left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Published, with the destination's receipt.
    Sent(Receipt),
    /// Thrown away by an operator, for this reason.
    Discarded(String),
}

/// A row of `outbox_sent`.
#[derive(Clone, Debug)]
pub struct Record {
    /// The row as it was queued.
    pub row: Row,
    /// Where it was published, or owed to.
    pub destination: Option<DestinationName>,
    /// How it left.
    pub fate: Fate,
    /// When it left.
    pub at: Duration,
    /// What was tried before it left.
    pub tries: Tries,
}

/// What was tried with a row.
#[derive(Clone, Debug, Default)]
pub struct Tries {
    /// Charged attempts.
    pub attempts: u32,
    /// Failures, charged or not.
    pub failures: u32,
    /// The last failure, and when it was.
    pub failure: Option<(Failure, Duration)>,
    /// How and when it had failed before it was routed anew, where it has not failed since.
    pub before: Option<(String, Duration)>,
}

impl Record {
    /// Whether it was published.
    pub fn is_sent(&self) -> bool {
        matches!(self.fate, Fate::Sent(_))
    }
}

/// The shard of a key: FNV-1a, because the standard library's hash differs from run to run.
pub(super) fn shard_of(key: &OrderKey, shards: u16) -> Shard {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in key.as_str().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    // The low bits of FNV of short keys differ too little; folding brings the high ones in.
    let folded = hash ^ (hash >> 32);
    Shard(u16::try_from(folded % u64::from(shards)).unwrap_or(0))
}

/// The database's clock as the type that events carry.
pub(super) fn timestamp(now: Duration) -> Timestamp {
    Timestamp(i64::try_from(now.as_micros()).unwrap_or(i64::MAX))
}

/// How long until a time, by the database's clock; zero when it has come.
pub(super) fn until(now: Duration, time: Option<Timestamp>) -> Duration {
    let Some(Timestamp(micros)) = time else {
        return Duration::ZERO;
    };
    Duration::from_micros(u64::try_from(micros).unwrap_or(0)).saturating_sub(now)
}
