//! One live connection: what is asked on it, and how it is given up.
//!
//! A dropped call never leaves a transaction open: the relay's calls are single statements, and where a call is more
//! than that, behind a pooler and for operators, a guard ends the whole session when it is dropped.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use postrider_core::StoreErrorKind;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{CancelToken, Client, NoTls, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::doorbell::Sleepers;
use crate::error::{Error, Result};
use crate::growth::Growth;

/// How long a server may take to be told that nobody waits for its answer any more.
const CANCEL_WITHIN: Duration = Duration::from_secs(5);

/// One live connection.
pub(crate) struct Session {
    pub(crate) client: Client,
    /// Counts notifications; closed when the connection ends.
    pub(crate) rings: watch::Receiver<u64>,
    /// Who sleeps until one of them.
    pub(crate) sleepers: tokio::sync::Mutex<Sleepers>,
    /// No two sessions of this process have the same.
    pub(crate) id: u64,
    /// Which of the servers that were met it leads to.
    pub(crate) server: u64,
    /// It tells how far its log is flushed.
    pub(crate) tells_log: bool,
    /// Set when a transaction may be open on it: it is never given out again.
    abandoned: AtomicBool,
    /// The task that has the socket.
    task: AbortHandle,
    /// How another connection to the same server is protected, to cancel a statement.
    pub(crate) tls: Option<MakeRustlsConnect>,
    prepared: Mutex<HashMap<&'static str, Statement>>,
    /// What the plans of the prepared statements were made for.
    pub(crate) growth: Growth,
    /// Behind a pooler every transaction may be on another session of the server: nothing is prepared or set there, and
    /// these settings go with every call.
    pub(crate) local: Option<String>,
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
    pub(crate) fn new(client: Client, rings: watch::Receiver<u64>, task: AbortHandle) -> Self {
        static SESSIONS: AtomicU64 = AtomicU64::new(0);
        Self {
            client,
            rings,
            sleepers: tokio::sync::Mutex::default(),
            id: SESSIONS.fetch_add(1, Ordering::Relaxed),
            server: 0,
            tells_log: false,
            abandoned: AtomicBool::new(false),
            task,
            tls: None,
            prepared: Mutex::default(),
            growth: Growth::default(),
            local: None,
            turn: tokio::sync::Mutex::default(),
            types: Mutex::default(),
        }
    }

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
        self.client
            .batch_execute(&format!("BEGIN READ WRITE; {local}"))
            .await?;
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
        Ok(self.prepare_typed(name, sql, &[]).await?)
    }

    /// The same with the types of its parameters, where the server could not tell them.
    pub(crate) async fn prepare_typed(
        &self,
        name: &'static str,
        sql: &str,
        types: &[Type],
    ) -> Result<Statement, tokio_postgres::Error> {
        let known = self.statements().get(name).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare_typed(sql, types).await?;
        self.statements().insert(name, statement.clone());
        Ok(statement)
    }

    /// Lets the server plan anew what it planned for a much smaller table of parked rows. Behind a pooler every call is
    /// planned for itself.
    pub(crate) async fn keep_up(&self, pages: i64) -> Result<()> {
        if self.local.is_none() && self.growth.outgrown(pages) {
            self.client.batch_execute("DISCARD PLANS").await?;
            self.growth.planned(pages);
        }
        Ok(())
    }

    /// Closes the connection now and not with the last who holds it: a transaction may be open on it, whose locks
    /// others wait for. A server that is busy with a statement does not look at its socket, so it is told to stop as
    /// well.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
        self.ending().run();
    }

    /// What it takes to do so, for whoever has lent the session to somebody else.
    pub(crate) fn ending(&self) -> Ending {
        Ending {
            task: self.task.clone(),
            cancel: self.client.cancel_token(),
            tls: self.tls.clone(),
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        !self.client.is_closed() && !self.abandoned.load(Ordering::Relaxed)
    }

    fn statements(&self) -> std::sync::MutexGuard<'_, HashMap<&'static str, Statement>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a session is ended from outside.
pub(crate) struct Ending {
    task: AbortHandle,
    cancel: CancelToken,
    tls: Option<MakeRustlsConnect>,
}

impl Ending {
    pub(crate) fn run(self) {
        self.task.abort();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            // Nothing depends on it: the limits of the session end the statement too, only later.
            let _ = match self.tls {
                Some(tls) => timeout(CANCEL_WITHIN, self.cancel.cancel_query(tls)).await,
                None => timeout(CANCEL_WITHIN, self.cancel.cancel_query(NoTls)).await,
            };
        });
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
