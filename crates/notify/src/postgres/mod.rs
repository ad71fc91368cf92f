//! Notifications in PostgreSQL.
//!
//! `accept` takes occasions, `chunk` stores what was planned for some members, `fanout` goes on with the rest and
//! `digest` tells what was collected, `own` both where people are kept elsewhere; `request` knows keys again;
//! `directory`, `feed`, `deliveries` and `standing` are what people and services ask.

mod accept;
mod chunk;
mod deliveries;
mod digest;
mod directory;
mod fanout;
mod feed;
mod own;
mod purge;
mod request;
mod schema;
mod standing;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{BoxFuture, StoreError};
use postrider_postgres::{Outbox, PgEffects, PgHandler, error_kind};
use tokio_postgres::Transaction;

use crate::board::fault;
use crate::board::means::Means;
use crate::{
    Accepted, Board, BoardError, FanOut, Occasion, People, Purged, Standing, Step, Tally, Workflows,
};
use schema::Names;

/// Notifications in PostgreSQL, in the database of a consumer. Clones are the same board.
///
/// Its tables are in the schema of the outbox that it puts deliveries into.
///
/// ```no_run
/// use std::sync::Arc;
/// use postrider_notify::{Board, PgBoard, Workflows};
/// use postrider_postgres::{Inbox, Outbox, PgEffects, PgOptions};
///
/// # async fn f(workflows: Workflows) -> Result<(), Box<dyn std::error::Error>> {
/// let url = "postgres://shop@127.0.0.1/shop";
/// let effects = PgEffects::new(url, PgOptions::default(), Inbox::default(), 8)?;
/// let board = PgBoard::new(effects, Outbox::default(), Arc::new(workflows));
/// board.migrate().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PgBoard {
    effects: PgEffects,
    pg: Arc<Pg>,
}

/// What work in a transaction needs.
#[derive(Clone)]
struct Pg {
    outbox: Outbox,
    names: Names,
    means: Means,
}

impl fmt::Debug for PgBoard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgBoard")
            .field("effects", &self.effects)
            .field("outbox", &self.pg.outbox)
            .finish_non_exhaustive()
    }
}

impl PgBoard {
    /// A board on the connections of these effects, with the outbox that its deliveries go through.
    pub fn new(effects: PgEffects, outbox: Outbox, workflows: Arc<Workflows>) -> Self {
        let names = Names::new(outbox.clone());
        let pg = Pg {
            outbox,
            names,
            means: Means::new(workflows),
        };
        Self {
            effects,
            pg: Arc::new(pg),
        }
    }

    /// The same board, which asks this directory who is there instead of its own tables. What people want is still kept
    /// here. Every board on one database must have the same.
    ///
    /// A listener then stores only that there is something to tell: a [`crate::Worker`] asks and tells, so that the
    /// directory holds up no queue.
    pub fn with_directory(self, people: Arc<dyn People>) -> Self {
        let mut pg = Pg::clone(&self.pg);
        pg.means.people = Some(people);
        Self {
            effects: self.effects,
            pg: Arc::new(pg),
        }
    }

    /// What a listener runs in the transaction of the inbox: reads the occasion and accepts it. An event that can never
    /// become a notification is rejected.
    pub fn handler(&self) -> Arc<PgHandler> {
        accept::handler(&self.pg)
    }

    /// Runs work in a transaction, and again where another one stood in the way.
    async fn transaction<C, T, E>(
        &self,
        given: &C,
        work: impl for<'a> FnMut(&'a Transaction<'a>, &'a C) -> BoxFuture<'a, Result<T, E>> + Send,
    ) -> Result<T, E>
    where
        C: Sync,
        T: Send,
        E: std::error::Error + From<StoreError> + Send + 'static,
    {
        self.effects.transaction(given, work).await
    }
}

impl Board for PgBoard {
    fn migrate(&self) -> BoxFuture<'_, Result<(), BoardError>> {
        Box::pin(self.transaction(&self.pg, |tx, pg| Box::pin(schema::migrate(tx, pg))))
    }

    fn sql(&self) -> String {
        self.pg.names.tables(&self.pg.means.workflows)
    }

    fn accept(&self, occasion: Occasion) -> BoxFuture<'_, Result<Accepted, BoardError>> {
        Box::pin(async move {
            let asked = self.pg.means.ask(&occasion.to).await?;
            let given = (&self.pg, occasion, asked);
            let accepted = self.transaction(&given, |tx, (pg, occasion, asked)| {
                Box::pin(accept::accept(tx, pg, occasion, asked.as_ref()))
            });
            self.pg.means.counted(&given.1, accepted.await)
        })
    }

    fn request(&self, occasion: Occasion) -> BoxFuture<'_, Result<Accepted, BoardError>> {
        Box::pin(async move {
            let asked = self.pg.means.ask(&occasion.to).await?;
            let given = (&self.pg, occasion, asked);
            let accepted = self.transaction(&given, |tx, (pg, occasion, asked)| {
                Box::pin(request::accept(tx, pg, occasion, asked.as_ref()))
            });
            self.pg.means.counted(&given.1, accepted.await)
        })
    }

    fn step(&self) -> BoxFuture<'_, Result<Option<Step>, BoardError>> {
        Box::pin(async {
            let stepped = match &self.pg.means.people {
                Some(people) => own::step(self, &**people).await?,
                None => {
                    self.transaction(&self.pg, |tx, pg| Box::pin(fanout::step(tx, pg, None)))
                        .await??
                }
            };
            Ok(self.pg.means.stepped(stepped))
        })
    }

    fn resume(&self) -> BoxFuture<'_, Result<u64, BoardError>> {
        Box::pin(self.transaction(&self.pg, |tx, pg| Box::pin(fanout::resume(tx, pg))))
    }

    fn fan_out<'a>(&'a self, event_id: &'a str) -> BoxFuture<'a, Result<Option<FanOut>, StoreError>> {
        Box::pin(async move {
            let given = (&self.pg, event_id);
            self.transaction(&given, |tx, (pg, event_id)| {
                Box::pin(fanout::progress(tx, pg, event_id))
            })
            .await
        })
    }

    fn digest(&self) -> BoxFuture<'_, Result<bool, BoardError>> {
        Box::pin(async {
            let told = match &self.pg.means.people {
                Some(people) => own::digest(self, &**people).await?,
                None => {
                    self.transaction(&self.pg, |tx, pg| Box::pin(digest::tell(tx, pg, None)))
                        .await??
                }
            };
            Ok(self.pg.means.tally.told(told))
        })
    }

    fn standing(&self) -> BoxFuture<'_, Result<Standing, StoreError>> {
        Box::pin(self.transaction(&self.pg, |tx, pg| Box::pin(standing::standing(tx, pg))))
    }

    fn tally(&self) -> &Tally {
        &self.pg.means.tally
    }

    fn next_digest(&self) -> BoxFuture<'_, Result<Option<Duration>, BoardError>> {
        Box::pin(self.transaction(&self.pg, |tx, pg| Box::pin(digest::next(tx, pg))))
    }

    fn purge(&self, older_than: Duration, limit: u32) -> BoxFuture<'_, Result<Purged, BoardError>> {
        Box::pin(async move {
            let given = (&self.pg, older_than, limit);
            self.transaction(&given, |tx, (pg, older_than, limit)| {
                Box::pin(purge::purge(tx, pg, *older_than, *limit))
            })
            .await
        })
    }
}

/// Runs a part of a transaction that may fail on its own. The inner error is one of this part: what it wrote is undone,
/// and the reason can be committed.
async fn attempt<T>(
    tx: &Transaction<'_>,
    part: impl Future<Output = Result<T, BoardError>> + Send,
) -> Result<Result<T, BoardError>, BoardError> {
    let begun = tx.batch_execute("SAVEPOINT part").await;
    begun.map_err(|error| failed(error, "beginning a part of a transaction"))?;
    let error = match part.await {
        Ok(done) => return Ok(Ok(done)),
        Err(error) => error,
    };
    match error.aside() {
        // A connection that is gone undid all of it.
        Some(aside) if tx.batch_execute("ROLLBACK TO SAVEPOINT part").await.is_ok() => Ok(Err(aside)),
        _ => Err(error),
    }
}

/// The public error for one of the driver, with the name of what was being done.
fn failed(error: tokio_postgres::Error, doing: &str) -> StoreError {
    fault::failed(error_kind(&error), error, doing)
}
