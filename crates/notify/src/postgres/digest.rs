//! Occasions that are collected for a while, and told as one notification.

use std::time::Duration;

use postrider_core::causes;
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use super::chunk::{self, Counts};
use super::{Pg, directory, failed};
use crate::people::Page;
use crate::plan::{EVENTS, Planner};
use crate::{BoardError, Member, Occasion, To};

/// Who has this event in a digest already, open or told.
const COLLECTED: &str = "SELECT user_id FROM {notification_digest_item}
    WHERE workflow = $1 AND event_id = $2 AND user_id = ANY($3)";

/// The open digests of these users, made where there is none. The update changes nothing and locks the row: whoever
/// tells the digest is waited for, and then another is begun.
const OPEN: &str = "INSERT INTO {notification_digest} AS d (workflow, user_id, due_at)
    SELECT $1, u, clock_timestamp() + make_interval(secs => $3) FROM unnest($2::text[]) u
    ON CONFLICT (workflow, user_id) WHERE sent_at IS NULL DO UPDATE SET due_at = d.due_at RETURNING id";

/// Somebody may have collected the same event while the digest was waited for.
const COLLECT: &str = "INSERT INTO {notification_digest_item} (digest_id, workflow, user_id, event_id, occasion)
    SELECT d.id, d.workflow, d.user_id, $2, $3 FROM {notification_digest} d WHERE d.id = ANY($1) ORDER BY d.user_id
    ON CONFLICT (workflow, user_id, event_id) DO NOTHING";

/// Collects an occasion for the members who want to hear of it.
pub(super) async fn collect(
    tx: &Transaction<'_>,
    pg: &Pg,
    (planner, occasion): (&Planner<'_>, &Occasion),
    window: Duration,
    members: &[Member],
) -> Result<Counts, BoardError> {
    let said = |error| failed(error, "collecting for a digest");
    let (workflow, event_id) = (&planner.workflow().name, &occasion.event_id);
    let wants = |member: &&Member| !planner.wanted(member).is_empty();
    let mut users: Vec<&str> = members
        .iter()
        .filter(wants)
        .map(|member| member.recipient.id.as_str())
        .collect();
    let (wanting, muted) = (users.len() as u64, (members.len() - users.len()) as u64);
    let values: [(&(dyn ToSql + Sync), Type); 3] = [
        (workflow, Type::TEXT),
        (event_id, Type::TEXT),
        (&users, Type::TEXT_ARRAY),
    ];
    let rows = tx
        .query_typed(&pg.names.sql(COLLECTED), &values)
        .await
        .map_err(said)?;
    let mut known: Vec<&str> = Vec::with_capacity(rows.len());
    for row in &rows {
        known.push(row.try_get(0).map_err(said)?);
    }
    known.sort_unstable();
    users.retain(|user| known.binary_search(user).is_err());
    let seconds = window.as_secs_f64().min(LONGEST);
    let values: [(&(dyn ToSql + Sync), Type); 3] = [
        (workflow, Type::TEXT),
        (&users, Type::TEXT_ARRAY),
        (&seconds, Type::FLOAT8),
    ];
    let rows = tx.query_typed(&pg.names.sql(OPEN), &values).await.map_err(said)?;
    let ids: Result<Vec<i64>, _> = rows.iter().map(|row| row.try_get(0).map_err(said)).collect();
    let text = serde_json::to_string(occasion).map_err(|error| unreadable(&error))?;
    let values: [(&(dyn ToSql + Sync), Type); 3] = [
        (&ids?, Type::INT8_ARRAY),
        (event_id, Type::TEXT),
        (&text, Type::TEXT),
    ];
    let collected = tx
        .execute_typed(&pg.names.sql(COLLECT), &values)
        .await
        .map_err(said)?;
    Ok(Counts {
        collected,
        duplicates: wanting.saturating_sub(collected),
        muted,
        ..Counts::default()
    })
}

/// A hundred years: an interval of PostgreSQL has an end.
const LONGEST: f64 = 3_162_240_000.0;

const CLAIM: &str = "SELECT id, workflow, user_id FROM {notification_digest}
    WHERE sent_at IS NULL AND due_at <= clock_timestamp() ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED";

/// The one whose reader was asked for, where nobody told it meanwhile.
const CLAIM_ASKED: &str = "SELECT id, workflow, user_id FROM {notification_digest}
    WHERE id = $1 AND sent_at IS NULL AND due_at <= clock_timestamp() FOR UPDATE";

/// A digest that was claimed.
pub(super) struct Claimed {
    id: i64,
    workflow: String,
    pub(super) user: String,
}

/// What the directory that is not ours said of whom a digest is for, or why it could not say.
pub(super) type Asked = (Claimed, Result<Page, String>);

/// The digest whose turn it is.
pub(super) async fn claim(
    tx: &Transaction<'_>,
    pg: &Pg,
    asked: Option<&Asked>,
) -> Result<Option<Claimed>, BoardError> {
    let said = |error| failed(error, "taking the next digest");
    let rows = match asked {
        None => tx.query_typed(&pg.names.sql(CLAIM), &[]).await,
        Some((that, _)) => {
            let values = [(&that.id as _, Type::INT8)];
            tx.query_typed(&pg.names.sql(CLAIM_ASKED), &values).await
        }
    };
    let rows = rows.map_err(said)?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    Ok(Some(Claimed {
        id: row.try_get(0).map_err(said)?,
        workflow: row.try_get(1).map_err(said)?,
        user: row.try_get(2).map_err(said)?,
    }))
}

/// Makes the notification of one digest that is due, and answers its workflow; None when there is none. The inner error
/// is that of a digest that cannot be told as it is: it is put off in the same transaction, so that it holds up
/// nothing.
pub(super) async fn tell(
    tx: &Transaction<'_>,
    pg: &Pg,
    asked: Option<&Asked>,
) -> Result<Result<Option<String>, BoardError>, BoardError> {
    let said = |error| failed(error, "closing a digest");
    let Some(claimed) = claim(tx, pg, asked).await? else {
        return Ok(Ok(None));
    };
    let (told, reason) = match make(tx, pg, &claimed, asked).await {
        Ok(()) => (Ok(Some(claimed.workflow.clone())), None),
        Err(error @ (BoardError::Occasion(_) | BoardError::Directory(_))) => {
            let reason = causes(&error);
            (Err(error), Some(reason))
        }
        Err(error) => return Err(error),
    };
    // A minute: soon after the configuration was mended, and not in a loop until then.
    let sql = "UPDATE {notification_digest} SET problem = $2,
        sent_at = CASE WHEN $2 IS NULL THEN clock_timestamp() END,
        due_at = CASE WHEN $2 IS NULL THEN due_at ELSE clock_timestamp() + interval '1 minute' END
        WHERE id = $1";
    let values: [(&(dyn ToSql + Sync), Type); 2] = [(&claimed.id, Type::INT8), (&reason, Type::TEXT)];
    tx.execute_typed(&pg.names.sql(sql), &values)
        .await
        .map_err(said)?;
    Ok(told)
}

/// The latest, and how many there are.
const ITEMS: &str = "SELECT occasion, count(*) OVER () FROM {notification_digest_item} WHERE digest_id = $1
    ORDER BY id DESC LIMIT $2";

/// Everything that can refuse it comes before the first statement that writes. Where nothing was collected, or whoever
/// it was for is gone, there is nobody to tell and nothing to say.
async fn make(
    tx: &Transaction<'_>,
    pg: &Pg,
    claimed: &Claimed,
    asked: Option<&Asked>,
) -> Result<(), BoardError> {
    let said = |error| failed(error, "reading what was collected");
    let most = i64::try_from(EVENTS).unwrap_or(i64::MAX);
    let values: [(&(dyn ToSql + Sync), Type); 2] = [(&claimed.id, Type::INT8), (&most, Type::INT8)];
    let rows = tx
        .query_typed(&pg.names.sql(ITEMS), &values)
        .await
        .map_err(said)?;
    let (mut occasions, mut count) = (Vec::with_capacity(rows.len()), 0_i64);
    for row in rows.iter().rev() {
        let text: &str = row.try_get(0).map_err(said)?;
        occasions.push(serde_json::from_str::<Occasion>(text).map_err(|error| unreadable(&error))?);
        count = row.try_get(1).map_err(said)?;
    }
    let to = To::User(claimed.user.clone());
    let asked = asked.map(|(_, page)| page.as_ref()).transpose();
    let asked = asked.map_err(|reason| BoardError::Directory(reason.as_str().into()))?;
    let (members, _) = directory::page(tx, pg, (&to, None), asked).await?;
    if occasions.is_empty() || members.is_empty() {
        return Ok(());
    }
    let of = (claimed.workflow.as_str(), claimed.id);
    let mut planner = Planner::digest(&pg.workflows, of, &occasions, count.unsigned_abs())?;
    let plan = planner.plan(&members)?;
    chunk::store(tx, pg, planner.subject(), &plan.notifications).await?;
    Ok(())
}

/// How long until the next one is due.
pub(super) async fn next(tx: &Transaction<'_>, pg: &Pg) -> Result<Option<Duration>, BoardError> {
    let said = |error| failed(error, "looking for the next digest");
    let sql = pg.names.sql(
        "SELECT (extract(epoch FROM min(due_at) - clock_timestamp()) * 1000000)::bigint
         FROM {notification_digest} WHERE sent_at IS NULL",
    );
    let rows = tx.query_typed(&sql, &[]).await.map_err(said)?;
    let micros = rows
        .first()
        .map(|row| row.try_get::<_, Option<i64>>(0))
        .transpose();
    let micros = micros.map_err(said)?.flatten();
    Ok(micros.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0))))
}

fn unreadable(error: &serde_json::Error) -> BoardError {
    let (line, column) = (error.line(), error.column());
    BoardError::Occasion(format!(
        "a digest keeps an occasion that cannot be read (line {line}, column {column}): was it written by a later \
         version?"
    ))
}
