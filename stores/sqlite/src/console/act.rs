//! What operators do to parked rows, one bounded transaction a step, each written down.

use postrider_core::{
    Act, Chunk, Cursor, EventRecord, Filter, RecordedRoute, Status, StoreError, Timestamp, Verb,
};
use rusqlite::{OptionalExtension, params};

use super::record::record;
use super::{View, list, place_of};
use crate::error::Result;
use crate::row::{self, destination_text};
use crate::write::{RECORD_PARKED, REMOVE_PARKED};

/// Rows that one step looks at. A step holds the write lock, and a filter that matches little must not hold it for
/// long.
const VISITS: u32 = 2_000;

/// One step of a bulk verb.
pub(super) fn step(view: &View<'_>, act: &Act) -> Result<Chunk> {
    let mut at = place_of(act.from.as_ref())?;
    let mut chunk = Chunk::default();
    let mut last = None;
    let mut visits = 0..VISITS.max(act.limit);
    while let Some(place) = next_place(view, &act.filter, &at)? {
        if visits.next().is_none() {
            chunk.next = Some(Cursor::at(at.0, &at.1));
            break;
        }
        at = place;
        let Some((record, route)) = chosen(view, &act.filter, &at)? else {
            continue;
        };
        if chunk.touched + chunk.refused.len() as u64 >= u64::from(act.limit.max(1)) {
            chunk.next = last;
            break;
        }
        if act.verb == Verb::Redrive && !can_redrive(&route) {
            chunk.refused.push((record.event_id, route.status));
        } else {
            chunk.touched += 1;
            if !act.dry_run {
                apply(view, &act.verb, &at)?;
            }
        }
        last = Some(Cursor::at(at.0, &at.1));
    }
    if chunk == Chunk::default() {
        chunk.refused = elsewhere(view, &act.filter)?;
    }
    if !act.dry_run {
        note(view, act, &chunk)?;
    }
    Ok(chunk)
}

/// Writes down what was done.
pub(crate) fn audit(
    view: &View<'_>,
    actor: &str,
    action: &str,
    detail: &str,
    touched: u64,
    refused: u64,
) -> Result<()> {
    let sql = view.sql(
        "INSERT INTO {outbox_audit} (actor, action, detail, touched, refused) VALUES (?1, ?2, ?3, ?4, ?5)",
    );
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    view.tx.execute(
        &sql,
        params![actor, action, detail, number(touched), number(refused)],
    )?;
    Ok(())
}

/// The next parked row that a filter may be about.
fn next_place(view: &View<'_>, filter: &Filter, behind: &(i64, String)) -> Result<Option<(i64, String)>> {
    let by_id = filter.event_id.as_ref();
    let place = by_id.and_then(|id| row::place_of(&view.standing.outbox_id, id));
    // A filter on one event goes by its index; all others walk the rows in order.
    let (only, value) = match (by_id, place) {
        (Some(id), None) => ("event_id = ?3", id.as_str().to_owned()),
        (_, Some(place)) => ("seq = CAST(?3 AS INTEGER)", place.to_string()),
        (None, None) => match &filter.error_kind {
            Some(kind) => ("error_kind = ?3", kind.clone()),
            None => ("?3 = ''", String::new()),
        },
    };
    let sql = view.sql(&format!(
        "SELECT seq, destination FROM {{outbox_parked}} WHERE (seq, destination) > (?1, ?2) AND {only}
         ORDER BY seq, destination LIMIT 1"
    ));
    let found = view
        .tx
        .prepare_cached(&sql)?
        .query_row(params![behind.0, behind.1, value], |row| {
            Ok((row.get(0)?, row.get(1)?))
        });
    Ok(found.optional()?)
}

/// The row as operators see it, if the filter is about it.
fn chosen(
    view: &View<'_>,
    filter: &Filter,
    at: &(i64, String),
) -> Result<Option<(EventRecord, RecordedRoute)>> {
    let Some(record) = record(view, at.0)? else {
        return Ok(None);
    };
    let route = record.routes.iter().find(|route| {
        // An event that was sent to a destination before may be parked for it again; only the parked route is meant.
        let is_past = matches!(route.status, Status::Published | Status::Discarded);
        destination_text(route.destination.as_ref()) == at.1 && !is_past
    });
    let route = route
        .filter(|route| filter.matches(&record, route, Timestamp(view.standing.now)))
        .cloned();
    Ok(route.map(|route| (record, route)))
}

/// Dead and refused rows are sent again; a row that only waits has nothing to be sent again for.
fn can_redrive(route: &RecordedRoute) -> bool {
    matches!(route.status, Status::DeadLetter | Status::Retrying)
}

fn apply(view: &View<'_>, verb: &Verb, (place, destination): &(i64, String)) -> Result<()> {
    match verb {
        Verb::Move(_) => return Err(StoreError::unsupported().into()),
        Verb::Redrive => {
            // A person has decided, so the row gets all its attempts again. Its failure stays for people to read.
            let sql = view.sql(
                "UPDATE {outbox_parked} SET dead = 0, next_attempt_at = ?3, attempts = 0, failures = 0, redriven = 1,
                        version = version + 1, updated_at = ?3
                 WHERE seq = ?1 AND destination = ?2",
            );
            let values = params![place, destination, view.standing.now];
            view.tx.prepare_cached(&sql)?.execute(values)?;
        }
        Verb::Discard(reason) => {
            let derived = row::derived_id(&view.standing.outbox_id, *place);
            let values = params![
                place,
                destination,
                derived.as_str(),
                view.standing.now,
                None::<&str>,
                "discarded",
                reason
            ];
            let record = view.sql(RECORD_PARKED);
            view.tx.prepare_cached(&record)?.execute(values)?;
            let remove = view.sql(REMOVE_PARKED);
            view.tx
                .prepare_cached(&remove)?
                .execute(params![place, destination])?;
        }
    }
    Ok(())
}

/// Where an event that was named, but is not parked, stands instead: the person who named it wants to know.
fn elsewhere(view: &View<'_>, filter: &Filter) -> Result<Vec<(postrider_core::EventId, Status)>> {
    let Some(id) = &filter.event_id else {
        return Ok(Vec::new());
    };
    let records = list::show(view, id)?;
    Ok(records
        .into_iter()
        .filter(|record| !record.status().is_parked())
        .map(|record| (record.event_id.clone(), record.status()))
        .collect())
}

fn note(view: &View<'_>, act: &Act, chunk: &Chunk) -> Result<()> {
    if matches!(act.verb, Verb::Discard(_)) {
        let sql = view.sql("UPDATE {outbox_meta} SET discarded = discarded + ?1");
        view.tx
            .execute(&sql, [i64::try_from(chunk.touched).unwrap_or(0)])?;
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
}
