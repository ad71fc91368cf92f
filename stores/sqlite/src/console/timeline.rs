//! What is known of one event, for its story.

use postrider_core::{DestinationName, EditedAt, EventRecord, Left, Original, Story, Timestamp};
use rusqlite::{Row, params};

use super::{View, audit, job};
use crate::error::Result;
use crate::row::{self, lossy, lossy_or_none};

/// Adds the timelines to the records of one id, and the payloads before a person changed them.
pub(super) fn tell(view: &View<'_>, records: &mut [EventRecord]) -> Result<()> {
    let mut edits = Vec::new();
    for record in &*records {
        edits.extend(edits_of(view, record)?);
    }
    let is_alone = records.len() == 1;
    records
        .iter_mut()
        .try_for_each(|record| tell_one(view, record, is_alone, &edits))
}

fn tell_one(view: &View<'_>, record: &mut EventRecord, is_alone: bool, edits: &[EditedAt]) -> Result<()> {
    let story = Story {
        is_alone,
        enqueued_at: Some(enqueued_at(view, record)?),
        left: left(view, record)?,
        copies: copies(view, record)?,
        deeds: audit::of_event(view, &record.event_id)?,
        edits: edits.to_vec(),
        jobs: job::verbs(view)?,
    };
    record.timeline = story.tell(record);
    if let Some(original) = original(view, record)? {
        record.set_original(original);
    }
    Ok(())
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

const LEFT: &str =
    "published_at, destination, outcome = 'discarded', iif(outcome = 'discarded', reason, receipt),
     last_failed_at, error_kind, error_text FROM {outbox_sent}";

/// How the event left.
fn left(view: &View<'_>, record: &EventRecord) -> Result<Vec<Left>> {
    let sql = view.sql(&format!(
        "SELECT {LEFT} WHERE seq = ?1 AND outcome IN ('published', 'discarded')"
    ));
    let mut statement = view.tx.prepare_cached(&sql)?;
    let rows = statement.query_map([row::place(record.seq)], read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// What replays sent of it.
fn copies(view: &View<'_>, record: &EventRecord) -> Result<Vec<Left>> {
    let sql = view.sql(&format!(
        "SELECT {LEFT} INDEXED BY {{outbox_sent_event}}
         WHERE event_id = ?1 AND outcome = 'published' AND replay_id IS NOT NULL"
    ));
    let mut statement = view.tx.prepare_cached(&sql)?;
    let rows = statement.query_map([record.event_id.as_str()], read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Left> {
    let failed_at: Option<i64> = row.get(4)?;
    let (kind, text) = (lossy_or_none(row.get_ref(5)?), lossy(row.get_ref(6)?));
    Ok(Left {
        at: Timestamp(row.get(0)?),
        destination: lossy_or_none(row.get_ref(1)?).map(DestinationName::from),
        discarded: row.get(2)?,
        detail: lossy(row.get_ref(3)?),
        failed: failed_at.map(|at| (Timestamp(at), kind, text)),
    })
}

fn edits_of(view: &View<'_>, record: &EventRecord) -> Result<Vec<EditedAt>> {
    let sql = view.sql("SELECT edited_at, actor FROM {outbox_original} WHERE seq = ?1");
    let mut statement = view.tx.prepare_cached(&sql)?;
    let edit = |row: &Row<'_>| {
        Ok(EditedAt {
            seq: record.seq,
            at: Timestamp(row.get(0)?),
            actor: lossy(row.get_ref(1)?),
        })
    };
    let rows = statement.query_map([row::place(record.seq)], edit)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn original(view: &View<'_>, record: &EventRecord) -> Result<Option<Original>> {
    let sql = view.sql(
        "SELECT payload, payload_bytes, content_type, edited_at, actor FROM {outbox_original}
         WHERE seq = ?1 ORDER BY edited_at, version LIMIT 1",
    );
    let mut statement = view.tx.prepare_cached(&sql)?;
    let mut rows = statement.query(params![row::place(record.seq)])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    Ok(Some(Original {
        payload: row::payload(row.get_ref(0)?, row.get_ref(1)?),
        content_type: lossy_or_none(row.get_ref(2)?),
        edited_at: Timestamp(row.get(3)?),
        actor: lossy(row.get_ref(4)?),
    }))
}
