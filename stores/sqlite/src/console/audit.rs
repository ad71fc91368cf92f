//! What people did.

use postrider_core::{AuditEntry, AuditPage, Cursor, EventId, JobId, Timestamp};
use rusqlite::{Row, params};

use super::{View, count, number, place_of};
use crate::clock;
use crate::error::Result;
use crate::row::{lossy, lossy_or_none};

/// What is to be written down.
pub(crate) struct Entry<'a> {
    pub(crate) actor: &'a str,
    pub(crate) action: &'a str,
    pub(crate) detail: &'a str,
    pub(crate) touched: u64,
    pub(crate) refused: u64,
    pub(crate) job: Option<&'a JobId>,
    pub(crate) event_id: Option<&'a EventId>,
}

impl<'a> Entry<'a> {
    /// Something that touched one thing.
    pub(crate) fn new(actor: &'a str, action: &'a str, detail: &'a str) -> Self {
        Self {
            actor,
            action,
            detail,
            touched: 1,
            refused: 0,
            job: None,
            event_id: None,
        }
    }
}

pub(crate) fn write_down(view: &View<'_>, entry: &Entry<'_>) -> Result<()> {
    let sql = view.sql(
        "INSERT INTO {outbox_audit} (actor, action, detail, touched, refused, job_id, event_id)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    );
    view.tx.prepare_cached(&sql)?.execute(params![
        entry.actor,
        entry.action,
        entry.detail,
        number(entry.touched),
        number(entry.refused),
        entry.job.map(JobId::as_str),
        entry.event_id.map(EventId::as_str),
    ])?;
    Ok(())
}

/// A page, newest first.
pub(super) fn page(view: &View<'_>, limit: u32, from: Option<&Cursor>) -> Result<AuditPage> {
    let before = match from {
        Some(from) => place_of(Some(from))?.0,
        None => i64::MAX,
    };
    let sql = view.sql(
        "SELECT at, actor, action, detail, touched, job_id, event_id, id FROM {outbox_audit}
         WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
    );
    let limit = i64::from(limit.max(1));
    let mut statement = view.tx.prepare_cached(&sql)?;
    // One more than is asked for shows whether there is another page.
    let rows = statement.query_map(params![before, limit + 1], |row| {
        Ok((row.get::<_, i64>(7)?, entry(row)?))
    })?;
    let mut rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    let is_full = rows.len() as i64 > limit;
    rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let next = rows.last().filter(|_| is_full).map(|(id, _)| Cursor::at(*id, ""));
    Ok(AuditPage {
        entries: rows.into_iter().map(|(_, entry)| entry).collect(),
        next,
    })
}

/// What was done to one event by name, oldest first.
pub(super) fn of_event(view: &View<'_>, id: &EventId) -> Result<Vec<AuditEntry>> {
    let sql = view.sql(
        "SELECT at, actor, action, detail, touched, job_id, event_id FROM {outbox_audit}
         WHERE event_id = ?1 AND touched > 0 ORDER BY id",
    );
    let mut statement = view.tx.prepare_cached(&sql)?;
    let rows = statement.query_map([id.as_str()], entry)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn entry(row: &Row<'_>) -> rusqlite::Result<AuditEntry> {
    let at = clock::parse(row.get_ref(0)?).ok().flatten();
    let job = lossy_or_none(row.get_ref(5)?);
    let event_id = lossy_or_none(row.get_ref(6)?);
    Ok(AuditEntry {
        at: at.unwrap_or(Timestamp(0)),
        actor: lossy(row.get_ref(1)?),
        action: lossy(row.get_ref(2)?),
        detail: lossy(row.get_ref(3)?),
        touched: count(row.get(4)?),
        job: job.map(|id| JobId::from(id.as_str())),
        event_id: event_id.map(EventId::from),
    })
}
