//! One event, put together from wherever it stands.

use postrider_core::{DestinationName, EventRecord, RecordedRoute, Status, Timestamp};
use tokio_postgres::Row;

use super::{View, status};
use crate::clock::Micros;
use crate::error::Result;
use crate::row::{Stored, destination};

const QUEUED: &str = "SELECT {columns} FROM {outbox} o WHERE seq = $1 AND {id o} = $2";

const PARKED: &str = "SELECT {columns}, destination, status, attempts, failures, error_kind, error_text,
            first_failed_at, last_failed_at, CASE WHEN NOT dead THEN next_attempt_at END AS tried_again_at
     FROM {outbox_parked_status} WHERE seq = $1 AND event_id = $2 ORDER BY severity, destination";

/// By the id, which has an index; the place tells events that share one apart.
const SENT: &str = "SELECT {sent_columns}, destination, published_at, receipt, attempts, failures,
            outcome, reason
     FROM {outbox_sent} WHERE seq = $1 AND event_id = $2 AND outcome IN ('published', 'discarded')
     ORDER BY published_at, destination";

type ReadRoute = fn(&Row) -> Result<RecordedRoute>;

/// Everything that is known of an event; none when nothing is left of it.
pub(super) async fn record(view: &View, place: i64, event_id: &str) -> Result<Option<EventRecord>> {
    let mut found: Option<EventRecord> = None;
    let arms: [(&str, ReadRoute); 3] = [
        (QUEUED, |_| Ok(RecordedRoute::new(None, Status::Pending))),
        (PARKED, parked_route),
        (SENT, sent_route),
    ];
    for (sql, route) in arms {
        for row in view.client().query(&view.sql(sql), &[&place, &event_id]).await? {
            let route = route(&row)?;
            match &mut found {
                Some(record) => record.routes.push(route),
                None => found = Some(begin(&row, route)?),
            }
        }
    }
    if let Some(record) = &mut found {
        record.routes.sort_by_key(|route| route.status.severity());
    }
    Ok(found)
}

fn begin(row: &Row, route: RecordedRoute) -> Result<EventRecord> {
    let stored = Stored::read(row, 0)?;
    Ok(EventRecord {
        seq: stored.seq,
        key: stored.event.key_text().into_owned(),
        event_id: stored.event_id.clone(),
        event_type: stored.event.event_type.clone(),
        created_at: stored.created_at,
        bad_payload: stored.bad.as_ref().map(|_| stored.event.payload.clone()),
        event: stored.into_event(),
        replay: None,
        routes: vec![route],
        timeline: Vec::new(),
        original: None,
    })
}

fn parked_route(row: &Row) -> Result<RecordedRoute> {
    Ok(RecordedRoute {
        attempts: count(row, "attempts")?,
        failures: count(row, "failures")?,
        error_kind: row.try_get("error_kind")?,
        error: row.try_get("error_text")?,
        failed: time(row, "first_failed_at")?.zip(time(row, "last_failed_at")?),
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

fn time(row: &Row, column: &str) -> Result<Option<Timestamp>> {
    let time: Option<Micros> = row.try_get(column)?;
    Ok(time.map(Timestamp::from))
}
