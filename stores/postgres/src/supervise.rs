//! Connections that come back: each is opened when it is needed, and replaced once it is broken. An outbox has three of
//! them: one reads, one writes, one is for operators.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{RetryPolicy, StoreError, StoreErrorKind};
use tokio::time::{Instant, timeout};
use tokio_postgres::error::SqlState;

use crate::config::PgOptions;
use crate::connect::{Role, Target};
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::session::Session;
use crate::tls::Address;

/// The pauses between attempts to connect: the longest is well below the 5 s in which publishing must resume.
const PAUSES: RetryPolicy = RetryPolicy::until_it_works(Duration::from_millis(50), Duration::from_secs(2));

/// A place for one connection.
#[derive(Debug)]
pub(crate) struct Link {
    target: Target,
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
            target: Target {
                address,
                options: options.clone(),
                role,
                pooled: false,
                identity,
            },
            state: tokio::sync::Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// The same behind a pooler.
    pub(crate) fn behind_pooler(mut self, pooled: bool) -> Self {
        self.target.pooled = pooled;
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
        match self.target.open().await {
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
                state.not_before = Some(Instant::now() + PAUSES.pause(state.failures));
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
        let outcome = match timeout(limit, call(Arc::clone(&session))).await {
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
                if error.is(&SqlState::QUERY_CANCELED) {
                    session.growth.doubt();
                }
                if !keep {
                    self.drop_session(session.id).await;
                }
                Err(error.while_doing(doing))
            }
        }
    }

    /// The limit of an ordinary call: the server's own, and a little for the way.
    pub(crate) fn limit(&self) -> Duration {
        self.target.options.statement_timeout + Duration::from_secs(1)
    }

    async fn drop_session(&self, id: u64) {
        let mut state = self.state.lock().await;
        if state.session.as_ref().is_some_and(|session| session.id == id) {
            state.session = None;
        }
    }
}
