//! Events as operators see them: one record with everything that is known.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use postrider_core::{
    Cursor, DestinationName, EventRecord, JobId, RecordedRoute, Sent, Seq, Status, StoreError, Timestamp,
};

use super::{Fate, Model, Parked, Place, Record, Row};

impl Model {
    /// One record a row of `outbox`, whatever became of it since.
    pub fn records(&self, now: Duration) -> BTreeMap<Seq, EventRecord> {
        let mut records = BTreeMap::new();
        let mut enter = |row: &Row, route| {
            let mut record = record_of(row);
            record.routes.push(route);
            match records.entry(row.seq) {
                Entry::Occupied(mut found) => EventRecord::join(found.get_mut(), record),
                Entry::Vacant(place) => drop(place.insert(record)),
            }
        };
        for row in self.queued() {
            enter(row, RecordedRoute::new(None, Status::Pending));
        }
        for parked in self.parked() {
            enter(&parked.row, self.parked_route(now, parked));
        }
        for record in self.history() {
            enter(&record.row, sent_route(record));
        }
        for record in records.values_mut() {
            record.routes.sort_by_key(|route| route.status.severity());
        }
        records
    }

    pub(super) fn parked_route(&self, now: Duration, parked: &Parked) -> RecordedRoute {
        let failure = parked.failure.as_ref();
        RecordedRoute {
            attempts: parked.attempts,
            failures: parked.failures,
            error_kind: failure.map(|failure| failure.kind.as_str().to_owned()),
            error_group: failure.map(|failure| failure.group(parked.destination.as_ref())),
            error: failure
                .map(|failure| failure.text.to_string())
                .or(parked.before.as_ref().map(|(text, _)| text.clone())),
            failed_before: parked.before.as_ref().map(|(_, at)| time(*at)),
            failed: parked.failed.map(|(first, last)| (time(first), time(last))),
            next_attempt_at: (!parked.dead).then(|| time(parked.next_attempt)),
            ..RecordedRoute::new(parked.destination.clone(), self.status_of(now, parked))
        }
    }
}

/// What is known of a row before it is known where it stands.
pub(super) fn record_of(row: &Row) -> EventRecord {
    EventRecord {
        seq: row.seq,
        event: match &row.bad {
            Some(failure) => Err(failure.text.to_string()),
            None => Ok((*row.event).clone()),
        },
        bad_payload: row.bad.as_ref().map(|_| row.event.payload.clone()),
        event_id: row.event_id().clone(),
        event_type: row.event.event_type.clone(),
        key: row.event.key_text().into_owned(),
        created_at: row.event.created_at.unwrap_or(time(row.inserted)),
        replay: row.replay.clone().map(JobId),
        routes: Vec::new(),
        timeline: Vec::new(),
        original: None,
    }
}

pub(super) fn sent_route(record: &Record) -> RecordedRoute {
    match &record.fate {
        Fate::Sent(receipt) => RecordedRoute {
            published_at: Some(time(record.at)),
            receipt: receipt.0.as_deref().map(str::to_owned),
            ..RecordedRoute::new(record.destination.clone(), Status::Published)
        },
        Fate::Discarded(reason) => RecordedRoute {
            error: Some(reason.clone()),
            ..RecordedRoute::new(record.destination.clone(), Status::Discarded)
        },
    }
}

/// A record of the history that was published.
pub(crate) fn sent_event(record: &Record) -> Sent {
    let route = sent_route(record);
    Sent {
        published_at: time(record.at),
        event_id: record.row.event_id().clone(),
        event_type: record.row.event.event_type.clone(),
        aggregate: (
            record.row.event.aggregate_type.clone(),
            record.row.event.aggregate_id.clone(),
        ),
        headers: record.row.event.headers.clone(),
        key: record.row.event.key_text().into_owned(),
        destination: record.destination.clone(),
        receipt: route.receipt,
        replay: record.row.replay.clone().map(JobId),
    }
}

/// The database's clock as people see it.
pub(crate) fn time(at: Duration) -> Timestamp {
    Timestamp(i64::try_from(at.as_micros()).unwrap_or(i64::MAX))
}

/// A place as a cursor.
pub(crate) fn cursor((seq, destination): &Place) -> Cursor {
    let place = i64::try_from(seq.0).unwrap_or(i64::MAX);
    Cursor::at(place, destination.as_ref().map_or("", |name| name.as_str()))
}

/// The place of a cursor.
pub(crate) fn place_of(cursor: &Cursor) -> Result<Place, StoreError> {
    let (place, destination) = cursor.place()?;
    let destination = (!destination.is_empty()).then(|| DestinationName::new(destination));
    Ok((Seq(u128::try_from(place).unwrap_or(0)), destination))
}
