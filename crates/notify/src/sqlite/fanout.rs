//! Occasions with more members than one chunk: each further chunk is a transaction of its own.

use postrider_core::{StoreError, causes};
use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::{Lite, chunk, directory, failed, schema};
use crate::board::unreadable;
use crate::people::Page;
use crate::plan::Planner;
use crate::{BoardError, FanOut, Occasion, Step};

/// Writes down that members are left behind this one, or all of them; answers whether there is anything to go on with.
/// An event that was accepted before has its fan-out already: that goes on where it is, and one that stood aside is
/// tried again.
pub(super) fn begin(
    tx: &Transaction<'_>,
    (occasion, workflow, cursor, stored): (&Occasion, &str, Option<&str>, u64),
) -> Result<bool, BoardError> {
    let text = serde_json::to_string(occasion).map_err(|error| unreadable(&occasion.event_id, &error))?;
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
    WHERE finished_at IS NULL AND problem IS NULL ORDER BY created_at, event_id LIMIT 1";

/// The one that people were asked for, where it still is where it was then.
const CLAIM_ASKED: &str = "SELECT event_id, occasion, workflow, cursor FROM notification_fanout
    WHERE event_id = ?1 AND cursor IS ?2 AND finished_at IS NULL AND problem IS NULL";

/// A fan-out that was claimed.
pub(super) struct Claimed {
    pub(super) event_id: String,
    pub(super) occasion: String,
    workflow: String,
    pub(super) cursor: Option<String>,
}

/// What the directory that is not ours said of a fan-out: its next people, or why it could not say.
pub(super) type Asked = (Claimed, Result<Page, String>);

impl Claimed {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            event_id: row.get(0)?,
            occasion: row.get(1)?,
            workflow: row.get(2)?,
            cursor: row.get(3)?,
        })
    }
}

/// The fan-out whose turn it is.
pub(super) fn next(tx: &Transaction<'_>, asked: Option<&Asked>) -> Result<Option<Claimed>, BoardError> {
    let claimed = match asked {
        None => tx.query_row(CLAIM, [], Claimed::read),
        Some((that, _)) => tx.query_row(CLAIM_ASKED, params![that.event_id, that.cursor], Claimed::read),
    };
    let claimed = claimed.optional();
    Ok(claimed.map_err(|error| failed(error, "taking the next fan-out"))?)
}

/// Stores the next chunk of one fan-out. The inner error is that of a fan-out which cannot go on as it is: that is
/// committed, and the fan-out stands aside until it is resumed.
pub(super) fn step(
    tx: &Transaction<'_>,
    lite: &Lite,
    asked: Option<&Asked>,
) -> Result<Result<Option<Step>, BoardError>, BoardError> {
    let Some(claimed) = next(tx, asked)? else {
        return Ok(Ok(None));
    };
    match go_on(tx, lite, &claimed, asked) {
        Err(error @ (BoardError::Occasion(_) | BoardError::Directory(_))) => {
            let reason = causes(&error);
            let sql = "UPDATE notification_fanout SET problem = ?2 WHERE event_id = ?1";
            let done = tx.execute(sql, params![claimed.event_id, reason]);
            done.map_err(|error| failed(error, "writing down why a fan-out does not go on"))?;
            Ok(Err(error))
        }
        stepped => Ok(Ok(Some(stepped?))),
    }
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

/// Everything that can refuse the occasion comes before the first statement that writes.
fn go_on(
    tx: &Transaction<'_>,
    lite: &Lite,
    claimed: &Claimed,
    asked: Option<&Asked>,
) -> Result<Step, BoardError> {
    let Claimed { event_id, cursor, .. } = claimed;
    let occasion: Occasion =
        serde_json::from_str(&claimed.occasion).map_err(|error| unreadable(event_id, &error))?;
    let mut planner = Planner::going_on(&lite.workflows, &claimed.workflow, &occasion)?;
    let asked = asked.map(|(_, page)| page.as_ref()).transpose();
    let asked = asked.map_err(|reason| BoardError::Directory(reason.as_str().into()))?;
    let (members, finished) = directory::page(tx, (&occasion.to, cursor.as_deref()), asked)?;
    let counts = chunk::run(tx, lite, (&mut planner, &occasion), &members)?;
    let cursor = members.last().map(|last| &last.recipient.id).or(cursor.as_ref());
    let stored = i64::try_from(counts.stored).unwrap_or(i64::MAX);
    let finished_at = finished.then(|| schema::now(tx)).transpose()?;
    let moved = tx.execute(
        "UPDATE notification_fanout SET cursor = ?2, stored = stored + ?3, finished_at = ?4 WHERE event_id = ?1",
        params![event_id, cursor, stored, finished_at],
    );
    moved.map_err(|error| failed(error, "moving a fan-out on"))?;
    Ok(Step {
        event_id: event_id.clone(),
        workflow: claimed.workflow.clone(),
        stored: counts.stored,
        duplicates: counts.duplicates,
        muted: counts.muted,
        collected: counts.collected,
        finished,
    })
}
