//! The same for services that use `sqlx`: recording in its transactions, and effects on a pool of it.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use postrider_core::{
    Applied, ApplyError, BoxFuture, Effects, HandlerError, Received, Recorded, StoreError, StoreErrorKind,
    Turns, refuse_unfit,
};
use sqlx::{AssertSqlSafe, PgPool, Postgres, Row, Transaction};
use tokio_postgres::error::SqlState;

use super::effects::{Failed, entries};
use super::record::{self, Entry};
use super::{Inbox, MAKE_IT, once};
use crate::error::kind_of_state;

/// What is called for each event, with the transaction to work in; [`sqlx_handler`] makes one of a closure.
pub type SqlxPgHandler = dyn for<'a> Fn(
        &'a Received,
        &'a mut Transaction<'static, Postgres>,
    ) -> BoxFuture<'a, Result<(), HandlerError>>
    + Send
    + Sync;

/// A handler of a closure that gives a boxed future. It must not end the transaction.
///
/// ```
/// let charge = postrider_postgres::sqlx_handler(|event, tx| {
///     Box::pin(async move {
///         sqlx::query("INSERT INTO charges (order_id) VALUES ($1)")
///             .bind(event.aggregate_id())
///             .execute(&mut **tx)
///             .await?;
///         Ok(())
///     })
/// });
/// # let _ = charge;
/// ```
pub fn sqlx_handler<F>(handle: F) -> Arc<SqlxPgHandler>
where
    F: for<'a> Fn(
            &'a Received,
            &'a mut Transaction<'static, Postgres>,
        ) -> BoxFuture<'a, Result<(), HandlerError>>
        + Send
        + Sync
        + 'static,
{
    Arc::new(handle)
}

impl Inbox {
    /// Records events in a transaction of `sqlx`; as [`Inbox::first_all`] does.
    pub async fn first_all_sqlx(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        consumer: &str,
        events: &[(&str, Option<&str>)],
    ) -> Result<Vec<Recorded>, StoreError> {
        refuse_unfit(events)?;
        let entries: Vec<Entry<'_>> = events.iter().map(|&(id, hash)| Entry { id, hash }).collect();
        self.record_sqlx(tx, consumer, &entries)
            .await
            .map_err(|error| explain(error, "recording an event in the inbox"))
    }

    async fn record_sqlx(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        consumer: &str,
        entries: &[Entry<'_>],
    ) -> Result<Vec<Recorded>, sqlx::Error> {
        let mut sorted: Vec<&Entry<'_>> = entries.iter().collect();
        sorted.sort_by_key(|entry| entry.id);
        let ids: Vec<&str> = sorted.iter().map(|entry| entry.id).collect();
        let hashes: Vec<Option<&str>> = sorted.iter().map(|entry| entry.hash).collect();
        let rows = sqlx::query(AssertSqlSafe(self.tables.sql(record::INSERT)))
            .bind(consumer)
            .bind(ids)
            .bind(hashes)
            .fetch_all(&mut **tx)
            .await?;
        let mut inserted = HashSet::new();
        for row in &rows {
            inserted.insert(row.try_get::<&str, _>(0)?);
        }
        let (mut marks, compared) = record::marks(entries, &mut inserted);
        if !compared.is_empty() {
            let rows = sqlx::query(AssertSqlSafe(self.tables.sql(record::RECORDED)))
                .bind(consumer)
                .bind(compared)
                .fetch_all(&mut **tx)
                .await?;
            let mut hashes: HashMap<&str, Option<String>> = HashMap::new();
            for row in &rows {
                hashes.insert(row.try_get(0)?, row.try_get(1)?);
            }
            record::compare(entries, &hashes, &mut marks);
        }
        Ok(marks)
    }
}

/// A consumer's database behind a pool of `sqlx`.
///
/// ```no_run
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = sqlx::PgPool::connect("postgres://shop@127.0.0.1/shop").await?;
/// let effects = postrider_postgres::SqlxPgEffects::new(pool, postrider_postgres::Inbox::default());
/// # let _ = effects;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SqlxPgEffects {
    pool: PgPool,
    inbox: Inbox,
}

impl fmt::Debug for SqlxPgEffects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlxPgEffects")
            .field("inbox", &self.inbox)
            .finish_non_exhaustive()
    }
}

impl SqlxPgEffects {
    /// Effects on the connections of a pool, which should have one for each delivery that is worked on at a time.
    pub fn new(pool: PgPool, inbox: Inbox) -> Self {
        Self { pool, inbox }
    }

    async fn attempt(
        &self,
        consumer: &str,
        deliveries: &[Received],
        handler: &SqlxPgHandler,
    ) -> Result<Vec<Applied>, Failed> {
        let failed = |error| store_failed(error, "letting an event take effect");
        let entries = entries(deliveries).map_err(Failed::refused)?;
        let mut tx = begin(self.pool.clone()).await.map_err(failed)?;
        let marks = self.inbox.record_sqlx(&mut tx, consumer, &entries).await;
        let applied = Recorded::applied(marks.map_err(failed)?).map_err(Failed::refused)?;
        for (at, (delivery, mark)) in deliveries.iter().zip(&applied).enumerate() {
            if *mark == Applied::Now {
                let handled = handler(delivery, &mut tx).await;
                handled.map_err(|error| handler_failed(at, error))?;
            }
        }
        // As in `once::commit`: the driver would take the end of a transaction that was undone for a commit.
        let ended = match sqlx::query(once::BEFORE_COMMIT).execute(&mut *tx).await {
            Ok(_) => tx.commit().await,
            Err(error) => Err(error),
        };
        match ended {
            Ok(()) => Ok(applied),
            Err(error) => {
                let state = state(&error);
                let known = state.as_deref().map(SqlState::from_code);
                Err(match once::undone(known.as_ref()) {
                    Some(undone) => Failed::undone(&applied, &undone),
                    None if state.is_some_and(|state| state.starts_with("23")) => {
                        Failed::at_the_end(&applied, error.into())
                    }
                    None => failed(error),
                })
            }
        }
    }
}

impl Effects for SqlxPgEffects {
    type Handler = SqlxPgHandler;

    fn apply(
        &self,
        consumer: Arc<str>,
        deliveries: Arc<[Received]>,
        handler: Arc<SqlxPgHandler>,
    ) -> BoxFuture<'_, Result<Vec<Applied>, ApplyError>> {
        Box::pin(async move {
            if deliveries.is_empty() {
                return Ok(Vec::new());
            }
            let mut turns = Turns::default();
            loop {
                match self.attempt(&consumer, &deliveries, &*handler).await {
                    Ok(applied) => return Ok(applied),
                    Err(failed) if failed.is_passing && once::may_take(&mut turns).await => {}
                    Err(failed) => return Err(failed.error),
                }
            }
        })
    }
}

/// Begins on a task of its own, which goes on when nobody waits any more. The driver takes a transaction for open only
/// when it has heard so: broken off before that, the connection would go back to the pool inside of one, and whatever
/// the next user writes on it would be lost.
async fn begin(pool: PgPool) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
    match tokio::spawn(async move { pool.begin().await }).await {
        Ok(begun) => begun,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(sqlx::Error::PoolClosed),
        },
    }
}

fn store_failed(error: sqlx::Error, doing: &str) -> Failed {
    let is_passing = is_passing(&error);
    Failed {
        is_passing,
        ..Failed::store(explain(error, doing))
    }
}

fn handler_failed(at: usize, error: HandlerError) -> Failed {
    let behind = error.source().and_then(of_sqlx);
    let (kind, passing) = (behind.map(kind), behind.is_some_and(is_passing));
    Failed::handler(at, error, kind, passing)
}

/// The error of `sqlx` behind another.
fn of_sqlx<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a sqlx::Error> {
    once::chain(error).find_map(|one| one.downcast_ref())
}

fn state(error: &sqlx::Error) -> Option<String> {
    let said = error.as_database_error()?;
    said.code().map(std::borrow::Cow::into_owned)
}

fn is_passing(error: &sqlx::Error) -> bool {
    matches!(state(error).as_deref(), Some("40001" | "40P01" | "55P03"))
}

fn kind(error: &sqlx::Error) -> StoreErrorKind {
    match (error, state(error)) {
        (_, Some(state)) => kind_of_state(&state),
        (sqlx::Error::PoolTimedOut, None) => StoreErrorKind::Busy,
        (sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::PoolClosed, None) => {
            StoreErrorKind::Unreachable
        }
        _ => StoreErrorKind::Other,
    }
}

fn explain(error: sqlx::Error, doing: &str) -> StoreError {
    let kind = kind(&error);
    let error = StoreError::new(kind, format!("{doing} failed")).with_source(error);
    match kind {
        StoreErrorKind::Schema => error.with_advice(MAKE_IT),
        _ => error,
    }
}
