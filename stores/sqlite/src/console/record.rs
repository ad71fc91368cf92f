//! One event, put together from wherever it stands.

use postrider_core::{DestinationName, EventRecord, JobId, RecordedRoute, Status, Timestamp};
use rusqlite::{Row, params};

use super::{View, status};
use crate::error::Result;
use crate::row::Stored;

const QUEUED: &str = "SELECT {columns} FROM {outbox} WHERE seq = ?1";

const PARKED: &str =
    "SELECT {columns}, destination, status, attempts, failures, error_kind, error_group, error_text,
            first_failed_at, last_failed_at, iif(dead = 1, NULL, next_attempt_at) AS tried_again_at
     FROM {outbox_parked_status} WHERE seq = ?1 ORDER BY severity, destination";

const SENT: &str =
    "SELECT {sent_columns}, destination, published_at, receipt, attempts, failures, outcome, reason
     FROM {outbox_sent} WHERE seq = ?1 AND outcome IN ('published', 'discarded') ORDER BY id";

type ReadRoute = fn(&Row<'_>) -> rusqlite::Result<RecordedRoute>;

/// Everything that is known of the event at a place; none when nothing is left of it.
pub(super) fn record(view: &View<'_>, place: i64) -> Result<Option<EventRecord>> {
    let mut found: Option<EventRecord> = None;
    let arms: [(&str, ReadRoute); 3] = [
        (QUEUED, |_| Ok(RecordedRoute::new(None, Status::Pending))),
        (PARKED, parked_route),
        (SENT, sent_route),
    ];
    for (sql, route) in arms {
        let mut statement = view.tx.prepare_cached(&view.sql(sql))?;
        let mut rows = statement.query(params![place])?;
        while let Some(row) = rows.next()? {
            let record = begin(view, row, route(row)?)?;
            match &mut found {
                Some(found) => found.join(record),
                None => found = Some(record),
            }
        }
    }
    if let Some(record) = &mut found {
        record.routes.sort_by_key(|route| route.status.severity());
    }
    Ok(found)
}

fn begin(view: &View<'_>, row: &Row<'_>, route: RecordedRoute) -> Result<EventRecord> {
    let stored = Stored::read(row, &view.standing.outbox_id, view.standing.now)?;
    Ok(EventRecord {
        seq: stored.seq,
        key: stored.shown_key(),
        event_id: stored.event_id,
        event_type: stored.event_type,
        created_at: stored.created_at,
        event: stored.event,
        bad_payload: stored.bad_payload,
        replay: stored.replay.map(JobId),
        routes: vec![route],
        timeline: Vec::new(),
        original: None,
    })
}

fn parked_route(row: &Row<'_>) -> rusqlite::Result<RecordedRoute> {
    let destination: String = row.get("destination")?;
    let first: Option<i64> = row.get("first_failed_at")?;
    let last: Option<i64> = row.get("last_failed_at")?;
    Ok(RecordedRoute {
        attempts: row.get("attempts")?,
        failures: row.get("failures")?,
        error_kind: row.get("error_kind")?,
        error_group: row.get("error_group")?,
        error: row.get("error_text")?,
        failed: first
            .zip(last)
            .map(|(first, last)| (Timestamp(first), Timestamp(last))),
        failed_before: last.filter(|_| first.is_none()).map(Timestamp),
        next_attempt_at: row.get::<_, Option<i64>>("tried_again_at")?.map(Timestamp),
        ..RecordedRoute::new(
            (!destination.is_empty()).then(|| DestinationName::from(destination)),
            status(&row.get::<_, String>("status")?),
        )
    })
}

fn sent_route(row: &Row<'_>) -> rusqlite::Result<RecordedRoute> {
    let destination = row.get::<_, Option<String>>("destination")?;
    let destination = destination
        .filter(|name| !name.is_empty())
        .map(DestinationName::from);
    let (attempts, failures) = (row.get("attempts")?, row.get("failures")?);
    if row.get_ref("outcome")?.as_str()? == "discarded" {
        return Ok(RecordedRoute {
            attempts,
            failures,
            error: row.get("reason")?,
            ..RecordedRoute::new(destination, Status::Discarded)
        });
    }
    Ok(RecordedRoute {
        published_at: row.get::<_, Option<i64>>("published_at")?.map(Timestamp),
        receipt: row.get("receipt")?,
        attempts,
        failures,
        ..RecordedRoute::new(destination, Status::Published)
    })
}
