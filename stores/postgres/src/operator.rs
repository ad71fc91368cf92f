//! The connection for operators: one piece of work at a time, each in a transaction of its own.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{StoreError, StoreErrorKind, crash};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::config::PgOptions;
use crate::console::Seen;
use crate::error::{Error, Result};
use crate::ident::Tables;
use crate::session::Session;
use crate::supervise::Link;

/// The connection.
#[derive(Debug)]
pub(crate) struct Operator {
    link: Arc<Link>,
    seen: Arc<Seen>,
}

/// One piece of work: a session inside a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    session: Arc<Session>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) options: PgOptions,
    /// Who was writing when somebody looked.
    pub(crate) seen: Arc<Seen>,
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
    pub(crate) fn new(link: Arc<Link>, seen: Arc<Seen>) -> Self {
        Self { link, seen }
    }

    /// Does a piece of work in one transaction, within a limit. Whatever ends it early, a dropped call included, ends
    /// the session with it, so that nobody is ever given a session inside somebody else's transaction.
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
        let _turn = self.link.turn.lock().await;
        let session = self.link.session(doing).await?;
        let guard = Guard(Some(Arc::clone(&session)));
        let given = Work {
            session: Arc::clone(&session),
            tables: Arc::clone(tables),
            options: options.clone(),
            seen: Arc::clone(&self.seen),
        };
        let whole = async {
            let begin = format!(
                "BEGIN READ WRITE; {1} SET LOCAL statement_timeout = {0}; \
                 SET LOCAL idle_in_transaction_session_timeout = {0}",
                limit.as_millis().max(1),
                session.local()
            );
            session.client.batch_execute(&begin).await?;
            let answer = work(given).await;
            let end = if answer.is_ok() { "COMMIT" } else { "ROLLBACK" };
            crash::point("operator.inside");
            session.client.batch_execute(end).await?;
            crash::point("operator.after");
            answer
        };
        guard.watch(doing, limit, whole).await
    }

    /// Asks one statement that is a transaction by itself: what it locks is free again before its answer is on the way,
    /// whatever becomes of this process.
    pub(crate) async fn ask(
        &self,
        doing: &'static str,
        limit: Duration,
        sql: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Row, StoreError> {
        let _turn = self.link.turn.lock().await;
        let session = self.link.session(doing).await?;
        let guard = Guard(Some(Arc::clone(&session)));
        let whole = async { Ok(session.client.query_typed_one(sql, parameters).await?) };
        guard.watch(doing, limit, whole).await
    }
}

impl Operator {
    /// Statements that may be in no transaction, one after the other. They may take their time, which is set on a
    /// session that nobody is given afterwards.
    pub(crate) async fn outside(
        &self,
        doing: &'static str,
        limit: Duration,
        statements: &[String],
    ) -> Result<(), StoreError> {
        let _turn = self.link.turn.lock().await;
        let session = self.link.session(doing).await?;
        let _guard = Guard(Some(Arc::clone(&session)));
        let whole = async {
            if session.local.is_some() {
                let text = "this cannot be done through a pooler";
                return Err(Error::new(StoreErrorKind::Other, text));
            }
            let patience = "SET statement_timeout = 0; SET lock_timeout = '10s'";
            session.client.batch_execute(patience).await?;
            for statement in statements {
                session.client.batch_execute(statement).await?;
            }
            Ok(())
        };
        Guard(None).watch(doing, limit, whole).await
    }
}

/// Takes the session out of use unless it is kept.
struct Guard(Option<Arc<Session>>);

impl Guard {
    /// Waits for a piece of work within a limit, and keeps the session when the database has answered.
    async fn watch<T>(
        mut self,
        doing: &str,
        limit: Duration,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T, StoreError> {
        let outcome = tokio::time::timeout(limit + Duration::from_secs(1), work).await;
        let outcome = outcome.unwrap_or_else(|_| {
            Err(Error::new(
                StoreErrorKind::Unreachable,
                format!("{doing}: the database did not answer within {limit:?}"),
            ))
        });
        let has_answered = |error: &Error| error.kind() != StoreErrorKind::Unreachable;
        if outcome.as_ref().map_or_else(has_answered, |_| true) {
            self.0 = None;
        }
        outcome.map_err(|error| error.while_doing(doing))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(session) = self.0.take() {
            session.abandon();
        }
    }
}
