//! A person changes a payload and sends the event again.

use postrider_core::{Chunk, Edit, Payload, Timestamp, Verb};
use rusqlite::params;

use super::act::redrive;
use super::arm::{Arm, Towards};
use super::audit::{Entry, write_down};
use super::{View, list};
use crate::error::Result;
use crate::row::{Stored, lossy_or_none};

pub(super) fn edit(view: &View<'_>, edit: &Edit) -> Result<Chunk> {
    let filter = edit.filter();
    let mut chunk = Chunk::default();
    let mut before = Vec::new();
    for row in Arm::parked(view, &filter, Towards::Newest).every(view)? {
        if !row.is_meant(view, &filter) {
            continue;
        }
        if !Verb::Redrive.suits(row.status(), false) {
            chunk.refused.push((row.event_id().clone(), row.status()));
            continue;
        }
        view.tx.execute_batch("SAVEPOINT edit")?;
        keep_original(view, row.place, &row.destination, &edit.actor)?;
        before.push(stored(view, row.place, &row.destination)?.payload_hash());
        change(view, row.place, &row.destination, edit)?;
        redrive(view, row.place, &row.destination)?;
        if let Err(reason) = stored(view, row.place, &row.destination)?.event {
            return Err(Edit::refused(&reason).into());
        }
        if edit.dry_run {
            view.tx.execute_batch("ROLLBACK TO edit")?;
        }
        view.tx.execute_batch("RELEASE edit")?;
        chunk.touched += 1;
    }
    if chunk == Chunk::default() {
        let records = list::find(view, &edit.event_id)?.into_iter();
        let now = Timestamp(view.standing.now);
        chunk.refused = records.flat_map(|record| record.refused(&filter, now)).collect();
    }
    if edit.dry_run {
        return Ok(chunk);
    }
    write_down(
        view,
        &Entry {
            touched: chunk.touched,
            refused: chunk.refused.len() as u64,
            event_id: Some(&edit.event_id),
            ..Entry::new(&edit.actor, "edit", &edit.detail(&before))
        },
    )?;
    Ok(chunk)
}

fn stored(view: &View<'_>, place: i64, destination: &str) -> Result<Stored> {
    let sql = view.sql("SELECT {columns} FROM {outbox_parked} WHERE seq = ?1 AND destination = ?2");
    let mut statement = view.tx.prepare_cached(&sql)?;
    let stored = statement.query_row(params![place, destination], |row| {
        Stored::read(row, &view.standing.outbox_id, view.standing.now)
    })?;
    Ok(stored)
}

/// Every one stays: the first is what the producer wrote, and a relay may be sending any of them. Only a sequence that
/// was set back gives a place out again, whose last event may have left the same version behind.
fn keep_original(view: &View<'_>, place: i64, destination: &str, actor: &str) -> Result<()> {
    let sql = view.sql(
        "INSERT OR REPLACE INTO {outbox_original}
             (seq, destination, version, payload, payload_bytes, content_type, actor, edited_at)
         SELECT seq, destination, version + 1, payload, payload_bytes, content_type, ?3, ?4
         FROM {outbox_parked} WHERE seq = ?1 AND destination = ?2",
    );
    let values = params![place, destination, actor, view.standing.now];
    view.tx.execute(&sql, values)?;
    Ok(())
}

fn change(view: &View<'_>, place: i64, destination: &str, edit: &Edit) -> Result<()> {
    let (text, bytes): (Option<&str>, Option<&[u8]>) = match &edit.payload {
        Payload::Text(text) => (Some(text), None),
        Payload::Bytes(bytes) => (None, Some(bytes)),
        Payload::Tombstone => (None, None),
    };
    let kind = content_type(view, place, destination, edit)?;
    let sql = view.sql(
        "UPDATE {outbox_parked} SET payload = ?3, payload_bytes = ?4, content_type = ?5, edited = version + 1
         WHERE seq = ?1 AND destination = ?2",
    );
    let values = params![place, destination, text, bytes, kind];
    view.tx.execute(&sql, values)?;
    Ok(())
}

/// What counts is the column that the payload is in: text may be none, and then the row is no event, but it is not
/// bytes.
fn content_type(view: &View<'_>, place: i64, destination: &str, edit: &Edit) -> Result<Option<String>> {
    let sql = view.sql(
        "SELECT content_type, payload_bytes IS NOT NULL FROM {outbox_parked} WHERE seq = ?1 AND destination = ?2",
    );
    let mut statement = view.tx.prepare_cached(&sql)?;
    let kind = statement.query_row(params![place, destination], |row| {
        let before = match row.get(1)? {
            true => Payload::Bytes(Default::default()),
            false => Payload::Text(String::new()),
        };
        let stored = lossy_or_none(row.get_ref(0)?);
        Ok(edit.content_type_after(stored.as_deref(), &before))
    })?;
    Ok(kind)
}
