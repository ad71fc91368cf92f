//! The history as rows, by place: what an archive is written from.

use std::collections::VecDeque;

use postrider_core::{Cursor, DestinationName, HistoryAsk, HistoryPage, HistoryRow, JobId, Timestamp};
use tokio_postgres::Row;

use crate::clock::Micros;
use crate::console::{Budget, STRETCH, View, Way, last_place, next_place, place_of};
use crate::error::Result;
use crate::row;

/// Rows of the same place and destination stay on one page, because a cursor cannot tell them apart. Of a stretch only
/// as many leave the server as fit.
const ROWS: &str = "SELECT * FROM (
         SELECT s.*, count(*) OVER () AS rows,
             coalesce(sum(s.size) OVER (ORDER BY s.seq, s.name GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
                 AS before
         FROM (
             SELECT h.seq, coalesce(h.destination, '') AS name, h.outcome, h.event_id, h.event_type, h.aggregate_type,
                 h.aggregate_id, h.event_key, h.payload, h.payload_bytes, h.content_type, h.headers, h.priority,
                 h.available_at, h.created_at, h.enqueued_at, h.replay_id, h.reason, h.receipt, h.attempts, h.failures,
                 h.error_kind, h.error_text, h.last_failed_at, h.published_at,
                 coalesce(octet_length(h.payload), octet_length(h.payload_bytes), 0)::bigint AS size
             FROM {outbox_sent} h
             WHERE h.seq > $1 AND h.seq <= $2 AND (h.seq, coalesce(h.destination, '')) > ($3, $4)
               AND ($5::timestamptz IS NULL OR h.published_at >= $5)
               AND ($6::timestamptz IS NULL OR h.published_at < $6)
             ORDER BY h.seq, coalesce(h.destination, '') FETCH FIRST ($7::bigint) ROWS WITH TIES
         ) s
     ) s WHERE s.before < $8::bigint ORDER BY s.seq, s.name, s.published_at";

/// Above every name of a destination.
const ABOVE_ALL: &str = "\u{10ffff}";

/// A page of the history. It may be empty before the end: a short time in a long history is looked for in several, each
/// of a bounded effort.
pub(super) async fn page(view: &View, ask: &HistoryAsk) -> Result<HistoryPage> {
    let from = place_of(ask.after.as_ref())?;
    let limit = ask.limit.max(1) as usize;
    let last = last_place(view).await?;
    let mut page = HistoryPage::default();
    let mut bytes = 0;
    // The place itself too: rows of it may have gone to other destinations.
    let mut at = from.0 - 1;
    let mut budget = Budget::default();
    loop {
        let Some(start) = next_place(view, "{outbox_sent}", "", Way::Up, at, last).await? else {
            page.next = None;
            return Ok(page);
        };
        if page.rows.len() >= limit || bytes >= ask.max_bytes.max(1) {
            return Ok(page);
        }
        let end = start.saturating_add(STRETCH);
        let room = Room {
            rows: limit - page.rows.len(),
            bytes: ask.max_bytes.max(1) - bytes,
        };
        let (rows, cut) = stretch(view, ask, (start, end), &from, room).await?;
        bytes += rows.iter().map(|row| row.payload.len() as u64).sum::<u64>();
        page.rows.extend(rows);
        page.next = page.rows.last().map(|row| {
            let name = row.destination.as_ref().map_or("", DestinationName::as_str);
            Cursor::at(row::place(row.seq), name)
        });
        if cut {
            return Ok(page);
        }
        at = end;
        budget.spend(STRETCH);
        if budget.is_spent() {
            page.next = Some(Cursor::at(end, ABOVE_ALL));
            return Ok(page);
        }
    }
}

/// What still fits on a page.
struct Room {
    rows: usize,
    bytes: u64,
}

/// The rows of a stretch that fit, and whether others of it do not.
async fn stretch(
    view: &View,
    ask: &HistoryAsk,
    (start, end): (i64, i64),
    from: &(i64, String),
    room: Room,
) -> Result<(Vec<HistoryRow>, bool)> {
    let time = |at: Option<Timestamp>| at.map(Micros::from);
    let wanted = i64::try_from(room.rows + 1).unwrap_or(i64::MAX);
    let bytes = i64::try_from(room.bytes).unwrap_or(i64::MAX);
    let rows = view
        .client()
        .query(
            &view.sql(ROWS),
            &[
                &start,
                &end,
                &from.0,
                &from.1,
                &time(ask.since),
                &time(ask.until),
                &wanted,
                &bytes,
            ],
        )
        .await?;
    let there = rows
        .first()
        .map(|row| row.try_get::<_, i64>("rows"))
        .transpose()?;
    let mut read: VecDeque<HistoryRow> = rows.iter().map(read).collect::<Result<_>>()?;
    let mut taken: Vec<HistoryRow> = Vec::new();
    while let Some(next) = read.pop_front() {
        let tied = |last: &HistoryRow| (last.seq, &last.destination) == (next.seq, &next.destination);
        if taken.len() >= room.rows && !taken.last().is_some_and(tied) {
            break;
        }
        taken.push(next);
    }
    let there = usize::try_from(there.unwrap_or(0)).unwrap_or(usize::MAX);
    let cut = taken.len() < there;
    Ok((taken, cut))
}

fn read(row: &Row) -> Result<HistoryRow> {
    let time = |name: &str| -> Result<Option<Timestamp>> {
        let at: Option<Micros> = row.try_get(name)?;
        Ok(at.map(Timestamp::from))
    };
    let count =
        |name: &str| -> Result<u32> { Ok(u32::try_from(row.try_get::<_, i64>(name)?).unwrap_or(u32::MAX)) };
    let kind: Option<String> = row.try_get("error_kind")?;
    let text: Option<String> = row.try_get("error_text")?;
    Ok(HistoryRow {
        seq: row::seq(row.try_get("seq")?),
        destination: row::destination(row.try_get("name")?),
        outcome: row.try_get("outcome")?,
        event_id: row.try_get::<_, &str>("event_id")?.into(),
        event_type: row.try_get("event_type")?,
        aggregate: (row.try_get("aggregate_type")?, row.try_get("aggregate_id")?),
        event_key: row.try_get("event_key")?,
        payload: row::payload(row.try_get("payload")?, row.try_get("payload_bytes")?),
        content_type: row.try_get("content_type")?,
        headers: row.try_get("headers")?,
        priority: row.try_get("priority")?,
        available_at: time("available_at")?,
        created_at: time("created_at")?,
        enqueued_at: time("enqueued_at")?,
        replay: row.try_get::<_, Option<&str>>("replay_id")?.map(JobId::from),
        reason: row.try_get("reason")?,
        receipt: row.try_get("receipt")?,
        attempts: count("attempts")?,
        failures: count("failures")?,
        error: kind.map(|kind| (kind, text.unwrap_or_default())),
        last_failed_at: time("last_failed_at")?,
        published_at: time("published_at")?.unwrap_or(Timestamp(0)),
    })
}
