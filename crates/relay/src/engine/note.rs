//! What the engine tells people: one note per thing worth a log line or a metric.

use std::time::Duration;

use postrider_core::{DestinationName, EventId, Failure, Seq, Shard, StoreErrorKind, Timestamp};

/// One event that a destination confirmed.
#[derive(Clone, Debug)]
pub struct Confirmed {
    /// Which event.
    pub event_id: EventId,
    /// Its type.
    pub event_type: String,
    /// When it was made, as the row says: the beginning of its latency.
    pub created_at: Option<Timestamp>,
    /// It is a copy that a replay sends.
    pub is_copy: bool,
}

/// Something worth telling. Ids and numbers, never payloads.
#[derive(Clone, Debug)]
pub enum Note {
    /// A destination confirmed part of a call.
    Published {
        /// Which destination.
        destination: DestinationName,
        /// The events.
        events: Vec<Confirmed>,
        /// From hand-over to confirm.
        took: Duration,
    },
    /// An event was refused and will be tried again.
    WillRetry {
        /// Which event.
        event_id: EventId,
        /// Its type, where known.
        event_type: Option<String>,
        /// Where.
        destination: DestinationName,
        /// Why.
        failure: Failure,
        /// When.
        retry_in: Duration,
        /// Charged attempts so far.
        attempts: u32,
        /// Failures so far, charged or not.
        failures: u32,
    },
    /// An event needs a person.
    Dead {
        /// Which event.
        event_id: EventId,
        /// Its type, where known.
        event_type: Option<String>,
        /// Where; none when it could not be routed.
        destination: Option<DestinationName>,
        /// Why.
        failure: Failure,
    },
    /// An event was published before, with the same content.
    Duplicate {
        /// Which event.
        event_id: EventId,
        /// Where.
        destination: DestinationName,
    },
    /// A route drops the event on purpose.
    Dropped {
        /// Which event.
        event_id: EventId,
    },
    /// What became of an event cannot be written: its row stays where it is, and is tried again.
    Kept {
        /// Which event.
        event_id: EventId,
        /// Its place.
        seq: Seq,
        /// When it is tried again.
        retry_in: Duration,
    },
    /// Events wait for a destination that is down, or behind another of their key.
    Parked {
        /// How many.
        count: usize,
    },
    /// A destination takes nothing.
    CircuitOpened {
        /// Which destination.
        destination: DestinationName,
        /// Why.
        failure: Failure,
        /// When it is tried again.
        retry_in: Duration,
    },
    /// A destination takes events again.
    CircuitClosed {
        /// Which destination.
        destination: DestinationName,
    },
    /// The right to a shard was won.
    LeaseWon {
        /// Which shard.
        shard: Shard,
        /// Whether its last owner ended without releasing it.
        unclean: bool,
    },
    /// The right to a shard was lost or given up.
    LeaseLost {
        /// Which shard.
        shard: Shard,
        /// Whether it was given up on purpose.
        released: bool,
    },
    /// Every shard has been another relay's for a while.
    StandingBy,
    /// The database answers again.
    StoreBack {
        /// What was being done.
        doing: &'static str,
    },
    /// The database could not be asked.
    StoreFailed {
        /// What was being done.
        doing: &'static str,
        /// The kind of trouble.
        kind: StoreErrorKind,
        /// The error and its causes.
        error: String,
        /// What to do.
        advice: &'static str,
        /// When it is asked again.
        retry_in: Duration,
    },
    /// A row was found below the floor by the rare sweep. It is published, late: worth a report to the developers.
    Stranded {
        /// Which event.
        event_id: EventId,
    },
}
