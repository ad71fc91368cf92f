//! The history from its end, by the number that each of its rows got when it was written.

use postrider_core::{Cursor, DestinationName, EventId, JobId, Sent, SentPage, Timestamp};
use rusqlite::{Row, params};

use super::{View, place_of};
use crate::error::Result;

pub(super) fn sent(
    view: &View<'_>,
    event_type: Option<&str>,
    limit: u32,
    after: Option<&Cursor>,
) -> Result<SentPage> {
    let newest = newest(view)?;
    // Numbers start anew when the whole history was removed.
    let after = after.map(|after| place_of(Some(after))).transpose()?;
    let after = after.map(|(id, _)| id.min(newest));
    let order = if after.is_some() { "" } else { " DESC" };
    let sql = view.sql(&format!(
        "SELECT id, published_at, event_id, event_type, coalesce(event_key, aggregate_type || '/' || aggregate_id),
                destination, receipt, aggregate_type, aggregate_id, headers, replay_id
         FROM {{outbox_sent}}
         WHERE id > ?1 AND id <= ?2 AND outcome = 'published' AND (?3 IS NULL OR event_type = ?3)
         ORDER BY id{order} LIMIT ?4"
    ));
    let mut statement = view.tx.prepare(&sql)?;
    let rows = statement.query_map(params![after.unwrap_or(0), newest, event_type, limit], |row| {
        Ok((row.get::<_, i64>(0)?, event(row)?))
    })?;
    let mut rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    if after.is_none() {
        rows.reverse();
    }
    let full = after.is_some() && rows.len() >= limit as usize;
    let next = rows.last().filter(|_| full).map_or(newest, |(id, _)| *id);
    Ok(SentPage {
        events: rows.into_iter().map(|(_, event)| event).collect(),
        next: Cursor(next.to_string()),
    })
}

fn newest(view: &View<'_>) -> Result<i64> {
    let sql = view.sql("SELECT coalesce(max(id), 0) FROM {outbox_sent}");
    Ok(view.tx.query_row(&sql, [], |row| row.get(0))?)
}

fn event(row: &Row<'_>) -> rusqlite::Result<Sent> {
    let destination: Option<String> = row.get(5)?;
    let headers: Option<String> = row.get(9)?;
    Ok(Sent {
        published_at: Timestamp(row.get(1)?),
        event_id: EventId::from(row.get::<_, String>(2)?),
        event_type: row.get(3)?,
        key: row.get(4)?,
        destination: destination
            .filter(|name| !name.is_empty())
            .map(DestinationName::from),
        receipt: row.get(6)?,
        replay: row.get::<_, Option<String>>(10)?.as_deref().map(JobId::from),
        aggregate: (row.get(7)?, row.get(8)?),
        // Only valid events are published.
        headers: headers
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default(),
    })
}
