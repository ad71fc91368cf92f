//! Events as operators see them, each put together from wherever it stands: a page of them by three statements.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use postrider_core::{DestinationName, EventRecord, JobId, RecordedRoute, Status, Timestamp};
use tokio_postgres::Row;

use super::{View, status};
use crate::clock::Micros;
use crate::error::Result;
use crate::row::{self, Stored, destination};

/// The place and the id of an event. A place alone may be given twice, after the sequence was set back by hand.
pub(super) type Place = (i64, String);

const QUEUED: &str = "SELECT {columns} FROM {outbox} WHERE seq = ANY ($1) AND $2::text[] IS NOT NULL";

const PARKED: &str = "SELECT {columns}, destination, status, attempts, failures, error_kind, error_group, error_text,
            first_failed_at, last_failed_at, CASE WHEN NOT dead THEN next_attempt_at END AS tried_again_at
     FROM {outbox_parked_status} WHERE seq = ANY ($1) AND $2::text[] IS NOT NULL ORDER BY seq, severity, destination";

/// By the id, which has an index; the place tells events that share one apart. Asked for as an element it leads to no
/// index: that of places is looked through once for each of them, which took ten times as long as the ids.
pub(super) const SENT: &str = "SELECT {sent_columns}, destination, published_at, receipt, attempts, failures,
            outcome, reason
     FROM {outbox_sent} WHERE event_id = ANY ($2) AND array_position($1, seq) IS NOT NULL
       AND outcome IN ('published', 'discarded')
     ORDER BY seq, published_at, destination";

type ReadRoute = fn(&Row) -> Result<RecordedRoute>;

/// Everything that is known of these events, by place; those of which nothing is left are not among them.
pub(super) async fn records(view: &View, places: &[Place]) -> Result<BTreeMap<Place, EventRecord>> {
    let mut found: BTreeMap<Place, EventRecord> = BTreeMap::new();
    if places.is_empty() {
        return Ok(found);
    }
    let (seqs, ids): (Vec<i64>, Vec<&str>) = places.iter().map(|(seq, id)| (*seq, id.as_str())).unzip();
    let wanted: std::collections::BTreeSet<&Place> = places.iter().collect();
    let arms: [(&str, ReadRoute); 3] = [
        (QUEUED, |_| Ok(RecordedRoute::new(None, Status::Pending))),
        (PARKED, parked_route),
        (SENT, sent_route),
    ];
    for (sql, route) in arms {
        for row in view.client().query(&view.sql(sql), &[&seqs, &ids]).await? {
            let mut record = begin(&row)?;
            let place = (row::place(record.seq), record.event_id.as_str().to_owned());
            if !wanted.contains(&place) {
                continue;
            }
            record.routes.push(route(&row)?);
            match found.entry(place) {
                Entry::Occupied(mut found) => found.get_mut().join(record),
                Entry::Vacant(place) => drop(place.insert(record)),
            }
        }
    }
    for record in found.values_mut() {
        record.routes.sort_by_key(|route| route.status.severity());
    }
    Ok(found)
}

fn begin(row: &Row) -> Result<EventRecord> {
    let stored = Stored::read(row, 0)?;
    Ok(EventRecord {
        seq: stored.seq,
        key: stored.event.key_text().into_owned(),
        event_id: stored.event_id.clone(),
        event_type: stored.event.event_type.clone(),
        created_at: stored.created_at,
        bad_payload: stored.bad.as_ref().map(|_| stored.event.payload.clone()),
        replay: stored.replay.clone().map(JobId),
        event: stored.into_event(),
        routes: Vec::new(),
        timeline: Vec::new(),
        original: None,
    })
}

fn parked_route(row: &Row) -> Result<RecordedRoute> {
    let (first, last) = (time(row, "first_failed_at")?, time(row, "last_failed_at")?);
    Ok(RecordedRoute {
        attempts: count(row, "attempts")?,
        failures: count(row, "failures")?,
        error_kind: row.try_get("error_kind")?,
        error_group: row.try_get("error_group")?,
        error: row.try_get("error_text")?,
        failed: first.zip(last),
        failed_before: last.filter(|_| first.is_none()),
        next_attempt_at: time(row, "tried_again_at")?,
        ..RecordedRoute::new(
            destination(row.try_get("destination")?),
            status(row.try_get("status")?),
        )
    })
}

fn sent_route(row: &Row) -> Result<RecordedRoute> {
    let name: Option<&str> = row.try_get("destination")?;
    let name = name.filter(|name| !name.is_empty()).map(DestinationName::from);
    let (attempts, failures) = (count(row, "attempts")?, count(row, "failures")?);
    if row.try_get::<_, &str>("outcome")? == "discarded" {
        return Ok(RecordedRoute {
            attempts,
            failures,
            error: row.try_get("reason")?,
            ..RecordedRoute::new(name, Status::Discarded)
        });
    }
    Ok(RecordedRoute {
        published_at: time(row, "published_at")?,
        receipt: row.try_get("receipt")?,
        attempts,
        failures,
        ..RecordedRoute::new(name, Status::Published)
    })
}

fn count(row: &Row, column: &str) -> Result<u32> {
    let number: i64 = row.try_get(column)?;
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

pub(super) fn time(row: &Row, column: &str) -> Result<Option<Timestamp>> {
    let time: Option<Micros> = row.try_get(column)?;
    Ok(time.map(Timestamp::from))
}
