//! What operators do to parked rows, one bounded transaction a step, each written down.

use postrider_core::{
    Act, Chunk, Cursor, EventId, EventRecord, Filter, RecordedRoute, Status, StoreError, Timestamp, Verb,
};

use super::list;
use super::record::record;
use super::{View, place_of};
use crate::error::Result;
use crate::row::{destination_text, storable};

/// Rows that one step looks at. A step is one transaction, and a filter that matches little must not make it long.
const VISITS: u32 = 2_000;

/// Rows fetched in one go.
const STRIDE: i64 = 200;

/// One step of a bulk verb.
pub(super) async fn step(view: &View, act: &Act) -> Result<Chunk> {
    let mut at = place_of(act.from.as_ref())?;
    let mut chunk = Chunk::default();
    let mut last = None;
    let mut visits = 0..VISITS.max(act.limit);
    'all: loop {
        let places = next_places(view, &act.filter, &at).await?;
        if places.is_empty() {
            break;
        }
        for (place, destination, event_id) in places {
            if visits.next().is_none() {
                chunk.next = Some(Cursor::at(at.0, &at.1));
                break 'all;
            }
            at = (place, destination);
            let Some((record, route)) = chosen(view, &act.filter, &at, &event_id).await? else {
                continue;
            };
            if chunk.touched + chunk.refused.len() as u64 >= u64::from(act.limit.max(1)) {
                chunk.next = last;
                break 'all;
            }
            if act.verb == Verb::Redrive && !can_redrive(&route) {
                chunk.refused.push((record.event_id, route.status));
            } else if act.dry_run || apply(view, &act.verb, &at).await? {
                chunk.touched += 1;
            }
            last = Some(Cursor::at(at.0, &at.1));
        }
    }
    if chunk == Chunk::default() {
        chunk.refused = elsewhere(view, &act.filter).await?;
    }
    if !act.dry_run {
        note(view, act, &chunk).await?;
    }
    Ok(chunk)
}

/// Writes down what was done.
pub(crate) async fn audit(
    view: &View,
    actor: &str,
    action: &str,
    detail: &str,
    touched: u64,
    refused: u64,
) -> Result<()> {
    let sql = view.sql(
        "INSERT INTO {outbox_audit} (actor, action, detail, touched, refused) VALUES ($1, $2, $3, $4, $5)",
    );
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    view.client()
        .execute(
            &sql,
            &[
                &storable(actor),
                &action,
                &storable(detail),
                &number(touched),
                &number(refused),
            ],
        )
        .await?;
    Ok(())
}

/// The next parked rows that a filter may be about.
async fn next_places(
    view: &View,
    filter: &Filter,
    behind: &(i64, String),
) -> Result<Vec<(i64, String, String)>> {
    // A filter on one event goes by its index; all others walk the rows in order.
    let (only, value) = match (&filter.event_id, &filter.error_kind) {
        (Some(id), _) => ("event_id = $3", id.as_str()),
        (None, Some(kind)) => ("error_kind = $3", kind.as_str()),
        (None, None) => ("$3::text IS NOT NULL", ""),
    };
    let sql = view.sql(&format!(
        "SELECT seq, destination, event_id FROM {{outbox_parked}} WHERE (seq, destination) > ($1, $2) AND {only}
         ORDER BY seq, destination LIMIT $4"
    ));
    let rows = view
        .client()
        .query(&sql, &[&behind.0, &behind.1, &storable(value), &STRIDE])
        .await?;
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)))
        .collect()
}

/// The row as operators see it, if the filter is about it.
async fn chosen(
    view: &View,
    filter: &Filter,
    at: &(i64, String),
    event_id: &str,
) -> Result<Option<(EventRecord, RecordedRoute)>> {
    let Some(record) = record(view, at.0, event_id).await? else {
        return Ok(None);
    };
    let route = record.routes.iter().find(|route| {
        // An event that was sent to a destination before may be parked for it again; only the parked route is meant.
        destination_text(route.destination.as_ref()) == at.1 && route.status.is_parked()
    });
    let route = route
        .filter(|route| filter.matches(&record, route, Timestamp(view.now)))
        .cloned();
    Ok(route.map(|route| (record, route)))
}

/// Dead and refused rows are sent again; a row that only waits has nothing to be sent again for.
fn can_redrive(route: &RecordedRoute) -> bool {
    matches!(route.status, Status::DeadLetter | Status::Retrying)
}

/// Changes one row; false when a relay was first and it is gone.
async fn apply(view: &View, verb: &Verb, (place, destination): &(i64, String)) -> Result<bool> {
    let changed = match verb {
        Verb::Move(_) => return Err(StoreError::unsupported().into()),
        Verb::Redrive => {
            // A person has decided, so the row gets all its attempts again. Its failure stays for people to read.
            let sql = view.sql(
                "UPDATE {outbox_parked} SET dead = false, next_attempt_at = clock_timestamp(), attempts = 0,
                 failures = 0, redriven = true, version = version + 1, updated_at = clock_timestamp()
                 WHERE seq = $1 AND destination = $2",
            );
            view.client().execute(&sql, &[place, destination]).await?
        }
        Verb::Discard(reason) => {
            let sql = view.sql(
                "WITH p AS (DELETE FROM {outbox_parked} WHERE seq = $1 AND destination = $2 RETURNING *)
                 INSERT INTO {outbox_sent} (seq, event_id, {carried}, destination, outcome, reason, attempts, failures,
                        error_kind, error_text, last_failed_at, published_at)
                 SELECT p.seq, p.event_id, {carried p}, nullif(p.destination, ''), 'discarded', $3, p.attempts,
                 p.failures, p.error_kind, p.error_text, p.last_failed_at, clock_timestamp() FROM p",
            );
            view.client()
                .execute(&sql, &[place, destination, &storable(reason)])
                .await?
        }
    };
    Ok(changed > 0)
}

/// Where an event that was named, but is not parked, stands instead: the person who named it wants to know.
async fn elsewhere(view: &View, filter: &Filter) -> Result<Vec<(EventId, Status)>> {
    let Some(id) = &filter.event_id else {
        return Ok(Vec::new());
    };
    let records = list::show(view, id).await?;
    Ok(records
        .into_iter()
        .filter(|record| !record.status().is_parked())
        .map(|record| (record.event_id.clone(), record.status()))
        .collect())
}

async fn note(view: &View, act: &Act, chunk: &Chunk) -> Result<()> {
    if matches!(act.verb, Verb::Discard(_)) && chunk.touched > 0 {
        // A slot of the operators' own, so that no relay waits for them.
        let sql = view.sql(
            "INSERT INTO {outbox_counter} AS c (slot, discarded) VALUES (-1, $1)
             ON CONFLICT (slot) DO UPDATE SET discarded = c.discarded + excluded.discarded",
        );
        let touched = i64::try_from(chunk.touched).unwrap_or(0);
        view.client().execute(&sql, &[&touched]).await?;
    }
    let refused = chunk.refused.len() as u64;
    audit(
        view,
        &act.actor,
        act.verb.as_str(),
        &act.detail(),
        chunk.touched,
        refused,
    )
    .await
}
