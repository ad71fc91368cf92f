//! One event with everything that is known of it.

use super::{JobId, Status};
#[cfg(doc)]
use crate::Console;
use crate::{DestinationName, Event, EventId, Filter, Payload, Seq, Timestamp};

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
    /// Which errors it is alike: the name of the group that the last error belongs to.
    pub error_group: Option<String>,
    /// The text of the last error; the reason of one that was discarded.
    pub error: Option<String>,
    /// When it failed first and last.
    pub failed: Option<(Timestamp, Timestamp)>,
    /// When it had failed last before it was routed anew, and has not failed since; the error is of that time.
    pub failed_before: Option<Timestamp>,
    /// When it is tried again.
    pub next_attempt_at: Option<Timestamp>,
    /// When it was published.
    pub published_at: Option<Timestamp>,
    /// The destination's receipt.
    pub receipt: Option<String>,
    /// The payload that goes or went there, where it is not the one of the record: a person changed it.
    pub payload: Option<Payload>,
    /// The content type beside that payload.
    pub content_type: Option<String>,
    /// The first of its line, where that is another event: it is not tried before that one has left, whatever its own
    /// state and time are. Only [`Console::show`] tells.
    pub behind: Option<Head>,
}

/// The event that stands first in a line of parked ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its id.
    pub event_id: EventId,
    /// The destination that it is parked for; none: it has none, and stands in its key's way at every destination.
    pub destination: Option<DestinationName>,
    /// Where it stands.
    pub status: Status,
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
            error_group: None,
            error: None,
            failed: None,
            failed_before: None,
            next_attempt_at: None,
            published_at: None,
            receipt: None,
            payload: None,
            content_type: None,
            behind: None,
        }
    }
}

/// One event with everything that is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Its place.
    pub seq: Seq,
    /// The event as stored, or why the row is not one. [`Console::show`] tells it with the payload that the producer
    /// wrote; a listing with the one of its first row.
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
    /// The replay that it is a copy of; none for an event itself.
    pub replay: Option<JobId>,
    /// Where it stands, one entry a destination; the worst first.
    pub routes: Vec<Route>,
    /// What happened to it, oldest first. Empty in a listing: only [`Console::show`] tells.
    pub timeline: Vec<Moment>,
    /// The payload before a person changed it. Only [`Console::show`] tells.
    pub original: Option<Original>,
}

impl EventRecord {
    /// The worst of its states: what a one-line listing shows.
    pub fn status(&self) -> Status {
        self.routes.first().map_or(Status::Pending, |route| route.status)
    }

    /// Takes in the same event as another of its rows has it.
    pub fn join(&mut self, mut other: Self) {
        let payload = other.payload().filter(|payload| self.payload() != Some(payload));
        let kind = other
            .content_type()
            .filter(|kind| self.content_type() != Some(kind));
        if payload.is_some() || kind.is_some() {
            let own = (other.payload().cloned(), other.content_type().map(str::to_owned));
            for route in &mut other.routes {
                (route.payload, route.content_type) = own.clone();
            }
        }
        self.routes.append(&mut other.routes);
    }

    /// Gives the record the payload that the producer wrote; what went elsewhere with another stays with its route.
    pub fn set_original(&mut self, original: Original) {
        if let Ok(event) = &mut self.event {
            let first = (original.payload.clone(), original.content_type.clone());
            let stored = (event.payload.clone(), event.content_type.clone());
            for route in &mut self.routes {
                let own = match route.payload.take() {
                    Some(payload) => (payload, route.content_type.take()),
                    None => stored.clone(),
                };
                if own != first {
                    (route.payload, route.content_type) = (Some(own.0), own.1);
                }
            }
            (event.payload, event.content_type) = first;
        }
        self.original = Some(original);
    }

    fn payload(&self) -> Option<&Payload> {
        self.event
            .as_ref()
            .map_or(self.bad_payload.as_ref(), |event| Some(&event.payload))
    }

    fn content_type(&self) -> Option<&str> {
        self.event
            .as_ref()
            .ok()
            .and_then(|event| event.content_type.as_deref())
    }

    /// Whether a verb that goes over the parked rows comes to it.
    pub fn is_parked_for(&self, filter: &Filter, now: Timestamp) -> bool {
        let mut parked = self.routes.iter().filter(|route| route.status.is_parked());
        parked.any(|route| filter.matches(self, route, now))
    }

    /// What a person is told who named it in a filter that means no row of it: where it stands with the destinations
    /// that the filter is about, in whatever state. One that is not parked anywhere is told as a whole: a filter may be
    /// about what only parked rows have.
    pub fn refused(&self, filter: &Filter, now: Timestamp) -> Vec<(EventId, Status)> {
        if !self.status().is_parked() {
            return vec![(self.event_id.clone(), self.status())];
        }
        let any = Filter {
            status: Vec::new(),
            ..filter.clone()
        };
        let meant = self.routes.iter().filter(|route| any.matches(self, route, now));
        meant.map(|route| (self.event_id.clone(), route.status)).collect()
    }
}

/// Something that happened to an event, or will.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: What,
    /// At which destination; none: the event as a whole.
    pub destination: Option<DestinationName>,
    /// Who did it, where a person did.
    pub actor: Option<String>,
    /// The receipt, the error or the reason; empty where there is nothing to say.
    pub detail: String,
}

/// What can happen to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// Its row was written.
    Enqueued,
    /// An attempt failed for the first time.
    FirstFailed,
    /// An attempt failed, the last so far.
    LastFailed,
    /// A person sent it again.
    Redriven,
    /// A person changed its payload.
    Edited,
    /// A person gave it another time.
    Moved,
    /// A person threw it away.
    Discarded,
    /// Its destination confirmed it.
    Published,
    /// A copy of it was sent by a replay.
    Replayed,
    /// It will be tried.
    NextAttempt,
}

impl What {
    /// The word that people and machines see.
    pub fn as_str(self) -> &'static str {
        match self {
            What::Enqueued => "enqueued",
            What::FirstFailed => "first_failed",
            What::LastFailed => "last_failed",
            What::Redriven => "redriven",
            What::Edited => "edited",
            What::Moved => "moved",
            What::Discarded => "discarded",
            What::Published => "published",
            What::Replayed => "replayed",
            What::NextAttempt => "next_attempt",
        }
    }
}

/// A payload before a person changed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// As the producer wrote it.
    pub payload: Payload,
    /// The content type beside it.
    pub content_type: Option<String>,
    /// When it was changed first.
    pub edited_at: Timestamp,
    /// Who did.
    pub actor: String,
}
