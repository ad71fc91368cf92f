//! What people did: written in the transaction that did it, never changed.

use postrider_core::{AuditEntry, AuditPage, Cursor, JobId};
use tokio_postgres::Row;

use super::View;
use crate::clock::Micros;
use crate::error::Result;
use crate::row::storable;

/// Something that a person did, before it is written down.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deed<'a> {
    pub(crate) actor: &'a str,
    /// The word of the verb.
    pub(crate) action: &'a str,
    /// With what and why, as JSON.
    pub(crate) detail: &'a str,
    pub(crate) touched: u64,
    pub(crate) refused: u64,
    pub(crate) job: Option<&'a str>,
    /// The one event that it was about.
    pub(crate) event_id: Option<&'a str>,
}

/// Writes down what was done.
pub(crate) async fn note(view: &View, deed: Deed<'_>) -> Result<()> {
    let sql = view.sql(
        "INSERT INTO {outbox_audit} (actor, action, detail, touched, refused, job_id, event_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    );
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    view.client()
        .execute(
            &sql,
            &[
                &storable(deed.actor),
                &deed.action,
                &storable(deed.detail),
                &number(deed.touched),
                &number(deed.refused),
                &deed.job,
                &deed.event_id.map(storable),
            ],
        )
        .await?;
    Ok(())
}

const ENTRIES: &str = "SELECT id, at, actor, action, detail, touched, job_id, event_id FROM {outbox_audit}
     WHERE id < $1 ORDER BY id DESC LIMIT $2";

/// A page of the audit, newest first.
pub(super) async fn audit(view: &View, limit: u32, from: Option<&Cursor>) -> Result<AuditPage> {
    let before = from
        .map(Cursor::place)
        .transpose()?
        .map_or(i64::MAX, |(id, _)| id);
    let limit = limit.max(1) as usize;
    let wanted = i64::try_from(limit + 1).unwrap_or(i64::MAX);
    let mut rows = view
        .client()
        .query(&view.sql(ENTRIES), &[&before, &wanted])
        .await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().map(|row| row.try_get::<_, i64>(0)).transpose()?;
    Ok(AuditPage {
        entries: rows.iter().map(entry).collect::<Result<_>>()?,
        next: last.filter(|_| more).map(|id| Cursor::at(id, "")),
    })
}

fn entry(row: &Row) -> Result<AuditEntry> {
    Ok(AuditEntry {
        at: row.try_get::<_, Micros>(1)?.into(),
        actor: row.try_get(2)?,
        action: row.try_get(3)?,
        detail: row.try_get(4)?,
        touched: u64::try_from(row.try_get::<_, i64>(5)?).unwrap_or(0),
        job: row.try_get::<_, Option<&str>>(6)?.map(JobId::from),
        event_id: row.try_get::<_, Option<&str>>(7)?.map(Into::into),
    })
}
