//! A payload that a person changes. The first one is kept, and the event is sent again with the new one.

use postrider_core::{Chunk, Edit, Event, Payload, Timestamp, Verb};

use super::act::AGAIN;
use super::{View, audit, list, status};
use crate::error::{Error, Result};
use crate::row::{self, Stored, storable};

const ROWS: &str = "SELECT {columns}, destination, status FROM {outbox_parked_status}
     WHERE event_id = $1 AND ($2::text IS NULL OR destination = $2) ORDER BY seq, destination";

/// What was there is kept from the row that is changed, so nothing is kept of one that a relay has removed meanwhile.
/// Only a sequence that was set back gives a place out again, whose last event may have left the same version behind.
const CHANGE: &str = "WITH was AS MATERIALIZED (
         SELECT seq, destination, version, payload, payload_bytes, content_type FROM {outbox_parked}
         WHERE seq = $1 AND destination = $2 AND (dead OR error_kind IS NOT NULL) FOR UPDATE),
     kept AS (
         INSERT INTO {outbox_original} AS k
             (seq, destination, version, payload, payload_bytes, content_type, actor)
         SELECT seq, destination, version + 1, payload, payload_bytes, content_type, $6 FROM was
         ON CONFLICT (seq, destination, version) DO UPDATE SET payload = excluded.payload,
             payload_bytes = excluded.payload_bytes, content_type = excluded.content_type, actor = excluded.actor,
             edited_at = excluded.edited_at)
     UPDATE {outbox_parked} o SET payload = $3, payload_bytes = $4, content_type = coalesce($5, o.content_type),
         edited = o.version + 1, {again}
     FROM was w WHERE o.seq = w.seq AND o.destination = w.destination";

/// Changes the rows of an event that are dead or were refused. A relay that has read one before sends what it has read:
/// its settle says so, and the row stays to be sent as it is now.
pub(super) async fn edit(view: &View, edit: &Edit) -> Result<Chunk> {
    let name = edit
        .destination
        .as_ref()
        .map(|name| storable(name.as_str()).into_owned());
    let id = storable(edit.event_id.as_str());
    let mut chunk = Chunk::default();
    let mut was = Vec::new();
    for row in view.client().query(&view.sql(ROWS), &[&id, &name]).await? {
        let status = status(row.try_get("status")?);
        if !Verb::Redrive.suits(status, false) {
            chunk.refused.push((edit.event_id.clone(), status));
            continue;
        }
        // What else is wrong with a row stays wrong with any payload.
        row::headers(row.try_get("headers")?).map_err(invalid)?;
        let stored = Stored::read(&row, 0)?;
        let hash = stored.event.payload.hash();
        let kind = edit.content_type_after(stored.event.content_type.as_deref(), &stored.event.payload);
        changed(stored.event, edit, kind.as_deref())?;
        let place = (row::place(stored.seq), row.try_get::<_, String>("destination")?);
        if edit.dry_run || change(view, edit, kind.as_deref(), &place).await? {
            was.push(hash);
            chunk.touched += 1;
        }
    }
    if chunk == Chunk::default() {
        let records = list::by_id(view, &edit.event_id).await?.into_iter();
        let (filter, now) = (edit.filter(), Timestamp(view.now));
        chunk.refused = records.flat_map(|record| record.refused(&filter, now)).collect();
    }
    if edit.dry_run {
        return Ok(chunk);
    }
    if chunk.touched > 0 {
        view.ring().await?;
    }
    let deed = audit::Deed {
        actor: &edit.actor,
        action: "edit",
        detail: &edit.detail(&was),
        touched: chunk.touched,
        refused: chunk.refused.len() as u64,
        event_id: Some(edit.event_id.as_str()),
        job: None,
    };
    audit::note(view, deed).await?;
    Ok(chunk)
}

/// Checks the event that the row would be.
fn changed(event: Event, edit: &Edit, kind: Option<&str>) -> Result<()> {
    let event = Event {
        payload: edit.payload.clone(),
        content_type: kind.map(str::to_owned),
        ..event
    };
    event.validate().map_err(|error| invalid(error.to_string()))?;
    match &edit.payload {
        Payload::Text(text) if text.contains('\0') => Err(invalid(
            "payload: text in PostgreSQL cannot hold the character 0; send it as bytes".to_owned(),
        )),
        _ => Ok(()),
    }
}

fn invalid(reason: String) -> Error {
    Edit::refused(&reason).into()
}

async fn change(view: &View, edit: &Edit, kind: Option<&str>, (place, name): &(i64, String)) -> Result<bool> {
    let (text, bytes) = match &edit.payload {
        Payload::Text(text) => (Some(text.as_str()), None),
        Payload::Bytes(bytes) => (None, Some(&bytes[..])),
        Payload::Tombstone => (None, None),
    };
    let sql = view.sql(&CHANGE.replace("{again}", AGAIN));
    let kind = kind.map(storable);
    let changed = view
        .client()
        .execute(&sql, &[place, name, &text, &bytes, &kind, &storable(&edit.actor)])
        .await?;
    Ok(changed > 0)
}
