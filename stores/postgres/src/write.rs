//! A settle as `settle.sql` takes it: one array a column for queued rows, and an object for parked ones.

use std::borrow::Cow;

use postrider_core::{Leaves, Park, Settle, SettleParked, Then};
use serde_json::{Value, json};
use tokio_postgres::types::ToSql;

use crate::clock;
use crate::lease;
use crate::row::{self, destination_text, storable};

/// What became of the parked row `o`: an object that [`WrittenParked::take`] makes, by [`place_of`].
pub(crate) const ENTRY: &str = "($12::jsonb -> (o.seq || ':' || o.destination))";

/// Whether another event is parked where the row `o` is to be put as well: by its place, which a sequence that was
/// set back gives out again. The same event may be there already, and then it is owed there once.
pub(crate) const TAKEN: &str = "({entry} -> 'beside' IS NOT NULL AND EXISTS (
    SELECT 1 FROM {outbox_parked} b
    WHERE b.seq = ANY (ARRAY[o.seq]) AND (b.event_id, b.enqueued_at) IS DISTINCT FROM (o.event_id, o.enqueued_at)
      AND {entry} -> 'beside' @> jsonb_build_array(jsonb_build_object('destination', b.destination))))";

/// Whether a person has changed the payload of the row `o` since it was read.
pub(crate) const EDITED: &str = "(coalesce(o.edited, 0) > ({entry} ->> 'version')::bigint)";

/// The fields of an object that [`park`] makes, but for the destination.
pub(crate) const PARK: &str = "dead boolean, wait bigint, at bigint, attempts bigint, failures bigint, \
     maybe_sent boolean, kind text, text text, alike text";

/// When such an object is to be tried next.
pub(crate) const NEXT_ATTEMPT: &str = "coalesce('epoch'::timestamptz + k.at * interval '1 microsecond', \
     now() + k.wait * interval '1 microsecond')";

/// A settle in the form of parameters: one array a column.
#[derive(Default)]
pub(crate) struct Written<'a> {
    fence: (Vec<i16>, Vec<i64>),
    seq: Vec<i64>,
    id: Vec<Cow<'a, str>>,
    /// Only of rows that are parked.
    key: Vec<Option<Cow<'a, str>>>,
    outcome: Vec<&'static str>,
    destination: Vec<Option<Cow<'a, str>>>,
    receipt: Vec<Option<Cow<'a, str>>>,
    more: Vec<Option<String>>,
    parks: Vec<Option<String>>,
    parked: WrittenParked,
    entries: Option<Value>,
    /// What is written of a row that stays because another event stands where it is to go.
    taken: Option<Value>,
}

/// What became of parked rows: the places, and an object by `place:destination`.
#[derive(Default)]
struct WrittenParked {
    seq: Vec<i64>,
    entries: serde_json::Map<String, Value>,
}

impl<'a> Written<'a> {
    pub(crate) fn of(settle: &'a Settle) -> Self {
        let mut written = Self {
            fence: lease::split(&settle.fence),
            ..Self::default()
        };
        for entry in &settle.queued {
            written.seq.push(row::place(entry.seq));
            written.id.push(storable(entry.event_id.as_str()));
            written.leaves(&entry.leaves);
            let parks = matches!(&entry.leaves, Leaves::Decided { parked, .. } if !parked.is_empty());
            written.key.push(parks.then(|| storable(entry.key.as_str())));
        }
        for (n, entry) in (1..).zip(&settle.parked) {
            written.parked.take(n, entry);
        }
        written.taken = Some(park(&Park::place_taken(None)));
        written.entries = Some(Value::Object(std::mem::take(&mut written.parked.entries)));
        written
    }

    /// The first destination has columns of its own, because most events have one; the others share a list.
    fn leaves(&mut self, leaves: &'a Leaves) {
        let (outcome, sent, parks) = match leaves {
            Leaves::Decided { sent, parked } => ("decided", sent.as_slice(), parked.as_slice()),
            Leaves::Duplicate => ("duplicate", [].as_slice(), [].as_slice()),
            Leaves::Dropped => ("dropped", [].as_slice(), [].as_slice()),
        };
        let first = sent.first();
        let more = sent.iter().skip(1).map(|(destination, receipt)| {
            json!({"destination": storable(destination.as_str()), "receipt": receipt.0.as_deref().map(storable)})
        });
        self.outcome.push(outcome);
        self.destination
            .push(first.map(|(destination, _)| storable(destination.as_str())));
        self.receipt
            .push(first.and_then(|(_, receipt)| receipt.0.as_deref().map(storable)));
        self.more.push(list(more));
        self.parks.push(list(parks.iter().map(park)));
    }

    pub(crate) fn parameters(&self) -> [&(dyn ToSql + Sync); 13] {
        [
            &self.fence.0,
            &self.fence.1,
            &self.seq,
            &self.id,
            &self.key,
            &self.outcome,
            &self.destination,
            &self.receipt,
            &self.more,
            &self.parks,
            &self.parked.seq,
            &self.entries,
            &self.taken,
        ]
    }
}

impl WrittenParked {
    fn take(&mut self, n: u64, entry: &SettleParked) {
        let place = place_of(entry);
        // One entry a row: what was published counts, whatever else is said of the row.
        if self.entries.get(&place).is_some_and(is_published) {
            return;
        }
        let mut written = match &entry.then {
            Then::Sent(receipt) => json!({"outcome": "sent", "receipt": receipt.0.as_deref().map(storable)}),
            Then::Duplicate => json!({"outcome": "duplicate"}),
            Then::Again(stays) => json!({"outcome": "again", "stays": park(stays)}),
            Then::Split(parks) => split(parks),
        };
        written["n"] = n.into();
        written["version"] = entry.version.into();
        self.seq.push(row::place(entry.seq));
        self.entries.insert(place, written);
    }
}

/// How [`ENTRY`] finds what became of a row.
fn place_of(entry: &SettleParked) -> String {
    let destination = destination_text(entry.destination.as_ref());
    format!("{}:{}", row::place(entry.seq), storable(destination))
}

fn is_published(written: &Value) -> bool {
    written["outcome"] == "sent" || written["outcome"] == "duplicate"
}

/// Replaced by nothing, it has nothing beside it.
fn split(parks: &[Park]) -> Value {
    match parks.is_empty() {
        true => json!({"outcome": "split"}),
        false => json!({"outcome": "split", "beside": parks.iter().map(park).collect::<Value>()}),
    }
}

fn list(values: impl Iterator<Item = Value>) -> Option<String> {
    let values: Vec<Value> = values.collect();
    (!values.is_empty()).then(|| Value::Array(values).to_string())
}

fn park(park: &Park) -> Value {
    let failure = park.failure.as_ref();
    json!({
        "destination": storable(destination_text(park.destination.as_ref())),
        "dead": park.dead,
        "wait": clock::micros(park.next_attempt_in),
        "at": park.available_at.map(|at| at.0),
        "attempts": park.attempts,
        "failures": park.failures,
        "maybe_sent": park.maybe_sent,
        "kind": failure.map(|failure| failure.kind.as_str()),
        "text": failure.map(|failure| storable(&failure.text)),
        "alike": failure.map(|failure| failure.group(park.destination.as_ref())),
    })
}
