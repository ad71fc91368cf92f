//! The story of one event: what is known of it, by the time at which it happened.

use postrider_core::{
    DestinationName, EventRecord, Moment, Original, RecordedRoute, Status, Timestamp, What,
};
use rusqlite::params;

use super::{View, audit};
use crate::error::Result;
use crate::row;

/// Adds the timeline, and the payload before a person changed it.
pub(super) fn tell(view: &View<'_>, record: &mut EventRecord) -> Result<()> {
    let mut moments = vec![moment(enqueued_at(view, record)?, What::Enqueued, None, "")];
    for route in &record.routes {
        of_route(route, &mut moments);
    }
    moments.extend(discards(view, record)?);
    if record.replay.is_none() {
        moments.extend(by_people(view, record)?);
        moments.extend(copies(view, record)?);
    }
    moments.sort_by_key(|moment| (moment.at, moment.what));
    record.timeline = moments;
    record.original = original(view, record)?;
    Ok(())
}

fn moment(at: Timestamp, what: What, destination: Option<DestinationName>, detail: &str) -> Moment {
    Moment {
        at,
        what,
        destination,
        actor: None,
        detail: detail.to_owned(),
    }
}

/// When the row was written, wherever it is now.
fn enqueued_at(view: &View<'_>, record: &EventRecord) -> Result<Timestamp> {
    let sql = view.sql(
        "SELECT coalesce((SELECT enqueued_at FROM {outbox} WHERE seq = ?1),
                (SELECT enqueued_at FROM {outbox_parked} WHERE seq = ?1 LIMIT 1),
                (SELECT enqueued_at FROM {outbox_sent} WHERE seq = ?1 LIMIT 1))",
    );
    let mut statement = view.tx.prepare_cached(&sql)?;
    let at: Option<i64> = statement.query_row([row::place(record.seq)], |row| row.get(0))?;
    Ok(at.map_or(record.created_at, Timestamp))
}

fn of_route(route: &RecordedRoute, moments: &mut Vec<Moment>) {
    let to = || route.destination.clone();
    let error = route.error.as_deref().unwrap_or_default();
    if let Some((first, last)) = route.failed {
        moments.push(moment(first, What::FirstFailed, to(), error));
        if first != last {
            moments.push(moment(last, What::LastFailed, to(), error));
        }
    }
    if let Some(at) = route.next_attempt_at {
        moments.push(moment(at, What::NextAttempt, to(), ""));
    }
    if let Some(at) = route.published_at.filter(|_| route.status == Status::Published) {
        let receipt = route.receipt.as_deref().unwrap_or_default();
        moments.push(moment(at, What::Published, to(), receipt));
    }
}

/// Who threw it away is in the audit where the event was named, and nowhere else; when and why is in the history.
fn discards(view: &View<'_>, record: &EventRecord) -> Result<Vec<Moment>> {
    let sql = view.sql(
        "SELECT published_at, destination, reason FROM {outbox_sent} WHERE seq = ?1 AND outcome = 'discarded'",
    );
    let mut statement = view.tx.prepare_cached(&sql)?;
    let rows = statement.query_map([row::place(record.seq)], |row| {
        let destination: Option<String> = row.get(1)?;
        let reason: Option<String> = row.get(2)?;
        Ok(moment(
            Timestamp(row.get(0)?),
            What::Discarded,
            destination.map(DestinationName::from),
            &reason.unwrap_or_default(),
        ))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn by_people(view: &View<'_>, record: &EventRecord) -> Result<Vec<Moment>> {
    let entries = audit::of_event(view, &record.event_id)?;
    let known = entries.into_iter().filter_map(|entry| {
        let what = match entry.action.as_str() {
            "redrive" => What::Redriven,
            "edit" => What::Edited,
            "move" => What::Moved,
            _ => return None,
        };
        Some(Moment {
            actor: Some(entry.actor),
            ..moment(entry.at, what, None, "")
        })
    });
    Ok(known.collect())
}

/// When replays sent copies of it.
fn copies(view: &View<'_>, record: &EventRecord) -> Result<Vec<Moment>> {
    let sql = view.sql(
        "SELECT published_at, destination, receipt FROM {outbox_sent} INDEXED BY {outbox_sent_event}
         WHERE event_id = ?1 AND outcome = 'published' AND replay_id IS NOT NULL",
    );
    let mut statement = view.tx.prepare_cached(&sql)?;
    let rows = statement.query_map([record.event_id.as_str()], |row| {
        let destination: Option<String> = row.get(1)?;
        let receipt: Option<String> = row.get(2)?;
        Ok(moment(
            Timestamp(row.get(0)?),
            What::Replayed,
            destination.map(DestinationName::from),
            &receipt.unwrap_or_default(),
        ))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn original(view: &View<'_>, record: &EventRecord) -> Result<Option<Original>> {
    let sql = view.sql(
        "SELECT payload, payload_bytes, content_type, edited_at, actor FROM {outbox_original}
         WHERE seq = ?1 ORDER BY edited_at LIMIT 1",
    );
    let mut statement = view.tx.prepare_cached(&sql)?;
    let mut rows = statement.query(params![row::place(record.seq)])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    Ok(Some(Original {
        payload: row::payload(row.get_ref(0)?, row.get_ref(1)?),
        content_type: row.get(2)?,
        edited_at: Timestamp(row.get(3)?),
        actor: row.get(4)?,
    }))
}
