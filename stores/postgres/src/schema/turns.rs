//! Waiting for locks without making others wait: relays and services are at work while tables are changed.

use std::time::Duration;

use postrider_core::{StoreError, StoreErrorKind, inert};
use tokio::time::Instant;
use tokio_postgres::error::SqlState;

use super::PATIENCE;
use crate::PgStore;
use crate::error::{Error, Result};
use crate::operator::Work;

/// Whoever comes while a lock is waited for waits behind it, relays and services among them. So it is waited for a
/// moment only, and tried again.
const MOMENT: &str = "500ms";
/// How long others have the tables for themselves between two attempts.
const PAUSE: Duration = Duration::from_secs(1);
/// How long it is tried.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);
/// How often it is said who is waited for.
const SAY_EVERY: u32 = 10;

const DOING: &str = "making the outbox tables";

/// Takes the steps that are missing, and tries again while somebody holds what they need.
pub(super) async fn patiently(store: &PgStore) -> Result<Vec<u32>, StoreError> {
    let begun = Instant::now();
    for attempt in 0.. {
        let taken = store.operate(DOING, PATIENCE, |work| async move { super::up(&work).await });
        let error = match taken.await {
            Err(error) if error.kind() == StoreErrorKind::Busy => error,
            done => return done,
        };
        let holder = store
            .operate(
                "looking who holds the outbox tables",
                PAUSE * 10,
                |work| async move { holder(&work).await },
            )
            .await?;
        if begun.elapsed() >= GIVE_UP_AFTER {
            return Err(in_the_way(error, holder.as_deref()));
        }
        if attempt % SAY_EVERY == 0 {
            let holder = holder.as_deref().unwrap_or("somebody who has gone meanwhile");
            tracing::warn!("waiting for the outbox tables, which are in use by {holder}");
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(Vec::new())
}

/// Of several processes one migrates, and the others wait and find nothing left to do.
pub(super) async fn take_turns(work: &Work) -> Result<()> {
    work.client()
        .batch_execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '60s'")
        .await?;
    let name = work.sql("{outbox}");
    let sql = "SELECT pg_advisory_xact_lock(hashtextextended('postrider ' || $1, 0))";
    let turn = work.client().execute(sql, &[&name]).await;
    turn.map_err(|error| {
        held(
            error,
            "another process has been migrating these tables for a minute: wait for its end",
        )
    })?;
    let moment = format!("SET LOCAL lock_timeout = '{MOMENT}'");
    Ok(work.client().batch_execute(&moment).await?)
}

/// Nothing may be inserted between the count and the removal. Every service that produces waits behind this, so it is
/// not tried again.
pub(super) async fn keep_out(work: &Work) -> Result<()> {
    let sql = work.sql("SET LOCAL lock_timeout = '3s'; LOCK TABLE {outbox} IN ACCESS EXCLUSIVE MODE");
    let locked = work.client().batch_execute(&sql).await;
    locked.map_err(|error| held(error, "the outbox table is in use: stop the relays and the services that produce, end \
        transactions that are open (`SELECT pid, state, query FROM pg_stat_activity WHERE xact_start IS NOT NULL` \
        shows them), and try again"))
}

/// Says what to do about a lock that was not to be had.
fn held(error: tokio_postgres::Error, text: &str) -> Error {
    match error.code() {
        Some(state) if *state == SqlState::LOCK_NOT_AVAILABLE => {
            Error::Store(StoreError::new(StoreErrorKind::Busy, text).with_source(error))
        }
        _ => Error::Postgres(error),
    }
}

fn in_the_way(error: StoreError, holder: Option<&str>) -> StoreError {
    let text = format!(
        "the outbox tables are in use by {}; nothing was changed",
        holder.unwrap_or("others, one after the other")
    );
    StoreError::new(StoreErrorKind::Busy, text)
        .with_source(error)
        .with_advice(
            "wait for its end, or end it with pg_terminate_backend (a prepared transaction with ROLLBACK PREPARED), \
             and migrate again",
        )
}

/// The oldest transaction that has to do with what a step changes, in words. What it does may hold data, so that is not
/// told; state and age are hidden from those who may not see them.
const HOLDER: &str = "SELECT l.pid, a.usename::text, a.application_name, a.state,
         extract(epoch FROM clock_timestamp() - a.xact_start)::bigint, l.relation::regclass::text
     FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
     WHERE l.locktype = 'relation' AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
       AND l.relation IN (to_regclass('{outbox_parked}'), to_regclass('{outbox_events}'), to_regclass('{outbox_sent}'),
           to_regclass('{outbox_parked_status}'), to_regclass('{outbox_control}'), to_regclass('{outbox_audit}'))
     ORDER BY a.xact_start, l.pid LIMIT 1";

async fn holder(work: &Work) -> Result<Option<String>> {
    let Some(row) = work.client().query_opt(&work.sql(HOLDER), &[]).await? else {
        return Ok(None);
    };
    let table: String = row.try_get(5)?;
    let Some(pid) = row.try_get::<_, Option<i32>>(0)? else {
        return Ok(Some(format!(
            "a prepared transaction, which has a lock on {table}"
        )));
    };
    let text = |index| -> Result<String> {
        let text: Option<String> = row.try_get(index)?;
        Ok(inert(text.as_deref().unwrap_or("unknown"), 60).into())
    };
    let (user, application, state) = (text(1)?, text(2)?, text(3)?);
    let age = match row.try_get::<_, Option<i64>>(4)? {
        Some(seconds) => format!(", its transaction {seconds}s old"),
        None => String::new(),
    };
    Ok(Some(format!(
        "process {pid} of the server (user {user}, application {application:?}, state {state}{age}), which has a lock \
         on {table}"
    )))
}
