//! The connection for operators: one piece of work at a time, each in a transaction of its own.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{StoreError, StoreErrorKind};
use tokio::sync::Mutex;
use tokio_postgres::Client;

use crate::config::PgOptions;
use crate::connect::{Link, Session};
use crate::error::{Error, Result};
use crate::ident::Tables;

/// The connection, and whose turn it is.
#[derive(Debug)]
pub(crate) struct Operator {
    link: Arc<Link>,
    turn: Mutex<()>,
}

/// One piece of work: a session inside a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    session: Arc<Session>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) options: PgOptions,
}

impl Work {
    pub(crate) fn client(&self) -> &Client {
        &self.session.client
    }

    pub(crate) fn sql(&self, template: &str) -> String {
        self.tables.sql(template)
    }
}

impl Operator {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self {
            link,
            turn: Mutex::default(),
        }
    }

    /// Does a piece of work in one transaction, within a limit. Whatever ends it early, a dropped call included, ends the
    /// session with it, so that nobody is ever given a session inside somebody else's transaction.
    pub(crate) async fn run<T, F, Fut>(
        &self,
        doing: &'static str,
        limit: Duration,
        tables: &Arc<Tables>,
        options: &PgOptions,
        work: F,
    ) -> Result<T, StoreError>
    where
        F: FnOnce(Work) -> Fut + Send,
        Fut: Future<Output = Result<T>> + Send,
        T: Send,
    {
        let _turn = self.turn.lock().await;
        let session = self.link.session(doing).await?;
        let guard = Guard {
            link: &self.link,
            session: Some(Arc::clone(&session)),
        };
        let given = Work {
            session: Arc::clone(&session),
            tables: Arc::clone(tables),
            options: options.clone(),
        };
        let whole = async {
            let begin = format!(
                "BEGIN; {1} SET LOCAL statement_timeout = {0}; SET LOCAL idle_in_transaction_session_timeout = {0}",
                limit.as_millis().max(1),
                session.local()
            );
            session.client.batch_execute(&begin).await?;
            let answer = work(given).await;
            let end = if answer.is_ok() { "COMMIT" } else { "ROLLBACK" };
            session.client.batch_execute(end).await?;
            answer
        };
        let outcome = tokio::time::timeout(limit + Duration::from_secs(1), whole).await;
        let outcome = outcome.unwrap_or_else(|_| {
            Err(Error::new(
                StoreErrorKind::Unreachable,
                format!("{doing}: the database did not answer within {limit:?}"),
            ))
        });
        if outcome
            .as_ref()
            .map_or_else(|error| error.kind() != StoreErrorKind::Unreachable, |_| true)
        {
            guard.keep();
        }
        outcome.map_err(|error| error.while_doing(doing))
    }
}

/// Takes the session out of use unless it is kept.
struct Guard<'a> {
    link: &'a Link,
    session: Option<Arc<Session>>,
}

impl Guard<'_> {
    fn keep(mut self) {
        self.session = None;
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.link.abandon(&session);
        }
    }
}
