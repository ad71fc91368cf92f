//! Replays: copies of sent events, parked under keys of their own, so that relays send them beside the live flow.

use postrider_core::{Cursor, EventId, Filter, Job, JobId, JobState, Replay, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Row, params};

use super::arm::one_of;
use super::job::{Filed, advance};
use super::seen::{self, Seen};
use super::{View, count, place_of};
use crate::error::Result;
use crate::row::destination_text;

/// Rows of the history that one step looks at. A step holds the write lock, and a replay of yesterday must not hold it
/// while it walks over all that was published before.
const VISITS: u32 = 10_000;

/// Above every name of a destination.
const ABOVE_ALL: &str = "\u{10ffff}";

/// Makes up to `limit` further copies, as many as still have room beside the live flow.
pub(super) fn step(view: &View<'_>, filed: &mut Filed, replay: &Replay, limit: u32) -> Result<()> {
    let stuck = stuck(view, &filed.job)?;
    let room = Replay::room(filed.job.waiting, stuck).min(limit) as usize;
    let source = Source::of(filed, replay);
    let mut at = place_of(filed.job.cursor.as_ref())?;
    let (chosen, is_end) = match room {
        0 => (Vec::new(), source.pass_over(view, &mut at)?),
        _ => source.choose(view, &mut at, room, replay.to.is_some())?,
    };
    if is_end {
        // Behind its bound it reads no more, and keeps nothing from being removed.
        at = (filed.bound.saturating_add(1), String::new());
    }
    let copies = chosen.len();
    copy(view, &filed.job.id, replay, &source, &chosen)?;
    filed.job.cursor = Some(Cursor::at(at.0, &at.1));
    if is_end && copies == 0 && filed.job.waiting == 0 {
        filed.job.state = JobState::Done;
    }
    advance(view, &filed.job, copies as u64, 0)
}

/// How many copies wait behind a dead one of their key; counted only where they matter.
fn stuck(view: &View<'_>, job: &Job) -> Result<u64> {
    if job.waiting < u64::from(Replay::BESIDE) {
        return Ok(0);
    }
    let sql = view.sql(
        "SELECT count(*) FROM {outbox_parked} p INDEXED BY {outbox_parked_replay}
         WHERE p.replay_id = ?1 AND p.dead = 0 AND EXISTS (
             SELECT 1 FROM {outbox_parked} d INDEXED BY {outbox_parked_line}
             WHERE d.order_key = p.order_key AND d.lane = p.lane AND d.destination = p.destination AND d.dead = 1
             AND d.seq < p.seq)",
    );
    let mut statement = view.tx.prepare_cached(&sql)?;
    Ok(count(statement.query_row([job.id.as_str()], |row| row.get(0))?))
}

/// Takes copies back that were not sent yet. What a relay has in flight may still arrive.
pub(super) fn take_back(view: &View<'_>, id: &JobId) -> Result<u64> {
    let sql = view.sql("DELETE FROM {outbox_parked} WHERE replay_id = ?1");
    Ok(view.tx.execute(&sql, [id.as_str()])? as u64)
}

/// A row that was chosen of a place.
struct Here {
    event_id: EventId,
    destination: String,
    /// Among the chosen.
    index: usize,
}

/// Where copies are made from.
struct Source<'a> {
    filter: &'a Filter,
    table: &'static str,
    index: &'static str,
    /// The condition on ?2: ids, or the job that restored.
    only: String,
    value: Value,
    since: i64,
    until: i64,
    bound: i64,
    /// When ages are counted from, however late somebody goes on with it.
    begun_at: Timestamp,
}

impl<'a> Source<'a> {
    fn of(filed: &'a Filed, replay: &Replay) -> Self {
        let filter = &filed.job.filter;
        let ids = one_of("event_id", filter.event_id.iter().map(EventId::as_str));
        let (table, index, (only, value)) = match (&replay.restored, ids) {
            (Some(job), _) => (
                "{outbox_restored}",
                "{outbox_restored_place}",
                ("job_id = ?2".to_owned(), Value::Text(job.as_str().to_owned())),
            ),
            (None, Some(ids)) => ("{outbox_sent}", "{outbox_sent_event}", ids),
            (None, None) => (
                "{outbox_sent}",
                "{outbox_sent_place}",
                ("?2 IS NULL".to_owned(), Value::Null),
            ),
        };
        Self {
            filter,
            table,
            index,
            only,
            value,
            since: replay.since.map_or(i64::MIN, |at| at.0),
            until: replay.until(filed.job.begun_at).map_or(i64::MAX, |at| at.0),
            bound: filed.bound,
            begun_at: filed.job.begun_at,
        }
    }

    /// Up to `room` further rows in the order of their places, from behind `at`, which moves along; and whether the
    /// source is at its end. An event that went to several destinations goes once to a single one.
    fn choose(
        &self,
        view: &View<'_>,
        at: &mut (i64, String),
        room: usize,
        once: bool,
    ) -> Result<(Vec<i64>, bool)> {
        let mut statement = view.tx.prepare_cached(&self.behind(view))?;
        let mut rows = statement.query(params![at.0, self.value, at.1, self.bound, VISITS])?;
        let (mut chosen, mut visited) = (Vec::new(), 0);
        // What was chosen of the place at hand, which the next step begins behind, and where it was before.
        let mut here: Vec<Here> = Vec::new();
        let start = at.clone();
        let mut before = start.clone();
        while let Some(row) = rows.next()? {
            visited += 1;
            let place: (i64, String) = (row.get(0)?, row.get(seen::DESTINATION)?);
            let is_here = match once {
                true => place.0 == at.0,
                false => place == *at,
            };
            if !is_here {
                if chosen.len() >= room {
                    return Ok((chosen, false));
                }
                before = std::mem::replace(at, place.clone());
                if once {
                    at.1 = ABOVE_ALL.to_owned();
                }
                here.clear();
            }
            let Some(event_id) = self.meant(view, row)? else {
                continue;
            };
            let id: i64 = row.get(seen::COLUMNS)?;
            // Edited while it was being sent, an event was sent twice: the last is what people wanted. Another event
            // may have the same place, after a backup was put back.
            match here.iter().find(|known| known.event_id == event_id) {
                Some(known) if known.destination == place.1 => chosen[known.index] = id,
                Some(_) => {}
                None => {
                    here.push(Here {
                        event_id,
                        destination: place.1,
                        index: chosen.len(),
                    });
                    chosen.push(id);
                }
            }
        }
        let is_end = visited < VISITS as usize;
        // There may be more of the last place. Where it is the only one, it is taken as it is: something must move.
        if !is_end && before != start {
            chosen.truncate(chosen.len() - here.len());
            *at = before;
        }
        Ok((chosen, is_end))
    }

    /// Moves behind the places of which nothing is meant; answers whether the source is at its end. Where nothing may
    /// be copied, only this tells whether anything is left.
    fn pass_over(&self, view: &View<'_>, at: &mut (i64, String)) -> Result<bool> {
        let mut statement = view.tx.prepare_cached(&self.behind(view))?;
        let mut rows = statement.query(params![at.0, self.value, at.1, self.bound, VISITS])?;
        let (mut last, mut visited) = (None::<(i64, String)>, 0);
        while let Some(row) = rows.next()? {
            visited += 1;
            if self.meant(view, row)?.is_some() {
                return Ok(false);
            }
            let place: (i64, String) = (row.get(0)?, row.get(seen::DESTINATION)?);
            // There may be more of the last place.
            match last.replace(place.clone()) {
                Some(passed) if passed.0 != place.0 => *at = passed,
                _ => {}
            }
        }
        Ok(visited < VISITS)
    }

    /// Rows in the order of their places, from behind one.
    fn behind(&self, view: &View<'_>) -> String {
        view.sql(&format!(
            "SELECT {columns}, id, published_at, outcome = 'published' AND replay_id IS NULL AND destination IS NOT NULL
             FROM {table} INDEXED BY {index}
             WHERE {only} AND seq >= ?1 AND (seq > ?1 OR coalesce(destination, '') > ?3) AND seq <= ?4
             ORDER BY seq, coalesce(destination, '') LIMIT ?5",
            columns = seen::SENT,
            table = self.table,
            index = self.index,
            only = self.only,
        ))
    }

    /// Only what was published in the time that is asked for, and is no copy itself: the id of such an event.
    fn meant(&self, view: &View<'_>, row: &Row<'_>) -> Result<Option<EventId>> {
        let published_at: i64 = row.get(seen::COLUMNS + 1)?;
        let is_event: bool = row.get(seen::COLUMNS + 2)?;
        if !is_event || !(self.since..self.until).contains(&published_at) {
            return Ok(None);
        }
        let seen = Seen::read(view, row)?;
        let is_meant = seen.is_meant_at(self.begun_at, self.filter);
        Ok(is_meant.then(|| seen.event_id().clone()))
    }
}

/// Parks copies of rows of the history, each at a place of its own, in their order.
fn copy(view: &View<'_>, id: &JobId, replay: &Replay, source: &Source<'_>, rows: &[i64]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let sql = view.sql(&format!(
        "INSERT INTO {{outbox_parked}} (seq, destination, lane, order_key, event_id, version, dead, next_attempt_at,
                attempts, failures, maybe_sent, updated_at, event_type, aggregate_type, aggregate_id, event_key,
                payload, payload_bytes, content_type, headers, priority, available_at, created_at, replay_id,
                enqueued_at)
         SELECT ?2, iif(?4 = '', destination, ?4), sign(coalesce(priority, 0)),
                char(31) || 'replay' || char(31) || ?3 || char(31)
                    || coalesce(event_key, aggregate_type || char(31) || aggregate_id),
                event_id, 1, 0, ?5, 0, 0, 0, ?5, event_type, aggregate_type, aggregate_id, event_key,
                payload, payload_bytes, content_type, headers, priority, available_at,
                coalesce(created_at, enqueued_at), ?3, ?5
         FROM {table} WHERE id = ?1",
        table = source.table,
    ));
    let mut statement = view.tx.prepare_cached(&sql)?;
    let first = take_places(view, rows.len())?;
    for (place, row) in (first..).zip(rows) {
        let to = destination_text(replay.to.as_ref());
        statement.execute(params![row, place, id.as_str(), to, view.standing.now])?;
    }
    Ok(())
}

/// Takes places out of the sequence of the outbox, so that no event is ever given one of them; answers the first.
fn take_places(view: &View<'_>, count: usize) -> Result<i64> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let name = view.tables.prefix();
    let taken = view.tx.execute(
        "UPDATE sqlite_sequence SET seq = seq + ?2 WHERE name = ?1 COLLATE NOCASE",
        params![name, count],
    )?;
    if taken == 0 {
        // Nothing was ever inserted: the history came from elsewhere.
        let table: String = view.tx.query_row(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name = ?1 COLLATE NOCASE",
            [name],
            |row| row.get(0),
        )?;
        view.tx.execute(
            "INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)",
            params![table, count],
        )?;
        return Ok(1);
    }
    let last: i64 = view.tx.query_row(
        "SELECT seq FROM sqlite_sequence WHERE name = ?1 COLLATE NOCASE",
        [name],
        |row| row.get(0),
    )?;
    Ok(last - count + 1)
}
