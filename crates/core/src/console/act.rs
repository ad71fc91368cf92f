//! What people do with parked rows.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use super::{Cursor, EventRecord, Status};
use crate::{DestinationName, EventId, Filter, Payload, StoreError, StoreErrorKind, Timestamp};

/// What to do with parked rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Send again: dead and refused rows. One that stands behind another of its key waits for it.
    Redrive,
    /// Throw away, for this reason; the row moves into the history as discarded.
    Discard(String),
    /// Give scheduled rows another time, this long from now by the database's clock.
    Move(Duration),
}

impl Verb {
    /// The word of the audit.
    pub fn as_str(&self) -> &'static str {
        match self {
            Verb::Redrive => "redrive",
            Verb::Discard(_) => "discard",
            Verb::Move(_) => "move",
        }
    }

    /// Whether it works on a parked row. Dead and refused rows are sent again; one that only waits has nothing to be
    /// sent again for. Only a row that stands alone has a time of its own, and once it has come the row may be under
    /// way. Anything may be thrown away.
    pub fn suits(&self, status: Status, alone: bool) -> bool {
        match self {
            Verb::Redrive => matches!(status, Status::DeadLetter | Status::Retrying),
            Verb::Discard(_) => true,
            Verb::Move(_) => alone && status == Status::Scheduled,
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
        let mut detail = self.filter.to_json();
        match &self.verb {
            Verb::Redrive => {}
            Verb::Discard(reason) => detail["reason"] = reason.as_str().into(),
            Verb::Move(by) => detail["in_seconds"] = by.as_secs().into(),
        }
        detail.to_string()
    }

    /// The events that it names and that a step has said nothing of: `told` are those of its rows that were touched or
    /// refused, `missed` those that somebody else was faster with. What is none of a later step's business either is
    /// said by the first.
    pub fn unheard<'a>(&'a self, told: &BTreeSet<EventId>, missed: &BTreeSet<EventId>) -> Vec<&'a EventId> {
        let named = self.filter.event_id.iter().filter(|id| !told.contains(*id));
        named
            .filter(|id| self.from.is_none() || missed.contains(*id))
            .collect()
    }

    /// What is said of one of them, with all records that have its id. One that a later step comes to is left to it.
    pub fn heard(
        &self,
        records: &[EventRecord],
        is_last_step: bool,
        now: Timestamp,
    ) -> Vec<(EventId, Status)> {
        let comes_later = |record: &EventRecord| record.is_parked_for(&self.filter, now);
        match !is_last_step && records.iter().any(comes_later) {
            true => Vec::new(),
            false => records
                .iter()
                .flat_map(|record| record.refused(&self.filter, now))
                .collect(),
        }
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

/// A change of a parked event's payload, which is sent again with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Which event.
    pub event_id: EventId,
    /// For which destination; none: for all for which it is dead or was refused.
    pub destination: Option<DestinationName>,
    /// The new payload. The first one is kept.
    pub payload: Payload,
    /// The new content type; none: as it was.
    pub content_type: Option<String>,
    /// Only say whether it would work.
    pub dry_run: bool,
    /// Who asks, for the audit.
    pub actor: String,
}

impl Edit {
    /// The rows that it is about, in whatever state.
    pub fn filter(&self) -> Filter {
        Filter {
            event_id: vec![self.event_id.clone()],
            destination: self.destination.clone(),
            ..Filter::default()
        }
    }

    /// The content type of a row behind the edit, which had this one and this payload before. Where neither names one,
    /// it is as it was even where text takes the place of bytes: what a consumer is told must not change unsaid.
    pub fn content_type_after(&self, content_type: Option<&str>, before: &Payload) -> Option<String> {
        let (was, is) = (before.default_content_type(), self.payload.default_content_type());
        let named = self.content_type.as_deref().or(content_type);
        named.or((was != is).then_some(was)).map(str::to_owned)
    }

    /// Where to, and the payloads by their hashes, as JSON: what the audit keeps. What is in a payload is nobody's to
    /// read there.
    pub fn detail(&self, before: &[String]) -> String {
        json!({
            "destination": self.destination.as_ref().map(DestinationName::as_str),
            "before": before,
            "after": self.payload.hash(),
        })
        .to_string()
    }

    /// The error of a row that would be no event with the new payload either.
    pub fn refused(reason: &str) -> StoreError {
        let text = format!("the event would not be valid: {reason}");
        let error = StoreError::new(StoreErrorKind::Invalid, text);
        let is_mendable = ["payload", "content_type"]
            .iter()
            .any(|part| reason.starts_with(part));
        match is_mendable {
            true => error,
            false => error.with_advice(
                "nothing was changed: an edit changes the payload and its content type, nothing else of a row; discard \
                 it with `postrider dead discard` and have the service write the event anew",
            ),
        }
    }
}
