//! What a listener does with PostgreSQL: deliveries and their effects in one transaction.

use std::fmt;
use std::sync::Arc;

use postrider_core::{
    Applied, ApplyError, Blame, BoxFuture, Effects, HandlerError, InboxConsole, Received, Recorded,
    StoreError, StoreErrorKind, Turns, to_record,
};
use tokio_postgres::{Client, Transaction};

use super::pool::Pool;
use super::record::{self, Entry, Insert, TYPES};
use super::{Inbox, explain, once};
use crate::config::PgOptions;

/// What is called for each event, with the transaction to work in; [`handler`] makes one of a closure.
pub type PgHandler = dyn for<'a> Fn(&'a Received, &'a Transaction<'a>) -> BoxFuture<'a, Result<(), HandlerError>>
    + Send
    + Sync;

/// A handler of a closure that gives a boxed future. It must not end the transaction.
///
/// ```
/// use postrider_postgres::handler;
///
/// let charge = handler(|event, tx| {
///     Box::pin(async move {
///         let total: i64 = event.json::<serde_json::Value>()?["total"].as_i64().unwrap_or(0);
///         tx.execute("INSERT INTO charges (order_id, amount) VALUES ($1, $2)", &[&event.aggregate_id(), &total])
///             .await?;
///         Ok(())
///     })
/// });
/// # let _ = charge;
/// ```
pub fn handler<F>(handle: F) -> Arc<PgHandler>
where
    F: for<'a> Fn(&'a Received, &'a Transaction<'a>) -> BoxFuture<'a, Result<(), HandlerError>>
        + Send
        + Sync
        + 'static,
{
    Arc::new(handle)
}

/// A consumer's database in PostgreSQL, with connections of its own. Clones share them.
///
/// The isolation of the transactions and every time-out is what the server, the database or the role say, or the url
/// (`?options=-c%20default_transaction_isolation%3Dserializable`). A server that would forget the last commits in a
/// crash is asked not to on these connections, unless they lead through a pooler: an acknowledged message whose effect
/// is gone cannot be had again.
#[derive(Clone)]
pub struct PgEffects {
    inner: Arc<Inner>,
}

struct Inner {
    inbox: Inbox,
    insert: String,
    pool: Pool,
}

impl fmt::Debug for PgEffects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgEffects")
            .field("inbox", &self.inner.inbox)
            .finish_non_exhaustive()
    }
}

impl PgEffects {
    /// Effects in the database behind a url, on at most so many connections: as many as deliveries are worked on at a
    /// time. They come about when they are needed. Of the options those of the connection count: the login, TLS, the
    /// time that connecting may take, and [`PgOptions::poll_only`] for a pooler.
    ///
    /// ```no_run
    /// use postrider_postgres::{Inbox, PgEffects, PgOptions};
    ///
    /// let effects = PgEffects::new("postgres://shop@127.0.0.1/shop", PgOptions::default(), Inbox::default(), 8)?;
    /// # Ok::<(), postrider_core::StoreError>(())
    /// ```
    pub fn new(url: &str, options: PgOptions, inbox: Inbox, connections: usize) -> Result<Self, StoreError> {
        let inner = Inner {
            insert: inbox.tables.sql(record::INSERT),
            pool: Pool::new(url, options, connections)?,
            inbox,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Makes the table of the inbox where it is missing.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        InboxConsole::migrate(self).await
    }

    pub(super) fn inbox(&self) -> &Inbox {
        &self.inner.inbox
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.inner.pool
    }
}

impl Effects for PgEffects {
    type Handler = PgHandler;

    fn apply(
        &self,
        consumer: Arc<str>,
        deliveries: Arc<[Received]>,
        handler: Arc<PgHandler>,
    ) -> BoxFuture<'_, Result<Vec<Applied>, ApplyError>> {
        Box::pin(async move {
            if deliveries.is_empty() {
                return Ok(Vec::new());
            }
            let work = Work {
                inner: &self.inner,
                consumer: &consumer,
                entries: entries(&deliveries)?,
                deliveries: &deliveries,
                handler: &*handler,
            };
            let mut turns = Turns::default();
            loop {
                match work.attempt().await {
                    Ok(applied) => return Ok(applied),
                    Err(failed) if failed.is_passing && once::may_take(&mut turns).await => {}
                    Err(failed) => return Err(failed.error),
                }
            }
        })
    }
}

/// What is to be recorded.
pub(super) fn entries(deliveries: &[Received]) -> Result<Vec<Entry<'_>>, ApplyError> {
    let events = to_record(deliveries)?.into_iter();
    Ok(events.map(|(id, hash)| Entry { id, hash }).collect())
}

/// Why an attempt took no effect.
pub(super) struct Failed {
    pub(super) error: ApplyError,
    /// Whether the same again may work at once.
    pub(super) is_passing: bool,
    /// Whether the connection is as good as before.
    pub(super) keeps: bool,
}

impl Failed {
    pub(super) fn store(error: StoreError) -> Self {
        Self {
            is_passing: once::is_passing(&error),
            keeps: error.kind() == StoreErrorKind::Busy,
            error: ApplyError::Store(error),
        }
    }

    pub(super) fn handler(
        at: usize,
        error: HandlerError,
        trouble: Option<StoreErrorKind>,
        passing: bool,
    ) -> Self {
        let error = ApplyError::of_handler(at, error, trouble);
        // Where the server may be in trouble, the next attempt connects anew.
        let doubted = matches!(&error, ApplyError::Handler { error, .. } if error.blamed() == Blame::Unclear);
        Self {
            is_passing: passing,
            keeps: !doubted,
            error,
        }
    }

    /// Something that handlers did was refused at the end. The last that ran is named; where there were more than one,
    /// each shows what it is when it is tried alone.
    pub(super) fn at_the_end(applied: &[Applied], error: HandlerError) -> Self {
        let at = applied.iter().rposition(|one| *one == Applied::Now).unwrap_or(0);
        Self {
            // The transaction may still be there, and is rolled back only as the driver gets to it.
            keeps: false,
            ..Self::refused(ApplyError::Handler { at, error })
        }
    }

    /// A handler undid the transaction, or ended it, and said that all is well.
    pub(super) fn undone(applied: &[Applied], undone: &StoreError) -> Self {
        let text = format!("{undone}; {}", undone.advice());
        Self::at_the_end(applied, HandlerError::retry(text))
    }

    pub(super) fn refused(error: ApplyError) -> Self {
        Self {
            error,
            is_passing: false,
            keeps: true,
        }
    }
}

/// One call.
struct Work<'a> {
    inner: &'a Inner,
    consumer: &'a str,
    entries: Vec<Entry<'a>>,
    deliveries: &'a [Received],
    handler: &'a PgHandler,
}

impl Work<'_> {
    async fn attempt(&self) -> Result<Vec<Applied>, Failed> {
        let pool = &self.inner.pool;
        let mut lent = pool.lend().await.map_err(Failed::store)?;
        let insert = match pool.keeps_sessions() {
            true => {
                let name = "recording events";
                let prepared = lent.session.prepare_typed(name, &self.inner.insert, &TYPES).await;
                Insert::Prepared(prepared.map_err(|error| self.failed(error))?)
            }
            false => Insert::Text(&self.inner.insert),
        };
        let done = self.transact(&mut lent.session.client, &insert).await;
        if done.as_ref().err().is_none_or(|failed| failed.keeps) {
            lent.keep(pool);
        }
        done
    }

    async fn transact(&self, client: &mut Client, insert: &Insert<'_>) -> Result<Vec<Applied>, Failed> {
        let tx = client.transaction().await.map_err(|error| self.failed(error))?;
        let applied = match self.run(&tx, insert).await {
            Ok(applied) => applied,
            Err(failed) => {
                if tx.rollback().await.is_err() {
                    return Err(Failed {
                        keeps: false,
                        ..failed
                    });
                }
                return Err(failed);
            }
        };
        if !applied.contains(&Applied::Now) {
            tx.rollback().await.map_err(|error| self.failed(error))?;
            return Ok(applied);
        }
        match once::commit(tx).await {
            Ok(()) => Ok(applied),
            Err(error) => Err(match once::undone(error.code()) {
                Some(undone) => Failed::undone(&applied, &undone),
                // A constraint that is checked at the commit speaks of what a handler did.
                None if once::is_violation(&error) => Failed::at_the_end(&applied, error.into()),
                None => self.failed(error),
            }),
        }
    }

    async fn run(&self, tx: &Transaction<'_>, insert: &Insert<'_>) -> Result<Vec<Applied>, Failed> {
        let tables = &self.inner.inbox.tables;
        let marks = record::record(tx, tables, insert, self.consumer, &self.entries).await;
        let marks = marks.map_err(|error| self.failed(error))?;
        let applied = Recorded::applied(marks).map_err(Failed::refused)?;
        for (at, (delivery, mark)) in self.deliveries.iter().zip(&applied).enumerate() {
            if *mark == Applied::Now {
                let handled = (self.handler)(delivery, tx).await;
                handled.map_err(|error| handler_failed(at, error))?;
            }
        }
        Ok(applied)
    }

    fn failed(&self, error: tokio_postgres::Error) -> Failed {
        Failed::store(explain(
            &self.inner.inbox.tables,
            error,
            "letting an event take effect",
        ))
    }
}

fn handler_failed(at: usize, error: HandlerError) -> Failed {
    let kind = error.source().and_then(once::trouble);
    let passing = error.source().is_some_and(once::is_passing);
    Failed::handler(at, error, kind, passing)
}
