//! Occasions that are collected for a while, and told as one notification.

use std::time::Duration;

use postrider_core::causes;
use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::{Lite, attempt, chunk, directory, failed, micros, schema};
use crate::board::work::{Asked, Counts, Due, LEFT_TO_OTHERS};
use crate::plan::Planner;
use crate::plan::digest::{Collected, EVENTS, EVENTS_BYTES};
use crate::{BoardError, Member, Occasion};

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
    let (text, members) = planner.collected(occasion, members)?;
    let due_at = schema::now(tx)?.saturating_add(micros(window));
    let mut counts = Counts {
        looked_at: members.len(),
        ..Counts::default()
    };
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
    WHERE sent_at IS NULL AND due_at <= ?1 AND (workflow IN (SELECT value FROM json_each(?2)) OR due_at < ?3)
    ORDER BY due_at LIMIT 1";

/// The one whose reader was asked for, where nobody told it meanwhile.
const CLAIM_ASKED: &str = "SELECT id, workflow, user_id FROM notification_digest
    WHERE sent_at IS NULL AND due_at <= ?1 AND id = ?2";

/// The digest whose turn it is.
pub(super) fn claim(
    tx: &Transaction<'_>,
    lite: &Lite,
    asked: Option<&Asked<Due>>,
) -> Result<Option<Due>, BoardError> {
    let now = schema::now(tx)?;
    let read = |row: &Row<'_>| {
        Ok(Due {
            id: row.get(0)?,
            workflow: row.get(1)?,
            user: row.get(2)?,
        })
    };
    let due = match asked {
        None => {
            let left = now.saturating_sub(micros(LEFT_TO_OTHERS));
            tx.query_row(CLAIM, params![now, lite.known(), left], read)
        }
        Some(Asked { of, .. }) => tx.query_row(CLAIM_ASKED, [now, of.id], read),
    };
    let due = due.optional();
    Ok(due.map_err(|error| failed(error, "taking the next digest"))?)
}

/// Makes the notification of one digest that is due, and answers its workflow; None when there is none. The inner error
/// is that of a digest that cannot be told as it is: it is put off in the same transaction, so that it holds up
/// nothing.
pub(super) fn tell(
    tx: &Transaction<'_>,
    lite: &Lite,
    asked: Option<&Asked<Due>>,
) -> Result<Result<Option<String>, BoardError>, BoardError> {
    let Some(due) = claim(tx, lite, asked)? else {
        return Ok(Ok(None));
    };
    let made = attempt(tx, || make(tx, lite, &due, asked))?;
    let now = schema::now(tx)?;
    let closed = match &made {
        Ok(()) => tx
            .execute(FORGET, [due.id])
            .and_then(|_| tx.execute(TOLD, [due.id, now])),
        // A minute: soon after the configuration was mended, and not in a loop until then.
        Err(error) => {
            let later = now.saturating_add(micros(Duration::from_secs(60)));
            tx.execute(PUT_OFF, params![due.id, causes(error), later])
        }
    };
    closed.map_err(|error| failed(error, "closing a digest"))?;
    Ok(made.map(|()| Some(due.workflow)))
}

/// Of what was told only the ids are needed any more.
const FORGET: &str = "UPDATE notification_digest_item SET occasion = '' WHERE digest_id = ?1";

const TOLD: &str = "UPDATE notification_digest SET problem = NULL, sent_at = ?2 WHERE id = ?1";

const PUT_OFF: &str = "UPDATE notification_digest SET problem = ?2, due_at = ?3 WHERE id = ?1";

/// The latest, as long as those before are not too much, and how many there are.
const ITEMS: &str = "SELECT occasion, (SELECT count(*) FROM notification_digest_item WHERE digest_id = ?1)
    FROM (
        SELECT id, occasion, sum(octet_length(occasion)) OVER (ORDER BY id DESC) - octet_length(occasion) AS before
        FROM (
            SELECT id, occasion FROM notification_digest_item WHERE digest_id = ?1 ORDER BY id DESC LIMIT ?2
        ) latest
    ) summed WHERE before < ?3 ORDER BY id DESC";

/// Where nothing was collected, or whoever it was for is gone, there is nobody to tell and nothing to say.
fn make(tx: &Transaction<'_>, lite: &Lite, due: &Due, asked: Option<&Asked<Due>>) -> Result<(), BoardError> {
    let collected = collected(tx, due.id).map_err(|error| failed(error, "reading what was collected"))?;
    let asked = asked.map(Asked::page).transpose()?;
    let (members, _) = directory::page(tx, (&due.to(), None), asked)?;
    if collected.texts.is_empty() || members.is_empty() {
        return Ok(());
    }
    let (planner, plan) = Planner::tell(&lite.means.workflows, due, collected, &members)?;
    let counts = chunk::store(tx, lite, planner.subject(), &plan.notifications)?;
    planner.told(&counts)
}

fn collected(tx: &Transaction<'_>, digest: i64) -> rusqlite::Result<Collected> {
    let mut statement = tx.prepare_cached(ITEMS)?;
    let mut rows = statement.query([digest, EVENTS, EVENTS_BYTES])?;
    let mut collected = Collected::default();
    while let Some(row) = rows.next()? {
        collected.texts.push(row.get(0)?);
        collected.count = row.get(1)?;
    }
    Ok(collected)
}

/// How long until the next one is due.
pub(super) fn next(tx: &Transaction<'_>, lite: &Lite) -> Result<Option<Duration>, BoardError> {
    let now = schema::now(tx)?;
    let sql = "SELECT due_at FROM notification_digest
        WHERE sent_at IS NULL AND workflow IN (SELECT value FROM json_each(?1)) ORDER BY due_at LIMIT 1";
    let due: Option<i64> = tx
        .query_row(sql, [lite.known()], |row| row.get(0))
        .optional()
        .map_err(|error| failed(error, "looking for the next digest"))?;
    let left = due.map(|due| u64::try_from(due.saturating_sub(now)).unwrap_or(0));
    Ok(left.map(Duration::from_micros))
}
