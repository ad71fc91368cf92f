//! What is known of one event, for its story.

use std::collections::BTreeMap;

use postrider_core::{AuditEntry, EditedAt, EventId, EventRecord, Left, Original, Seq, Story, Timestamp};
use tokio_postgres::Row;

use super::record::time;
use super::{View, job};
use crate::clock::Micros;
use crate::error::Result;
use crate::row::{self, destination, storable};

/// When the rows of an id were written, and how those that are gone left.
const ROWS: &str =
    "SELECT seq, enqueued_at, NULL::text AS outcome, NULL::timestamptz AS at, NULL::text AS destination,
            NULL::text AS detail, replay_id, NULL::timestamptz AS failed_at, NULL::text AS kind, NULL::text AS error
     FROM {outbox} WHERE event_id = $1
     UNION ALL SELECT seq, enqueued_at, NULL, NULL, NULL, NULL, replay_id, NULL, NULL, NULL FROM {outbox_parked}
     WHERE event_id = $1 AND seq > 0
     UNION ALL SELECT seq, enqueued_at, outcome, published_at, destination,
            CASE outcome WHEN 'discarded' THEN reason ELSE receipt END, replay_id, last_failed_at, error_kind,
             error_text
     FROM {outbox_sent} WHERE event_id = $1 AND outcome IN ('published', 'discarded')";

const DEEDS: &str = "SELECT at, action, actor FROM {outbox_audit} WHERE event_id = $1 AND touched > 0";

const ORIGINALS: &str =
    "SELECT seq, payload, payload_bytes, content_type, edited_at, actor FROM {outbox_original}
     WHERE seq = ANY ($1) ORDER BY seq, edited_at, version";

/// Writes into the records of one id what happened to them, and what their payloads were.
pub(super) async fn tell(view: &View, id: &EventId, records: &mut [EventRecord]) -> Result<()> {
    let id = storable(id.as_str());
    let (mut enqueued, mut left) = (BTreeMap::new(), Vec::new());
    for row in view.client().query(&view.sql(ROWS), &[&id]).await? {
        let seq = row::seq(row.try_get(0)?);
        if let Some(at) = time(&row, "enqueued_at")? {
            enqueued.entry(seq).or_insert(at);
        }
        left.extend(gone(&row)?.map(|(is_copy, gone)| (seq, is_copy, gone)));
    }
    let originals = originals(view, records).await?;
    let edit = |(seq, original): &(Seq, Original)| EditedAt {
        seq: *seq,
        at: original.edited_at,
        actor: original.actor.clone(),
    };
    let mut story = Story {
        is_alone: records.len() == 1,
        edits: originals.iter().map(edit).collect(),
        deeds: deeds(view, &id).await?,
        jobs: job::verbs(view).await?,
        ..Story::default()
    };
    for record in &mut *records {
        story.enqueued_at = enqueued.get(&record.seq).copied();
        story.left = only(&left, |seq, _| seq == record.seq);
        story.copies = only(&left, |seq, is_copy| is_copy && seq != record.seq);
        story.copies.retain(|copy| !copy.discarded);
        record.timeline = story.tell(record);
        let first = originals.iter().find(|(seq, _)| *seq == record.seq);
        if let Some((_, original)) = first {
            record.set_original(original.clone());
        }
    }
    Ok(())
}

fn only(left: &[(Seq, bool, Left)], is_meant: impl Fn(Seq, bool) -> bool) -> Vec<Left> {
    let meant = left.iter().filter(|(seq, is_copy, _)| is_meant(*seq, *is_copy));
    meant.map(|(_, _, left)| left.clone()).collect()
}

/// How a row left, and whether it was a copy; none: it is there still.
fn gone(row: &Row) -> Result<Option<(bool, Left)>> {
    let Some((outcome, at)) = row.try_get::<_, Option<&str>>("outcome")?.zip(time(row, "at")?) else {
        return Ok(None);
    };
    let (kind, error): (Option<String>, Option<String>) = (row.try_get("kind")?, row.try_get("error")?);
    let failed = time(row, "failed_at")?.map(|at: Timestamp| (at, kind, error.unwrap_or_default()));
    let left = Left {
        at,
        destination: row
            .try_get::<_, Option<&str>>("destination")?
            .and_then(destination),
        discarded: outcome == "discarded",
        detail: row.try_get::<_, Option<String>>("detail")?.unwrap_or_default(),
        failed,
    };
    Ok(Some((
        row.try_get::<_, Option<&str>>("replay_id")?.is_some(),
        left,
    )))
}

/// What people did to the one event that they named.
async fn deeds(view: &View, id: &str) -> Result<Vec<AuditEntry>> {
    let rows = view.client().query(&view.sql(DEEDS), &[&id]).await?;
    let entry = |row: &Row| {
        Ok(AuditEntry {
            at: row.try_get::<_, Micros>(0)?.into(),
            action: row.try_get(1)?,
            actor: row.try_get(2)?,
            detail: String::new(),
            touched: 1,
            job: None,
            event_id: Some(id.into()),
        })
    };
    rows.iter().map(entry).collect()
}

/// What people changed, the first of a row before those that came later.
async fn originals(view: &View, records: &[EventRecord]) -> Result<Vec<(Seq, Original)>> {
    let places: Vec<i64> = records.iter().map(|record| row::place(record.seq)).collect();
    let rows = view.client().query(&view.sql(ORIGINALS), &[&places]).await?;
    let original = |row: &Row| {
        let original = Original {
            payload: row::payload(row.try_get(1)?, row.try_get(2)?),
            content_type: row.try_get(3)?,
            edited_at: row.try_get::<_, Micros>(4)?.into(),
            actor: row.try_get(5)?,
        };
        Ok((row::seq(row.try_get(0)?), original))
    };
    rows.iter().map(original).collect()
}
