//! Occasions with more members than one chunk: each further chunk is a transaction of its own.

use postrider_core::{StoreError, causes};
use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::{Lite, attempt, chunk, directory, failed, micros, schema};
use crate::board::keep::keep;
use crate::board::work::{Asked, Claimed, LEFT_TO_OTHERS};
use crate::plan::Planner;
use crate::{BoardError, FanOut, Occasion, Step};

/// Writes down that members are left behind this one, or all of them; answers whether there is anything to go on with.
/// An event that was accepted before has its fan-out already: that goes on where it is, and one that stood aside is
/// tried again.
pub(super) fn begin(
    tx: &Transaction<'_>,
    (occasion, workflow, cursor, stored): (&Occasion, &str, Option<&str>, u64),
) -> Result<bool, BoardError> {
    let text = keep(occasion)?;
    let stored = i64::try_from(stored).unwrap_or(i64::MAX);
    let touched = tx.execute(
        "INSERT INTO notification_fanout (event_id, occasion, workflow, cursor, stored) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (event_id) DO UPDATE SET problem = NULL WHERE finished_at IS NULL",
        params![occasion.event_id, text, workflow, cursor, stored],
    );
    Ok(touched.map_err(|error| failed(error, "beginning a fan-out"))? > 0)
}

/// The oldest. There is one writer to a file, so nobody else works on it; what cannot go on stands aside.
const CLAIM: &str = "SELECT event_id, occasion, workflow, cursor FROM notification_fanout
    WHERE finished_at IS NULL AND problem IS NULL
        AND (workflow IN (SELECT value FROM json_each(?1)) OR created_at < ?2)
    ORDER BY created_at, event_id LIMIT 1";

/// The one that people were asked for, where it still is where it was then.
const CLAIM_ASKED: &str = "SELECT event_id, occasion, workflow, cursor FROM notification_fanout
    WHERE event_id = ?1 AND cursor IS ?2 AND finished_at IS NULL AND problem IS NULL";

fn claimed(row: &Row<'_>) -> rusqlite::Result<Claimed> {
    Ok(Claimed {
        event_id: row.get(0)?,
        occasion: row.get(1)?,
        workflow: row.get(2)?,
        cursor: row.get(3)?,
    })
}

/// The fan-out whose turn it is.
pub(super) fn next(
    tx: &Transaction<'_>,
    lite: &Lite,
    asked: Option<&Asked<Claimed>>,
) -> Result<Option<Claimed>, BoardError> {
    let next = match asked {
        None => {
            let left = schema::now(tx)?.saturating_sub(micros(LEFT_TO_OTHERS));
            tx.query_row(CLAIM, params![lite.known(), left], claimed)
        }
        Some(Asked { of, .. }) => tx.query_row(CLAIM_ASKED, params![of.event_id, of.cursor], claimed),
    };
    let next = next.optional();
    Ok(next.map_err(|error| failed(error, "taking the next fan-out"))?)
}

/// Stores the next chunk of one fan-out. The inner error is that of a fan-out which cannot go on as it is: the reason
/// is committed and nothing else of the chunk, and the fan-out stands aside until it is resumed.
pub(super) fn step(
    tx: &Transaction<'_>,
    lite: &Lite,
    asked: Option<&Asked<Claimed>>,
) -> Result<Result<Option<Step>, BoardError>, BoardError> {
    let Some(claimed) = next(tx, lite, asked)? else {
        return Ok(Ok(None));
    };
    let stepped = attempt(tx, || go_on(tx, lite, &claimed, asked))?;
    if let Err(error) = &stepped {
        let sql = "UPDATE notification_fanout SET problem = ?2 WHERE event_id = ?1";
        let done = tx.execute(sql, params![claimed.event_id, causes(error)]);
        done.map_err(|error| failed(error, "writing down why a fan-out does not go on"))?;
    }
    Ok(stepped.map(Some))
}

/// Those that stand aside are tried again.
pub(super) fn resume(tx: &Transaction<'_>) -> Result<u64, BoardError> {
    let sql =
        "UPDATE notification_fanout SET problem = NULL WHERE finished_at IS NULL AND problem IS NOT NULL";
    let resumed = tx.execute(sql, []);
    let resumed = resumed.map_err(|error| failed(error, "having fan-outs tried again"))?;
    Ok(resumed as u64)
}

/// How far the fan-out of an event is.
pub(super) fn progress(tx: &Transaction<'_>, event_id: &str) -> Result<Option<FanOut>, StoreError> {
    let sql = "SELECT stored, finished_at IS NOT NULL, problem FROM notification_fanout WHERE event_id = ?1";
    let read = |row: &Row<'_>| {
        Ok(FanOut {
            stored: u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0),
            finished: row.get(1)?,
            problem: row.get(2)?,
        })
    };
    let found = tx.query_row(sql, [event_id], read).optional();
    found.map_err(|error| failed(error, "looking how far a fan-out is"))
}

/// It is finished when the last page was looked at to its end.
fn go_on(
    tx: &Transaction<'_>,
    lite: &Lite,
    claimed: &Claimed,
    asked: Option<&Asked<Claimed>>,
) -> Result<Step, BoardError> {
    let Claimed { event_id, cursor, .. } = claimed;
    let occasion = claimed.occasion()?;
    let mut planner = Planner::going_on(&lite.means.workflows, &claimed.workflow, &occasion)?;
    let asked = asked.map(Asked::page).transpose()?;
    let (members, is_last) = directory::page(tx, (&occasion.to, cursor.as_deref()), asked)?;
    let counts = chunk::run(tx, lite, (&mut planner, &occasion), &members)?;
    let (last, more) = counts.reached((&members, is_last));
    let (cursor, finished) = (last.or(cursor.as_deref()), !more);
    let stored = i64::try_from(counts.stored).unwrap_or(i64::MAX);
    let finished_at = finished.then(|| schema::now(tx)).transpose()?;
    let moved = tx.execute(
        "UPDATE notification_fanout SET cursor = ?2, stored = stored + ?3, finished_at = ?4 WHERE event_id = ?1",
        params![event_id, cursor, stored, finished_at],
    );
    moved.map_err(|error| failed(error, "moving a fan-out on"))?;
    Ok(counts.step(claimed, finished))
}
