//! Occasions with more members than one chunk: each chunk is a transaction, which moves the fan-out on.

use postrider_core::{StoreError, causes};
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use super::{Pg, attempt, chunk, directory, failed};
use crate::board::keep::keep;
use crate::board::work::{Asked, Claimed, LEFT_TO_OTHERS};
use crate::plan::Planner;
use crate::{BoardError, FanOut, Occasion, Step};

/// Writes down that members are left behind this one, or all of them; answers whether there is anything to go on with.
/// An event that was accepted before has its fan-out already: that goes on where it is, and one that stood aside is
/// tried again.
pub(super) async fn begin(
    tx: &Transaction<'_>,
    pg: &Pg,
    (occasion, workflow, cursor, stored): (&Occasion, &str, Option<&str>, u64),
) -> Result<bool, BoardError> {
    let text = keep(occasion)?;
    let stored = i64::try_from(stored).unwrap_or(i64::MAX);
    let sql = pg.names.sql(
        "INSERT INTO {notification_fanout} AS f (event_id, occasion, workflow, cursor, stored)
         VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (event_id) DO UPDATE SET problem = NULL WHERE f.finished_at IS NULL",
    );
    let values: [(&(dyn ToSql + Sync), Type); 5] = [
        (&occasion.event_id, Type::TEXT),
        (&text, Type::TEXT),
        (&workflow, Type::TEXT),
        (&cursor, Type::TEXT),
        (&stored, Type::INT8),
    ];
    let touched = tx.execute_typed(&sql, &values).await;
    Ok(touched.map_err(|error| failed(error, "beginning a fan-out"))? > 0)
}

/// The oldest that nobody else works on: whoever does holds its row until the end of the chunk, and a worker that is
/// gone holds nothing. What cannot go on stands aside.
const CLAIM: &str = "SELECT event_id, occasion, workflow, cursor FROM {notification_fanout}
    WHERE finished_at IS NULL AND problem IS NULL
        AND (workflow = ANY ($1) OR created_at < clock_timestamp() - $2 * interval '1 second')
    ORDER BY created_at, event_id LIMIT 1 FOR UPDATE SKIP LOCKED";

/// The one that people were asked for, where it still is where it was then. Whoever works on it is waited for.
const CLAIM_ASKED: &str = "SELECT event_id, occasion, workflow, cursor FROM {notification_fanout}
    WHERE event_id = $1 AND cursor IS NOT DISTINCT FROM $2 AND finished_at IS NULL AND problem IS NULL FOR UPDATE";

/// The fan-out whose turn it is.
pub(super) async fn next(
    tx: &Transaction<'_>,
    pg: &Pg,
    asked: Option<&Asked<Claimed>>,
) -> Result<Option<Claimed>, BoardError> {
    let said = |error| failed(error, "taking the next fan-out");
    let rows = match asked {
        None => {
            let (known, left) = (pg.means.workflows.names(), LEFT_TO_OTHERS.as_secs_f64());
            let values: [(&(dyn ToSql + Sync), Type); 2] =
                [(&known, Type::TEXT_ARRAY), (&left, Type::FLOAT8)];
            tx.query_typed(&pg.names.sql(CLAIM), &values).await
        }
        Some(Asked { of, .. }) => {
            let values: [(&(dyn ToSql + Sync), Type); 2] =
                [(&of.event_id, Type::TEXT), (&of.cursor, Type::TEXT)];
            tx.query_typed(&pg.names.sql(CLAIM_ASKED), &values).await
        }
    };
    let rows = rows.map_err(said)?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    Ok(Some(Claimed {
        event_id: row.try_get(0).map_err(said)?,
        occasion: row.try_get(1).map_err(said)?,
        workflow: row.try_get(2).map_err(said)?,
        cursor: row.try_get(3).map_err(said)?,
    }))
}

/// Stores the next chunk of one fan-out. The inner error is that of a fan-out which cannot go on as it is: the reason
/// is committed and nothing else of the chunk, and the fan-out stands aside until it is resumed.
pub(super) async fn step(
    tx: &Transaction<'_>,
    pg: &Pg,
    asked: Option<&Asked<Claimed>>,
) -> Result<Result<Option<Step>, BoardError>, BoardError> {
    let Some(claimed) = next(tx, pg, asked).await? else {
        return Ok(Ok(None));
    };
    let stepped = attempt(tx, go_on(tx, pg, &claimed, asked)).await?;
    if let Err(error) = &stepped {
        let reason = causes(error);
        let values: [(&(dyn ToSql + Sync), Type); 2] =
            [(&claimed.event_id, Type::TEXT), (&reason, Type::TEXT)];
        let sql = "UPDATE {notification_fanout} SET problem = $2 WHERE event_id = $1";
        let done = tx.execute_typed(&pg.names.sql(sql), &values).await;
        done.map_err(|error| failed(error, "writing down why a fan-out does not go on"))?;
    }
    Ok(stepped.map(Some))
}

/// Those that stand aside are tried again.
pub(super) async fn resume(tx: &Transaction<'_>, pg: &Pg) -> Result<u64, BoardError> {
    let sql =
        "UPDATE {notification_fanout} SET problem = NULL WHERE finished_at IS NULL AND problem IS NOT NULL";
    let resumed = tx.execute_typed(&pg.names.sql(sql), &[]).await;
    Ok(resumed.map_err(|error| failed(error, "having fan-outs tried again"))?)
}

/// How far the fan-out of an event is.
pub(super) async fn progress(
    tx: &Transaction<'_>,
    pg: &Pg,
    event_id: &str,
) -> Result<Option<FanOut>, StoreError> {
    let said = |error| failed(error, "looking how far a fan-out is");
    let sql =
        "SELECT stored, finished_at IS NOT NULL, problem FROM {notification_fanout} WHERE event_id = $1";
    let rows = tx
        .query_typed(&pg.names.sql(sql), &[(&event_id, Type::TEXT)])
        .await;
    let rows = rows.map_err(said)?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(FanOut {
        stored: u64::try_from(row.try_get::<_, i64>(0).map_err(said)?).unwrap_or(0),
        finished: row.try_get(1).map_err(said)?,
        problem: row.try_get(2).map_err(said)?,
    }))
}

/// It is finished when the last page was looked at to its end.
async fn go_on(
    tx: &Transaction<'_>,
    pg: &Pg,
    claimed: &Claimed,
    asked: Option<&Asked<Claimed>>,
) -> Result<Step, BoardError> {
    let Claimed { event_id, cursor, .. } = claimed;
    let occasion = claimed.occasion()?;
    let mut planner = Planner::going_on(&pg.means.workflows, &claimed.workflow, &occasion)?;
    let asked = asked.map(Asked::page).transpose()?;
    let (members, is_last) = directory::page(tx, pg, (&occasion.to, cursor.as_deref()), asked).await?;
    let counts = chunk::run(tx, pg, (&mut planner, &occasion), &members).await?;
    let (last, more) = counts.reached((&members, is_last));
    let (cursor, finished) = (last.or(cursor.as_deref()), !more);
    let stored = i64::try_from(counts.stored).unwrap_or(i64::MAX);
    let sql = pg.names.sql(
        "UPDATE {notification_fanout} SET cursor = $2, stored = stored + $3, problem = NULL,
            finished_at = CASE WHEN $4 THEN clock_timestamp() END
         WHERE event_id = $1",
    );
    let values: [(&(dyn ToSql + Sync), Type); 4] = [
        (event_id, Type::TEXT),
        (&cursor, Type::TEXT),
        (&stored, Type::INT8),
        (&finished, Type::BOOL),
    ];
    let moved = tx.execute_typed(&sql, &values).await;
    moved.map_err(|error| failed(error, "moving a fan-out on"))?;
    Ok(counts.step(claimed, finished))
}
