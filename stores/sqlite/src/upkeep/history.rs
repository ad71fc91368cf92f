//! The history as rows, in the order of their places.

use postrider_core::{
    Cursor, DestinationName, EventId, HistoryAsk, HistoryPage, HistoryRow, JobId, StoreErrorKind, Timestamp,
};
use rusqlite::types::ValueRef;
use rusqlite::{Row, params};

use crate::clock;
use crate::console::View;
use crate::error::{Error, Result};
use crate::row;

/// Rows that one page looks at, so that a page of a short time in a long history does not take long.
const VISITS: i64 = 20_000;

pub(crate) const PAGE: &str =
    "SELECT seq, id, published_at, destination, outcome, event_id, event_type, aggregate_type, aggregate_id, event_key,
            payload, payload_bytes, content_type, headers, priority, available_at, created_at, enqueued_at, replay_id,
            reason, receipt, attempts, failures, error_kind, error_text, last_failed_at
     FROM {outbox_sent} INDEXED BY {outbox_sent_place} WHERE (seq, id) > (?1, ?2) ORDER BY seq, id LIMIT ?3";

/// One page. It may be empty before the end.
pub(super) fn page(view: &View<'_>, ask: &HistoryAsk) -> Result<HistoryPage> {
    let mut at = place(ask.after.as_ref())?;
    let mut statement = view.tx.prepare_cached(&view.sql(PAGE))?;
    let mut rows = statement.query(params![at.0, at.1, VISITS])?;
    let time = ask.since.map_or(i64::MIN, |at| at.0)..ask.until.map_or(i64::MAX, |at| at.0);
    let mut page = HistoryPage::default();
    let (mut visits, mut bytes) = (0, 0);
    while let Some(row) = rows.next()? {
        let is_full = page.rows.len() as u64 >= u64::from(ask.limit.max(1));
        if is_full || (bytes >= ask.max_bytes && !page.rows.is_empty()) {
            page.next = Some(cursor(at));
            return Ok(page);
        }
        visits += 1;
        at = (row.get(0)?, row.get(1)?);
        if time.contains(&row.get(2)?) {
            let read = read(row, &view.standing.outbox_id)?;
            bytes = bytes.saturating_add(read.payload.len() as u64);
            page.rows.push(read);
        }
    }
    page.next = (visits >= VISITS).then(|| cursor(at));
    Ok(page)
}

fn cursor((place, id): (i64, i64)) -> Cursor {
    Cursor::at(place, &id.to_string())
}

fn place(cursor: Option<&Cursor>) -> Result<(i64, i64)> {
    let Some(cursor) = cursor else {
        return Ok((0, 0));
    };
    let (place, id) = cursor.place()?;
    match id.as_str() {
        // Behind everything at that place.
        "" => Ok((place, i64::MAX)),
        id => id.parse().map(|id| (place, id)).map_err(|_| {
            let text = "the cursor is not one of this history; begin anew without one";
            Error::new(StoreErrorKind::Other, text)
        }),
    }
}

/// A row that is no event, and that somebody discarded, is a row of the history too: what no text can hold comes as
/// `show` has it, and the error of the row says what is wrong with it. One such row must not stand in the way of all
/// others.
fn read(row: &Row<'_>, outbox_id: &str) -> Result<HistoryRow> {
    let time =
        |index: usize| -> Result<Option<Timestamp>> { Ok(clock::parse(row.get_ref(index)?).ok().flatten()) };
    let micros =
        |index: usize| -> Result<Option<Timestamp>> { Ok(row.get::<_, Option<i64>>(index)?.map(Timestamp)) };
    let text = |index: usize| -> Result<Option<String>> {
        let value = row.get_ref(index)?;
        Ok((value != ValueRef::Null).then(|| row::lossy(value)))
    };
    let event_id = match row.get_ref(5)?.as_str() {
        Ok(id) => EventId::from(id),
        Err(_) => row::derived_id(outbox_id, row.get(0)?),
    };
    let priority: Option<i64> = row.get(14)?;
    let error_text = text(24)?;
    Ok(HistoryRow {
        seq: row::seq(row.get(0)?),
        published_at: Timestamp(row.get(2)?),
        destination: text(3)?
            .filter(|name| !name.is_empty())
            .map(DestinationName::from),
        outcome: row.get(4)?,
        event_id,
        event_type: row::lossy(row.get_ref(6)?),
        aggregate: (row::lossy(row.get_ref(7)?), row::lossy(row.get_ref(8)?)),
        event_key: text(9)?,
        payload: row::payload(row.get_ref(10)?, row.get_ref(11)?),
        content_type: text(12)?,
        headers: text(13)?,
        priority: priority.map(|priority| i32::try_from(priority).unwrap_or(0)),
        available_at: time(15)?,
        created_at: time(16)?,
        enqueued_at: micros(17)?,
        replay: text(18)?.map(|id| JobId::from(id.as_str())),
        reason: text(19)?,
        receipt: text(20)?,
        attempts: row.get(21)?,
        failures: row.get(22)?,
        error: text(23)?.map(|kind| (kind, error_text.unwrap_or_default())),
        last_failed_at: micros(25)?,
    })
}
