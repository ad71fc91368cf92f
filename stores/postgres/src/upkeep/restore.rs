//! What an archive gives back, and how far jobs have come that write or read files.

use futures_util::future::try_join_all;
use postrider_core::{Cursor, HistoryRow, Job, JobId, JobState, Payload};
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;

use crate::clock::Micros;
use crate::console::{Done, View, advance, load, locked};
use crate::error::Result;
use crate::row::{self, storable};

const INSERT: &str = "INSERT INTO {outbox_restored} (job_id, seq, destination, outcome, event_id, event_type,
         aggregate_type, aggregate_id, event_key, payload, payload_bytes, content_type, headers, priority, available_at,
         created_at, enqueued_at, replay_id, reason, receipt, attempts, failures, error_kind, error_text,
         last_failed_at, published_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
         $24, $25, $26)";

/// Rows that are on their way to the server at a time.
const AHEAD: usize = 256;

/// How far a job has come; one that is not running stays as it is.
pub(super) async fn mark(view: &View, id: &JobId, cursor: Cursor, rows: u64, ended: bool) -> Result<Job> {
    let filed = locked(view, id).await?;
    if filed.job.state == JobState::Running {
        let done = Done {
            cursor: Some(cursor),
            touched: rows,
            refused: 0,
            ended,
        };
        advance(view, &filed.job, &done).await?;
    }
    Ok(load(view, id).await?.job)
}

/// Puts rows where a replay finds them.
pub(super) async fn restore(view: &View, id: &JobId, rows: &[HistoryRow], cursor: Cursor) -> Result<Job> {
    let filed = locked(view, id).await?;
    if filed.job.has_reached(&cursor) {
        return Ok(filed.job);
    }
    if filed.job.state == JobState::Running {
        if let Some(strange) = rows.iter().find(|row| row::place(row.seq) == i64::MAX) {
            return Err(strange.out_of_place().into());
        }
        let statement = view.client().prepare(&view.sql(INSERT)).await?;
        for some in rows.chunks(AHEAD) {
            try_join_all(some.iter().map(|row| insert(view, &statement, id, row))).await?;
        }
    }
    mark(view, id, cursor, rows.len() as u64, false).await
}

/// How many of its rows are still there.
pub(super) async fn restored(view: &View, id: &JobId) -> Result<u64> {
    let sql = view.sql("SELECT count(*) FROM {outbox_restored} WHERE job_id = $1");
    let row = view.client().query_one(&sql, &[&storable(id.as_str())]).await?;
    Ok(u64::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0))
}

/// An archive may be one of another database, whose texts may have a zero in them; none of ours can. A payload keeps
/// its bytes as bytes, everything else is written as it is for events.
async fn insert(view: &View, statement: &Statement, id: &JobId, from: &HistoryRow) -> Result<()> {
    let (text, bytes) = match &from.payload {
        Payload::Text(text) if text.contains('\0') => (None, Some(text.as_bytes())),
        Payload::Text(text) => (Some(text.as_str()), None),
        Payload::Bytes(bytes) => (None, Some(&bytes[..])),
        Payload::Tombstone => (None, None),
    };
    let time = |at: Option<postrider_core::Timestamp>| at.map(Micros::from);
    let (kind, error) = from
        .error
        .as_ref()
        .map(|(kind, text)| (storable(kind), storable(text)))
        .unzip();
    let text_of = |text: &'_ Option<String>| text.as_deref().map(|text| storable(text).into_owned());
    let values: [&(dyn ToSql + Sync); 26] = [
        &id.as_str(),
        &row::place(from.seq),
        &from
            .destination
            .as_ref()
            .map(|name| storable(name.as_str()).into_owned()),
        &from.outcome,
        &storable(from.event_id.as_str()),
        &storable(&from.event_type),
        &storable(&from.aggregate.0),
        &storable(&from.aggregate.1),
        &text_of(&from.event_key),
        &text,
        &bytes,
        &text_of(&from.content_type),
        &text_of(&from.headers),
        &from.priority,
        &time(from.available_at),
        &time(from.created_at),
        &time(from.enqueued_at),
        &from.replay.as_ref().map(|id| storable(id.as_str()).into_owned()),
        &text_of(&from.reason),
        &text_of(&from.receipt),
        &i64::from(from.attempts),
        &i64::from(from.failures),
        &kind,
        &error,
        &time(from.last_failed_at),
        &Micros::from(from.published_at),
    ];
    view.client().execute(statement, &values).await?;
    Ok(())
}
