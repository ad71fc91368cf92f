//! Jobs that are made of files: how far they came, and rows of an archive where a replay finds them.

use postrider_core::{Cursor, HistoryRow, Job, JobId, JobState, Payload, Timestamp};
use rusqlite::{CachedStatement, params};

use crate::clock;
use crate::console::{View, advance, count, load};
use crate::error::Result;
use crate::row::{self, destination_text};

/// Says how far a job has come. One that is not running is answered as it is.
pub(super) fn mark(view: &View<'_>, id: &JobId, cursor: Cursor, rows: u64, done: bool) -> Result<Job> {
    let mut job = load(view, id)?.job;
    if job.state == JobState::Running {
        job.cursor = Some(cursor);
        if done {
            job.state = JobState::Done;
        }
        advance(view, &job, rows, 0)?;
    }
    Ok(load(view, id)?.job)
}

/// Writes rows and how far the job has come, together.
pub(super) fn restore(view: &View<'_>, id: &JobId, rows: &[HistoryRow], cursor: Cursor) -> Result<Job> {
    let job = load(view, id)?.job;
    if job.state != JobState::Running || job.has_reached(&cursor) {
        return Ok(job);
    }
    let sql = view.sql(
        "INSERT INTO {outbox_restored} (job_id, restored_at, seq, destination, event_id, event_type, aggregate_type,
                aggregate_id, event_key, payload, payload_bytes, content_type, headers, priority, available_at,
                created_at, replay_id, enqueued_at, outcome, reason, receipt, attempts, failures, error_kind,
                error_text, last_failed_at, published_at)
         VALUES (?1, ?2, ?3, nullif(?4, ''), ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
                 ?21, ?22, ?23, ?24, ?25, ?26, ?27)",
    );
    let mut insert = view.tx.prepare_cached(&sql)?;
    for row in rows {
        if row::place(row.seq) == i64::MAX {
            return Err(row.out_of_place().into());
        }
        write(&mut insert, id, view.standing.now, row)?;
    }
    mark(view, id, cursor, rows.len() as u64, false)
}

/// How many of its rows are still there.
pub(super) fn restored(view: &View<'_>, id: &JobId) -> Result<u64> {
    let sql = view
        .sql("SELECT count(*) FROM {outbox_restored} INDEXED BY {outbox_restored_place} WHERE job_id = ?1");
    Ok(count(view.tx.query_row(&sql, [id.as_str()], |row| row.get(0))?))
}

fn write(insert: &mut CachedStatement<'_>, job: &JobId, now: i64, row: &HistoryRow) -> Result<()> {
    let (text, bytes): (Option<&str>, Option<&[u8]>) = match &row.payload {
        Payload::Text(text) => (Some(text), None),
        Payload::Bytes(bytes) => (None, Some(bytes)),
        Payload::Tombstone => (None, None),
    };
    let micros = |at: Option<Timestamp>| at.map(|at| at.0);
    insert.execute(params![
        job.as_str(),
        now,
        row::place(row.seq),
        destination_text(row.destination.as_ref()),
        row.event_id.as_str(),
        row.event_type,
        row.aggregate.0,
        row.aggregate.1,
        row.event_key,
        text,
        bytes,
        row.content_type,
        row.headers,
        row.priority,
        row.available_at.map(clock::stored),
        row.created_at.map(clock::stored),
        row.replay.as_ref().map(JobId::as_str),
        micros(row.enqueued_at),
        row.outcome,
        row.reason,
        row.receipt,
        row.attempts,
        row.failures,
        row.error.as_ref().map(|(kind, _)| kind),
        row.error.as_ref().map(|(_, text)| text),
        micros(row.last_failed_at),
        row.published_at.0,
    ])?;
    Ok(())
}
