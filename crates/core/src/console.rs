//! What operators need of a database.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{
    BoxFuture, DestinationName, Event, EventId, Filter, Payload, RelayId, Seq, Shard, StoreError,
    StoreErrorKind, Timestamp,
};

/// What people see of an event. Derived from where it is, never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Queued.
    Pending,
    /// Parked after a failure; tried again by itself.
    Retrying,
    /// Parked behind another event of its key.
    Waiting,
    /// Parked because its destination is down or paused.
    Held,
    /// Parked until its time.
    Scheduled,
    /// Needs a person.
    DeadLetter,
    /// Sent.
    Published,
    /// Thrown away by a person, with a reason.
    Discarded,
}

impl Status {
    /// The word of the `outbox_events` view.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Pending => "PENDING",
            Status::Retrying => "RETRYING",
            Status::Waiting => "WAITING",
            Status::Held => "HELD",
            Status::Scheduled => "SCHEDULED",
            Status::DeadLetter => "DEAD_LETTER",
            Status::Published => "PUBLISHED",
            Status::Discarded => "DISCARDED",
        }
    }

    /// How bad it is: the lower, the worse. The worst state of an event is the one that a line shows.
    pub fn severity(self) -> u8 {
        match self {
            Status::DeadLetter => 0,
            Status::Retrying => 1,
            Status::Held => 2,
            Status::Waiting => 3,
            Status::Scheduled => 4,
            Status::Pending => 5,
            Status::Discarded => 6,
            Status::Published => 7,
        }
    }

    /// The status of a word of the view, in either case.
    pub fn parse(word: &str) -> Option<Status> {
        use Status::{DeadLetter, Discarded, Held, Pending, Published, Retrying, Scheduled, Waiting};
        let all = [
            Pending, Retrying, Waiting, Held, Scheduled, DeadLetter, Published, Discarded,
        ];
        all.into_iter().find(|status| {
            status.as_str().eq_ignore_ascii_case(word)
                || (*status == DeadLetter && word.eq_ignore_ascii_case("dead"))
        })
    }

    /// Whether it is one of a parked row.
    pub fn is_parked(self) -> bool {
        !matches!(self, Status::Pending | Status::Published | Status::Discarded)
    }
}

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

/// One published event, as the history has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When its destination had confirmed it.
    pub published_at: Timestamp,
    /// Which event.
    pub event_id: EventId,
    /// Its type.
    pub event_type: String,
    /// Type and id of its aggregate.
    pub aggregate: (String, String),
    /// What it keeps order by.
    pub key: String,
    /// Its headers.
    pub headers: BTreeMap<String, String>,
    /// Where it went.
    pub destination: Option<DestinationName>,
    /// The destination's receipt.
    pub receipt: Option<String>,
}

impl Sent {
    /// The event without its payload: enough for a destination to fill in its address.
    pub fn without_payload(&self) -> Event {
        let (aggregate_type, aggregate_id) = self.aggregate.clone();
        Event {
            id: self.event_id.clone(),
            event_type: self.event_type.clone(),
            aggregate_type,
            aggregate_id,
            key: Some(self.key.clone()),
            payload: Payload::Tombstone,
            content_type: None,
            headers: self.headers.clone(),
            priority: 0,
            available_at: None,
            created_at: None,
        }
    }
}

/// A piece of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentPage {
    /// The events, in the order of their publishing.
    pub events: Vec<Sent>,
    /// Behind the last of them: where to look for what is published next.
    pub next: Cursor,
}

/// Where to go on with a listing or a bulk verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub String);

impl Cursor {
    /// A place and a destination as a cursor: `seq`, or `seq:destination`.
    pub fn at(place: i64, destination: &str) -> Self {
        Self(match destination {
            "" => place.to_string(),
            name => format!("{place}:{name}"),
        })
    }

    /// The place and the destination of a cursor that [`Cursor::at`] made.
    pub fn place(&self) -> Result<(i64, String), StoreError> {
        let (place, destination) = self.0.split_once(':').unwrap_or((&self.0, ""));
        match place.parse() {
            Ok(place) => Ok((place, destination.to_owned())),
            Err(_) => Err(StoreError::new(
                StoreErrorKind::Other,
                "the cursor is not one that this outbox gave out; start the listing again",
            )),
        }
    }
}

/// Where one event stands with one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination; none: queued, or parked without one.
    pub destination: Option<DestinationName>,
    /// Where it stands.
    pub status: Status,
    /// Charged attempts.
    pub attempts: u32,
    /// Failures, charged or not.
    pub failures: u32,
    /// The kind of the last error.
    pub error_kind: Option<String>,
    /// The text of the last error; the reason of one that was discarded.
    pub error: Option<String>,
    /// When it failed first and last.
    pub failed: Option<(Timestamp, Timestamp)>,
    /// When it is tried again.
    pub next_attempt_at: Option<Timestamp>,
    /// When it was published.
    pub published_at: Option<Timestamp>,
    /// The destination's receipt.
    pub receipt: Option<String>,
}

impl Route {
    /// A route of which nothing but the status is known.
    pub fn new(destination: Option<DestinationName>, status: Status) -> Self {
        Self {
            destination,
            status,
            attempts: 0,
            failures: 0,
            error_kind: None,
            error: None,
            failed: None,
            next_attempt_at: None,
            published_at: None,
            receipt: None,
        }
    }
}

/// One event with everything that is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Its place.
    pub seq: Seq,
    /// The event as stored, or why the row is not one.
    pub event: Result<Event, String>,
    /// The payload of a row that is not an event, as it is stored: bytes where the text is none. None for an event.
    pub bad_payload: Option<Payload>,
    /// Its id, also when the row is bad.
    pub event_id: EventId,
    /// Its type, also when the row is bad.
    pub event_type: String,
    /// What it keeps order by.
    pub key: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Where it stands, one entry a destination; the worst first.
    pub routes: Vec<Route>,
}

impl EventRecord {
    /// The worst of its states: what a one-line listing shows.
    pub fn status(&self) -> Status {
        self.routes.first().map_or(Status::Pending, |route| route.status)
    }
}

/// One page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The events, oldest first.
    pub events: Vec<EventRecord>,
    /// Where the next page begins; none at the end.
    pub next: Option<Cursor>,
}

/// Failures that look alike: what an operator looks at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The destination; none for events without a route.
    pub destination: Option<DestinationName>,
    /// The kind of error.
    pub error_kind: String,
    /// The text of one of them.
    pub example: String,
    /// How many rows.
    pub count: u64,
    /// When the first and the last of them failed.
    pub seen: (Timestamp, Timestamp),
}

/// What to do with parked rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Send again: dead and refused rows. One that stands behind another of its key waits for it.
    Redrive,
    /// Throw away, for this reason; the row moves into the history as discarded.
    Discard(String),
}

impl Verb {
    /// The word of the audit.
    pub fn as_str(&self) -> &'static str {
        match self {
            Verb::Redrive => "redrive",
            Verb::Discard(_) => "discard",
        }
    }
}

/// One step of a bulk verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// What to do.
    pub verb: Verb,
    /// With which rows.
    pub filter: Filter,
    /// Only count.
    pub dry_run: bool,
    /// Who asks, for the audit.
    pub actor: String,
    /// At most this many rows in this step.
    pub limit: u32,
    /// Where the last step ended.
    pub from: Option<Cursor>,
}

impl Act {
    /// Why, and with which rows, as JSON: what the audit keeps.
    pub fn detail(&self) -> String {
        let filter = &self.filter;
        let reason = match &self.verb {
            Verb::Redrive => None,
            Verb::Discard(reason) => Some(reason),
        };
        serde_json::json!({
            "reason": reason,
            "status": filter.status.iter().map(|status| status.as_str()).collect::<Vec<_>>(),
            "event_id": filter.event_id.as_ref().map(|id| id.as_str()),
            "event_type": filter.event_type,
            "key": filter.key,
            "destination": filter.destination.as_ref().map(|name| name.as_str()),
            "error_kind": filter.error_kind,
            "older_than_seconds": filter.older_than.map(|age| age.as_secs()),
            "failing_for_seconds": filter.failing_for.map(|age| age.as_secs()),
        })
        .to_string()
    }
}

/// What one step of a bulk verb did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Rows changed, or that would be.
    pub touched: u64,
    /// Rows that matched but are in a state the verb does not work on, with that state.
    pub refused: Vec<(EventId, Status)>,
    /// Where to go on; none when done.
    pub next: Option<Cursor>,
}

/// An outbox as operators see it. Every call works beside running relays and blocks none of them.
pub trait Console: Send + Sync {
    /// The state in numbers.
    fn stats(&self) -> BoxFuture<'_, Result<Stats, StoreError>>;

    /// Events that match, oldest first.
    fn list(
        &self,
        filter: Filter,
        limit: u32,
        from: Option<Cursor>,
    ) -> BoxFuture<'_, Result<Listing, StoreError>>;

    /// One event with its payload; every record that has the id (a reused id has several).
    fn show(&self, id: EventId) -> BoxFuture<'_, Result<Vec<EventRecord>, StoreError>>;

    /// What was published, of one type or of any, newest last: the last `limit` of the history, or the first `limit`
    /// behind a cursor that an earlier page gave.
    ///
    /// It is for looking, not for consuming: what is written by a settle that took longer than a later one may be
    /// missed by whoever follows the history.
    fn sent(
        &self,
        event_type: Option<String>,
        limit: u32,
        after: Option<Cursor>,
    ) -> BoxFuture<'_, Result<SentPage, StoreError>>;

    /// Failures by destination and kind, the most frequent first.
    fn groups(&self) -> BoxFuture<'_, Result<Vec<Group>, StoreError>>;

    /// One step of a bulk verb; each step is one transaction, and the cursor makes it resumable.
    fn act(&self, act: Act) -> BoxFuture<'_, Result<Chunk, StoreError>>;

    /// Pauses or resumes a destination, or the whole outbox when none is named.
    fn pause(
        &self,
        destination: Option<DestinationName>,
        paused: bool,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Removes history older than `older_than`, at most `limit` rows in one transaction; answers how many.
    fn purge(&self, older_than: Duration, limit: u32) -> BoxFuture<'_, Result<u64, StoreError>>;
}
