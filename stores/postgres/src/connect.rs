//! Connections that come back: each is opened when it is needed, checked, and replaced once it is broken.
//!
//! An outbox has three of them: one reads, one writes, one is for operators. A dropped call never leaves a transaction
//! open: the relay's calls are single statements, and where a call is more than that, behind a pooler and for operators, a
//! guard ends the whole session when it is dropped.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use postrider_core::{StoreError, StoreErrorKind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::config::PgOptions;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::tls::Address;

/// The pause after the first failure; it doubles up to [`PAUSE_MAX`], so that publishing resumes within seconds.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How long a server may take to be told that nobody waits for its answer any more.
const CANCEL_WITHIN: Duration = Duration::from_secs(5);

/// What a connection is for; it decides how the planner may be turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Reads and settles: statements whose plans are fixed, whatever the statistics say.
    Relay,
    /// What operators ask: any statement.
    Operator,
}

/// One live connection.
pub(crate) struct Session {
    pub(crate) client: Client,
    /// Counts notifications; closed when the connection ends.
    pub(crate) rings: watch::Receiver<u64>,
    /// No two sessions of this process have the same.
    pub(crate) id: u64,
    /// Set when a transaction may be open on it: it is never given out again.
    abandoned: AtomicBool,
    /// The task that has the socket.
    task: AbortHandle,
    /// How another connection to the same server is protected, to cancel a statement.
    tls: Option<MakeRustlsConnect>,
    prepared: Mutex<HashMap<&'static str, Statement>>,
    /// Behind a pooler every transaction may be on another session of the server: nothing is prepared or set there, and
    /// these settings go with every call.
    local: Option<String>,
    /// Whose transaction it is, behind a pooler.
    turn: tokio::sync::Mutex<()>,
    types: Mutex<HashMap<&'static str, Vec<Type>>>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "session {}", self.id)
    }
}

impl Session {
    /// Runs a statement that is asked often.
    pub(crate) async fn ask(
        &self,
        name: &'static str,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        let Some(local) = &self.local else {
            let statement = self.prepare(name, sql).await?;
            return Ok(self.client.query(&statement, parameters).await?);
        };
        let _turn = self.turn.lock().await;
        if !self.is_good() {
            let text = "the connection was given up by the call before this one";
            return Err(Error::new(StoreErrorKind::Unreachable, text));
        }
        let mut open = Unfinished {
            session: self,
            finished: false,
        };
        self.client.batch_execute(&format!("BEGIN; {local}")).await?;
        let answer = self.ask_unnamed(name, sql, parameters).await;
        let end = if answer.is_ok() { "COMMIT" } else { "ROLLBACK" };
        self.client.batch_execute(end).await?;
        open.finished = true;
        answer
    }

    /// Without a name nothing stays behind on the server. The types are learned once, in a transaction of the caller.
    async fn ask_unnamed(
        &self,
        name: &'static str,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        let known = self.types().get(name).cloned();
        let types = match known {
            Some(types) => types,
            None => {
                let types = self.client.prepare(sql).await?.params().to_vec();
                self.types().insert(name, types.clone());
                types
            }
        };
        let typed: Vec<_> = parameters.iter().copied().zip(types).collect();
        Ok(self.client.query_typed(sql, &typed).await?)
    }

    /// Whether two calls may be under way at a time.
    pub(crate) fn is_pipelined(&self) -> bool {
        self.local.is_none()
    }

    /// The settings that a transaction on this session begins with.
    pub(crate) fn local(&self) -> &str {
        self.local.as_deref().unwrap_or_default()
    }

    fn types(&self) -> std::sync::MutexGuard<'_, HashMap<&'static str, Vec<Type>>> {
        self.types.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares a statement once.
    pub(crate) async fn prepare(&self, name: &'static str, sql: &str) -> Result<Statement> {
        let known = self.statements().get(name).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await?;
        self.statements().insert(name, statement.clone());
        Ok(statement)
    }

    /// Closes the connection now and not with the last who holds it: a transaction may be open on it, whose locks others
    /// wait for. A server that is busy with a statement does not look at its socket, so it is told to stop as well.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
        self.task.abort();
        let (cancel, tls) = (self.client.cancel_token(), self.tls.clone());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            // Nothing depends on it: the limits of the session end the statement too, only later.
            let _ = match tls {
                Some(tls) => timeout(CANCEL_WITHIN, cancel.cancel_query(tls)).await,
                None => timeout(CANCEL_WITHIN, cancel.cancel_query(NoTls)).await,
            };
        });
    }

    fn is_good(&self) -> bool {
        !self.client.is_closed() && !self.abandoned.load(Ordering::Relaxed)
    }

    fn statements(&self) -> std::sync::MutexGuard<'_, HashMap<&'static str, Statement>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the session out of use when a call ends with its transaction open, a dropped call included.
struct Unfinished<'a> {
    session: &'a Session,
    finished: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.session.abandon();
        }
    }
}

/// A place for one connection.
#[derive(Debug)]
pub(crate) struct Link {
    address: Address,
    role: Role,
    /// A pooler stands between, which gives every transaction to another session.
    pooled: bool,
    limit: Duration,
    identity: Arc<Identity>,
    state: tokio::sync::Mutex<State>,
    /// Whose session it is, where more than one has business with it that must not be mixed.
    pub(crate) turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    session: Option<Arc<Session>>,
    failures: u32,
    not_before: Option<Instant>,
}

impl Link {
    pub(crate) fn new(address: Address, role: Role, options: &PgOptions, identity: Arc<Identity>) -> Self {
        Self {
            address,
            role,
            pooled: false,
            limit: options.statement_timeout,
            identity,
            state: tokio::sync::Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// The same behind a pooler.
    pub(crate) fn behind_pooler(mut self, pooled: bool) -> Self {
        self.pooled = pooled;
        self
    }

    /// The live session, or a new one. After failures the next attempt waits: a server that is starting up must not be
    /// met by a storm.
    pub(crate) async fn session(&self, doing: &str) -> Result<Arc<Session>, StoreError> {
        let mut state = self.state.lock().await;
        if let Some(session) = state.session.as_ref().filter(|session| session.is_good()) {
            return Ok(Arc::clone(session));
        }
        state.session = None;
        if let Some(at) = state.not_before {
            tokio::time::sleep_until(at).await;
        }
        match open(self).await {
            Ok(session) => {
                let session = Arc::new(session);
                *state = State {
                    session: Some(Arc::clone(&session)),
                    ..State::default()
                };
                Ok(session)
            }
            Err(error) => {
                state.failures = state.failures.saturating_add(1);
                state.not_before = Some(Instant::now() + pause(state.failures));
                Err(error.while_doing(doing))
            }
        }
    }

    /// Runs a call on the live session, within a limit, and drops the session when it may be broken.
    pub(crate) async fn run<T, F, Fut>(
        &self,
        doing: &'static str,
        limit: Duration,
        call: F,
    ) -> Result<T, StoreError>
    where
        F: FnOnce(Arc<Session>) -> Fut,
        Fut: Future<Output = Result<T>> + Send,
    {
        let session = self.session(doing).await?;
        let id = session.id;
        let outcome = match timeout(limit, call(session)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::new(
                StoreErrorKind::Unreachable,
                format!("{doing}: the database did not answer within {limit:?}"),
            )),
        };
        match outcome {
            Ok(answer) => Ok(answer),
            Err(error) => {
                let keep = matches!(
                    error.kind(),
                    StoreErrorKind::Busy | StoreErrorKind::Full | StoreErrorKind::Denied
                );
                if !keep {
                    self.drop_session(id).await;
                }
                Err(error.while_doing(doing))
            }
        }
    }

    /// The limit of an ordinary call: the server's own, and a little for the way.
    pub(crate) fn limit(&self) -> Duration {
        self.limit + Duration::from_secs(1)
    }

    async fn drop_session(&self, id: u64) {
        let mut state = self.state.lock().await;
        if state.session.as_ref().is_some_and(|session| session.id == id) {
            state.session = None;
        }
    }
}

/// Doubles with every failure, and differs from relay to relay.
fn pause(failures: u32) -> Duration {
    let longest = PAUSE_MIN
        .saturating_mul(1 << failures.min(16).saturating_sub(1))
        .min(PAUSE_MAX);
    let jitter = u32::from(uuid::Uuid::new_v4().as_bytes()[0]);
    longest / 2 + longest / 2 * jitter / 255
}

async fn open(link: &Link) -> Result<Session> {
    let address = &link.address;
    let attempt = async {
        let mut session = match &address.tls {
            Some(tls) => {
                let (client, connection) = address.config.connect(tls.clone()).await?;
                drive(client, connection)
            }
            None => {
                let (client, connection) = address.config.connect(NoTls).await?;
                drive(client, connection)
            }
        };
        session.tls.clone_from(&address.tls);
        check(&session).await?;
        link.identity.look(&session).await;
        let settings = settings(link.role, link.limit);
        match link.pooled {
            true => session.local = Some(settings.replace("SET ", "SET LOCAL ")),
            false => session.client.batch_execute(&settings).await?,
        }
        Ok(session)
    };
    // The driver's own limit is for the handshake of TCP only; a server that accepts and then says nothing, or says no more
    // after the handshake, needs this one.
    let wait = address
        .config
        .get_connect_timeout()
        .copied()
        .unwrap_or(link.limit)
        * 2;
    timeout(wait, attempt).await.unwrap_or_else(|_| {
        Err(Error::new(
            StoreErrorKind::Unreachable,
            "connecting to the database: it accepts connections and does not answer",
        ))
    })
}

/// Polls the connection until it ends, and counts what rings.
fn drive<S, T>(client: Client, mut connection: Connection<S, T>) -> Session
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    static SESSIONS: AtomicU64 = AtomicU64::new(0);
    let (ring, rings) = watch::channel(0);
    let task = tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(_) = message {
                ring.send_modify(|count| *count += 1);
            }
        }
    });
    Session {
        client,
        rings,
        id: SESSIONS.fetch_add(1, Ordering::Relaxed),
        abandoned: AtomicBool::new(false),
        task: task.abort_handle(),
        tls: None,
        prepared: Mutex::default(),
        local: None,
        turn: tokio::sync::Mutex::default(),
        types: Mutex::default(),
    }
}

/// Refuses what the promises cannot be kept on. Asked on every new connection: after a failover the same address may lead
/// to a standby.
async fn check(session: &Session) -> Result<()> {
    let sql = "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('server_encoding'),
                      pg_catalog.current_setting('server_version_num')::integer";
    // Without a name, which behind a pooler would be looked for on another session.
    let row = session.client.query_typed_one(sql, &[]).await?;
    if row.try_get::<_, bool>(0)? {
        let text = "the database is a standby: an outbox is emptied on the primary, because what was published must be written down";
        return Err(Error::new(StoreErrorKind::ReadOnly, text));
    }
    let encoding: &str = row.try_get(1)?;
    if encoding != "UTF8" {
        let text = format!(
            "the database is encoded in {encoding}; an outbox needs UTF8, or texts would be changed on the way"
        );
        return Err(Error::new(StoreErrorKind::Other, text));
    }
    if row.try_get::<_, i32>(2)? < 140_000 {
        return Err(Error::new(
            StoreErrorKind::Other,
            "PostgreSQL 14 or newer is needed",
        ));
    }
    Ok(())
}

/// The settings that the promises rest on. The relay's statements have one right plan each, which statistics of an empty
/// or a fresh table would turn away from.
fn settings(role: Role, limit: Duration) -> String {
    let limit = limit.as_millis().max(1);
    let mut sql = format!(
        "SET search_path = pg_catalog; SET statement_timeout = {limit}; SET idle_in_transaction_session_timeout = {limit};
         SET lock_timeout = 0; SET default_transaction_isolation = 'read committed'; SET jit = off;
         SET synchronous_commit = on; SET timezone = 'UTC';"
    );
    if role == Role::Relay {
        sql.push_str(
            "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
             SET plan_cache_mode = force_generic_plan; SET max_parallel_workers_per_gather = 0;",
        );
    }
    sql
}
