//! Occasions that are collected for a while, and told as one notification.

use std::time::Duration;

use postrider_core::{StoreError, causes};
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use super::{Pg, attempt, chunk, directory, failed};
use crate::board::work::{Asked, Counts, Due, LEFT_TO_OTHERS};
use crate::plan::Planner;
use crate::plan::digest::{Collected, EVENTS, EVENTS_BYTES};
use crate::{BoardError, Member, Occasion};

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
    let (text, members) = planner.collected(occasion, members)?;
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
        looked_at: members.len(),
        ..Counts::default()
    })
}

/// A hundred years: an interval of PostgreSQL has an end.
const LONGEST: f64 = 3_162_240_000.0;

const CLAIM: &str = "SELECT id, workflow, user_id FROM {notification_digest}
    WHERE sent_at IS NULL AND due_at <= clock_timestamp()
        AND (workflow = ANY ($1) OR due_at < clock_timestamp() - $2 * interval '1 second')
    ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED";

/// The one whose reader was asked for, where nobody told it meanwhile.
const CLAIM_ASKED: &str = "SELECT id, workflow, user_id FROM {notification_digest}
    WHERE id = $1 AND sent_at IS NULL AND due_at <= clock_timestamp() FOR UPDATE";

/// The digest whose turn it is.
pub(super) async fn claim(
    tx: &Transaction<'_>,
    pg: &Pg,
    asked: Option<&Asked<Due>>,
) -> Result<Option<Due>, BoardError> {
    let said = |error| failed(error, "taking the next digest");
    let rows = match asked {
        None => {
            let (known, left) = (pg.means.workflows.names(), LEFT_TO_OTHERS.as_secs_f64());
            let values: [(&(dyn ToSql + Sync), Type); 2] =
                [(&known, Type::TEXT_ARRAY), (&left, Type::FLOAT8)];
            tx.query_typed(&pg.names.sql(CLAIM), &values).await
        }
        Some(Asked { of, .. }) => {
            tx.query_typed(&pg.names.sql(CLAIM_ASKED), &[(&of.id, Type::INT8)])
                .await
        }
    };
    let rows = rows.map_err(said)?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    Ok(Some(Due {
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
    asked: Option<&Asked<Due>>,
) -> Result<Result<Option<String>, BoardError>, BoardError> {
    let Some(due) = claim(tx, pg, asked).await? else {
        return Ok(Ok(None));
    };
    let made = attempt(tx, make(tx, pg, &due, asked)).await?;
    let closed = match &made {
        Ok(()) => {
            tx.execute_typed(&pg.names.sql(TOLD), &[(&due.id, Type::INT8)])
                .await
        }
        Err(error) => {
            let reason = causes(error);
            let values: [(&(dyn ToSql + Sync), Type); 2] = [(&due.id, Type::INT8), (&reason, Type::TEXT)];
            tx.execute_typed(&pg.names.sql(PUT_OFF), &values).await
        }
    };
    closed.map_err(|error| failed(error, "closing a digest"))?;
    Ok(made.map(|()| Some(due.workflow)))
}

/// Of what was told only the ids are needed any more.
const TOLD: &str = "WITH items AS (UPDATE {notification_digest_item} SET occasion = '' WHERE digest_id = $1)
    UPDATE {notification_digest} SET problem = NULL, sent_at = clock_timestamp() WHERE id = $1";

/// A minute: soon after the configuration was mended, and not in a loop until then.
const PUT_OFF: &str = "UPDATE {notification_digest}
    SET problem = $2, due_at = clock_timestamp() + interval '1 minute' WHERE id = $1";

/// The latest, as long as those before are not too much, and how many there are. What is left out is not fetched from
/// where the server keeps long texts.
const ITEMS: &str = "SELECT occasion, (SELECT count(*) FROM {notification_digest_item} WHERE digest_id = $1)
    FROM (
        SELECT id, occasion, sum(octet_length(occasion)) OVER (ORDER BY id DESC) - octet_length(occasion) AS before
        FROM (
            SELECT id, occasion FROM {notification_digest_item} WHERE digest_id = $1 ORDER BY id DESC LIMIT $2
        ) latest
    ) summed WHERE before < $3 ORDER BY id DESC";

/// Where nothing was collected, or whoever it was for is gone, there is nobody to tell and nothing to say.
async fn make(
    tx: &Transaction<'_>,
    pg: &Pg,
    due: &Due,
    asked: Option<&Asked<Due>>,
) -> Result<(), BoardError> {
    let collected = collected(tx, pg, due.id).await?;
    let asked = asked.map(Asked::page).transpose()?;
    let (members, _) = directory::page(tx, pg, (&due.to(), None), asked).await?;
    if collected.texts.is_empty() || members.is_empty() {
        return Ok(());
    }
    let (planner, plan) = Planner::tell(&pg.means.workflows, due, collected, &members)?;
    let counts = chunk::store(tx, pg, planner.subject(), &plan.notifications).await?;
    planner.told(&counts)
}

async fn collected(tx: &Transaction<'_>, pg: &Pg, digest: i64) -> Result<Collected, StoreError> {
    let said = |error| failed(error, "reading what was collected");
    let values: [(&(dyn ToSql + Sync), Type); 3] = [
        (&digest, Type::INT8),
        (&EVENTS, Type::INT8),
        (&EVENTS_BYTES, Type::INT8),
    ];
    let rows = tx
        .query_typed(&pg.names.sql(ITEMS), &values)
        .await
        .map_err(said)?;
    let mut collected = Collected::default();
    for row in &rows {
        collected.texts.push(row.try_get(0).map_err(said)?);
        collected.count = row.try_get(1).map_err(said)?;
    }
    Ok(collected)
}

/// How long until the next one is due.
pub(super) async fn next(tx: &Transaction<'_>, pg: &Pg) -> Result<Option<Duration>, BoardError> {
    let said = |error| failed(error, "looking for the next digest");
    let sql = pg.names.sql(
        "SELECT (extract(epoch FROM due_at - clock_timestamp()) * 1000000)::bigint FROM {notification_digest}
         WHERE sent_at IS NULL AND workflow = ANY ($1) ORDER BY due_at LIMIT 1",
    );
    let known = pg.means.workflows.names();
    let rows = tx
        .query_typed(&sql, &[(&known, Type::TEXT_ARRAY)])
        .await
        .map_err(said)?;
    let micros = rows
        .first()
        .map(|row| row.try_get::<_, Option<i64>>(0))
        .transpose();
    let micros = micros.map_err(said)?.flatten();
    Ok(micros.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0))))
}
