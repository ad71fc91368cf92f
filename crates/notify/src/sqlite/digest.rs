//! Occasions that are collected for a while, and told as one notification.

use std::time::Duration;

use postrider_core::causes;
use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::chunk::{self, Counts};
use super::{Lite, directory, failed, micros, schema};
use crate::people::Page;
use crate::plan::{EVENTS, Planner};
use crate::{BoardError, Member, Occasion, To};

/// Whether this event is in a digest of the user already, open or told.
const COLLECTED: &str =
    "SELECT 1 FROM notification_digest_item WHERE workflow = ?1 AND user_id = ?2 AND event_id = ?3";

const OPEN: &str =
    "SELECT id FROM notification_digest WHERE workflow = ?1 AND user_id = ?2 AND sent_at IS NULL";

const BEGIN: &str = "INSERT INTO notification_digest (workflow, user_id, due_at) VALUES (?1, ?2, ?3)";

const COLLECT: &str =
    "INSERT INTO notification_digest_item (digest_id, workflow, user_id, event_id, occasion)
    VALUES (?1, ?2, ?3, ?4, ?5)";

/// Collects an occasion for the members who want to hear of it. There is one writer to a file: what is looked up here
/// still holds when it is written.
pub(super) fn collect(
    tx: &Transaction<'_>,
    (planner, occasion): (&Planner<'_>, &Occasion),
    window: Duration,
    members: &[Member],
) -> Result<Counts, BoardError> {
    let text = serde_json::to_string(occasion).map_err(|error| unreadable(&error))?;
    let due_at = schema::now(tx)?.saturating_add(micros(window));
    let mut counts = Counts::default();
    for member in members {
        if planner.wanted(member).is_empty() {
            counts.muted += 1;
            continue;
        }
        let of = (planner.workflow().name.as_str(), member.recipient.id.as_str());
        let new = collect_one(tx, of, (&occasion.event_id, &text, due_at));
        match new.map_err(|error| failed(error, "collecting for a digest"))? {
            true => counts.collected += 1,
            false => counts.duplicates += 1,
        }
    }
    Ok(counts)
}

/// False when it was collected before.
fn collect_one(
    tx: &Transaction<'_>,
    (workflow, user): (&str, &str),
    (event_id, occasion, due_at): (&str, &str, i64),
) -> rusqlite::Result<bool> {
    let mut collected = tx.prepare_cached(COLLECTED)?;
    if collected.exists([workflow, user, event_id])? {
        return Ok(false);
    }
    let open = tx
        .prepare_cached(OPEN)?
        .query_row([workflow, user], |row| row.get(0))
        .optional()?;
    let digest: i64 = match open {
        Some(id) => id,
        None => {
            tx.prepare_cached(BEGIN)?
                .execute(params![workflow, user, due_at])?;
            tx.last_insert_rowid()
        }
    };
    let values = params![digest, workflow, user, event_id, occasion];
    tx.prepare_cached(COLLECT)?.execute(values)?;
    Ok(true)
}

const CLAIM: &str = "SELECT id, workflow, user_id FROM notification_digest
    WHERE sent_at IS NULL AND due_at <= ?1 ORDER BY due_at LIMIT 1";

/// The one whose reader was asked for, where nobody told it meanwhile.
const CLAIM_ASKED: &str = "SELECT id, workflow, user_id FROM notification_digest
    WHERE sent_at IS NULL AND due_at <= ?1 AND id = ?2";

/// A digest that was claimed.
pub(super) struct Claimed {
    id: i64,
    workflow: String,
    pub(super) user: String,
}

/// What the directory that is not ours said of whom a digest is for, or why it could not say.
pub(super) type Asked = (Claimed, Result<Page, String>);

/// The digest whose turn it is.
pub(super) fn claim(tx: &Transaction<'_>, asked: Option<&Asked>) -> Result<Option<Claimed>, BoardError> {
    let now = schema::now(tx)?;
    let read = |row: &Row<'_>| {
        Ok(Claimed {
            id: row.get(0)?,
            workflow: row.get(1)?,
            user: row.get(2)?,
        })
    };
    let claimed = match asked {
        None => tx.query_row(CLAIM, [now], read),
        Some((that, _)) => tx.query_row(CLAIM_ASKED, [now, that.id], read),
    };
    let claimed = claimed.optional();
    Ok(claimed.map_err(|error| failed(error, "taking the next digest"))?)
}

/// Makes the notification of one digest that is due, and answers its workflow; None when there is none. The inner error
/// is that of a digest that cannot be told as it is: it is put off in the same transaction, so that it holds up
/// nothing.
pub(super) fn tell(
    tx: &Transaction<'_>,
    lite: &Lite,
    asked: Option<&Asked>,
) -> Result<Result<Option<String>, BoardError>, BoardError> {
    let Some(claimed) = claim(tx, asked)? else {
        return Ok(Ok(None));
    };
    let now = schema::now(tx)?;
    let (told, reason) = match make(tx, lite, &claimed, asked) {
        Ok(()) => (Ok(Some(claimed.workflow.clone())), None),
        Err(error @ (BoardError::Occasion(_) | BoardError::Directory(_))) => {
            let reason = causes(&error);
            (Err(error), Some(reason))
        }
        Err(error) => return Err(error),
    };
    // A minute: soon after the configuration was mended, and not in a loop until then.
    let later = now.saturating_add(micros(Duration::from_secs(60)));
    let sql = "UPDATE notification_digest SET problem = ?2, sent_at = CASE WHEN ?2 IS NULL THEN ?3 END,
        due_at = CASE WHEN ?2 IS NULL THEN due_at ELSE ?4 END WHERE id = ?1";
    let closed = tx.execute(sql, params![claimed.id, reason, now, later]);
    closed.map_err(|error| failed(error, "closing a digest"))?;
    Ok(told)
}

/// The latest first.
const ITEMS: &str =
    "SELECT occasion FROM notification_digest_item WHERE digest_id = ?1 ORDER BY id DESC LIMIT ?2";

/// Everything that can refuse it comes before the first statement that writes. Where whoever it was for is gone, there
/// is nobody to tell.
fn make(
    tx: &Transaction<'_>,
    lite: &Lite,
    claimed: &Claimed,
    asked: Option<&Asked>,
) -> Result<(), BoardError> {
    let (texts, count) =
        items(tx, claimed.id).map_err(|error| failed(error, "reading what was collected"))?;
    let mut occasions = Vec::with_capacity(texts.len());
    for text in texts.iter().rev() {
        occasions.push(serde_json::from_str::<Occasion>(text).map_err(|error| unreadable(&error))?);
    }
    let to = To::User(claimed.user.clone());
    let asked = asked.map(|(_, page)| page.as_ref()).transpose();
    let asked = asked.map_err(|reason| BoardError::Directory(reason.as_str().into()))?;
    let (members, _) = directory::page(tx, (&to, None), asked)?;
    if occasions.is_empty() || members.is_empty() {
        return Ok(());
    }
    let of = (claimed.workflow.as_str(), claimed.id);
    let mut planner = Planner::digest(&lite.workflows, of, &occasions, count)?;
    let plan = planner.plan(&members)?;
    chunk::store(tx, lite, planner.subject(), &plan.notifications)?;
    Ok(())
}

/// The latest items of a digest, latest first, and how many it has.
fn items(tx: &Transaction<'_>, id: i64) -> rusqlite::Result<(Vec<String>, u64)> {
    let most = i64::try_from(EVENTS).unwrap_or(i64::MAX);
    let mut statement = tx.prepare_cached(ITEMS)?;
    let texts = statement.query_map([id, most], |row| row.get(0))?;
    let texts = texts.collect::<Result<_, _>>()?;
    let sql = "SELECT count(*) FROM notification_digest_item WHERE digest_id = ?1";
    let count: i64 = tx.query_row(sql, [id], |row| row.get(0))?;
    Ok((texts, count.unsigned_abs()))
}

/// How long until the next one is due.
pub(super) fn next(tx: &Transaction<'_>, _: &Lite) -> Result<Option<Duration>, BoardError> {
    let now = schema::now(tx)?;
    let sql = "SELECT min(due_at) FROM notification_digest WHERE sent_at IS NULL";
    let due: Option<i64> = tx
        .query_row(sql, [], |row| row.get(0))
        .map_err(|error| failed(error, "looking for the next digest"))?;
    let left = due.map(|due| u64::try_from(due.saturating_sub(now)).unwrap_or(0));
    Ok(left.map(Duration::from_micros))
}

fn unreadable(error: &serde_json::Error) -> BoardError {
    let (line, column) = (error.line(), error.column());
    BoardError::Occasion(format!(
        "a digest keeps an occasion that cannot be read (line {line}, column {column}): was it written by a later \
         version?"
    ))
}
