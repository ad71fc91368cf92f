//! Events as operators see them: one record with everything that is known.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider_core::{EventRecord, RecordedRoute, Sent, Seq, Status, Timestamp, fingerprint};

use crate::model::{Fate, Model, Parked, Record, Row};

/// One record a row of `outbox`, whatever became of it since.
pub(super) fn records(model: &Model, now: Duration) -> BTreeMap<Seq, EventRecord> {
    let mut records = BTreeMap::new();
    for row in model.queued() {
        enter(&mut records, row, RecordedRoute::new(None, Status::Pending));
    }
    for parked in model.parked() {
        enter(&mut records, &parked.row, parked_route(model, now, parked));
    }
    for record in model.history() {
        enter(&mut records, &record.row, sent_route(record));
    }
    for record in records.values_mut() {
        record.routes.sort_by_key(|route| route.status.severity());
    }
    records
}

fn enter(records: &mut BTreeMap<Seq, EventRecord>, row: &Row, route: RecordedRoute) {
    let record = records.entry(row.seq).or_insert_with(|| EventRecord {
        seq: row.seq,
        event: match &row.bad {
            Some(failure) => Err(failure.text.to_string()),
            None => Ok((*row.event).clone()),
        },
        bad_payload: row.bad.as_ref().map(|_| row.event.payload.clone()),
        event_id: row.event_id().clone(),
        event_type: row.event.event_type.clone(),
        key: shown_key(row),
        created_at: row.event.created_at.unwrap_or(time(row.inserted)),
        replay: None,
        routes: Vec::new(),
        timeline: Vec::new(),
        original: None,
    });
    record.routes.push(route);
}

/// The key as the producer gave it, or `type/id` of the aggregate.
fn shown_key(row: &Row) -> String {
    match &row.event.key {
        Some(key) => key.clone(),
        None => format!("{}/{}", row.event.aggregate_type, row.event.aggregate_id),
    }
}

pub(super) fn parked_route(model: &Model, now: Duration, parked: &Parked) -> RecordedRoute {
    RecordedRoute {
        attempts: parked.attempts,
        failures: parked.failures,
        error_kind: parked
            .failure
            .as_ref()
            .map(|failure| failure.kind.as_str().to_owned()),
        error_group: parked.failure.as_ref().map(|failure| fingerprint(&failure.text)),
        error: parked.failure.as_ref().map(|failure| failure.text.to_string()),
        failed: parked.failed.map(|(first, last)| (time(first), time(last))),
        next_attempt_at: (!parked.dead).then(|| time(parked.next_attempt)),
        ..RecordedRoute::new(parked.destination.clone(), model.status_of(now, parked))
    }
}

fn sent_route(record: &Record) -> RecordedRoute {
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
pub(super) fn sent_event(record: &Record) -> Sent {
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
        key: shown_key(&record.row),
        destination: record.destination.clone(),
        receipt: route.receipt,
    }
}

pub(super) fn time(at: Duration) -> Timestamp {
    Timestamp(i64::try_from(at.as_micros()).unwrap_or(i64::MAX))
}
