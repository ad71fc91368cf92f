//! Notifications in SQLite.
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

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{BoxFuture, StoreError};
use postrider_sqlite::{Outbox, SqliteEffects, SqliteHandler, error_kind};
use rusqlite::Transaction;

use crate::board::fault;
use crate::board::means::Means;
use crate::{
    Accepted, Board, BoardError, FanOut, Occasion, People, Purged, Standing, Step, Tally, Workflows,
};
use schema::Names;

/// Notifications in SQLite, in the file of a consumer. Clones are the same board.
///
/// ```
/// use std::sync::Arc;
/// use postrider_core::Schema;
/// use postrider_notify::{Board, Directory, Feed, Recipient, SqliteBoard, Workflows};
/// use postrider_sqlite::{Inbox, Outbox, SqliteEffects, SqliteOptions, SqliteStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("shop.db");
/// // The outbox of the deliveries is in the same file.
/// SqliteStore::open(&path, SqliteOptions::default())?.up().await?;
/// let effects = SqliteEffects::open(&path, SqliteOptions::default(), Inbox::default())?;
/// let workflows = Workflows::new(vec![], vec![])?;
/// let board = SqliteBoard::new(effects, Outbox::default(), Arc::new(workflows));
/// board.migrate().await?;
/// board.put(&Recipient { id: "ann".to_owned(), ..Recipient::default() }).await?;
/// assert_eq!(board.unread("ann").await?, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SqliteBoard {
    effects: SqliteEffects,
    lite: Arc<Lite>,
}

/// What work in a transaction needs.
#[derive(Clone)]
struct Lite {
    outbox: Outbox,
    names: Names,
    means: Means,
}

impl Lite {
    /// The names of the workflows that this board knows, as a statement takes them.
    fn known(&self) -> String {
        serde_json::json!(self.means.workflows.names()).to_string()
    }
}

impl fmt::Debug for SqliteBoard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteBoard")
            .field("effects", &self.effects)
            .field("outbox", &self.lite.outbox)
            .finish_non_exhaustive()
    }
}

impl SqliteBoard {
    /// A board on the connection of these effects, with the outbox that its deliveries go through.
    pub fn new(effects: SqliteEffects, outbox: Outbox, workflows: Arc<Workflows>) -> Self {
        let names = Names::new(outbox.clone());
        let lite = Lite {
            outbox,
            names,
            means: Means::new(workflows),
        };
        Self {
            effects,
            lite: Arc::new(lite),
        }
    }

    /// The same board, which asks this directory who is there instead of its own tables. What people want is still kept
    /// here. Every board on one file must have the same.
    ///
    /// A listener then stores only that there is something to tell: a [`crate::Worker`] asks and tells, so that the
    /// directory holds up no queue.
    pub fn with_directory(self, people: Arc<dyn People>) -> Self {
        let mut lite = Lite::clone(&self.lite);
        lite.means.people = Some(people);
        Self {
            effects: self.effects,
            lite: Arc::new(lite),
        }
    }

    /// What a listener runs in the transaction of the inbox: reads the occasion and accepts it. An event that can never
    /// become a notification is rejected.
    pub fn handler(&self) -> Arc<SqliteHandler> {
        accept::handler(&self.lite)
    }

    /// Runs work in a transaction, and again while the file is busy.
    async fn transaction<T, E>(
        &self,
        work: impl Fn(&Transaction<'_>, &Lite) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: Error + From<StoreError> + Send + 'static,
    {
        let lite = Arc::clone(&self.lite);
        self.effects.transaction(move |tx| work(tx, &lite)).await
    }

    /// The same for work that only reads.
    async fn read<T, E>(
        &self,
        work: impl Fn(&Transaction<'_>, &Lite) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: Error + From<StoreError> + Send + 'static,
    {
        let lite = Arc::clone(&self.lite);
        self.effects.read(move |tx| work(tx, &lite)).await
    }
}

impl Board for SqliteBoard {
    fn migrate(&self) -> BoxFuture<'_, Result<(), BoardError>> {
        Box::pin(self.transaction(schema::migrate))
    }

    fn sql(&self) -> String {
        self.lite.names.tables(&self.lite.means.workflows)
    }

    fn accept(&self, occasion: Occasion) -> BoxFuture<'_, Result<Accepted, BoardError>> {
        Box::pin(async move {
            let (asked, of) = (self.lite.means.ask(&occasion.to).await?, occasion.clone());
            let accepted =
                self.transaction(move |tx, lite| accept::accept(tx, lite, &occasion, asked.as_ref()));
            self.lite.means.counted(&of, accepted.await)
        })
    }

    fn request(&self, occasion: Occasion) -> BoxFuture<'_, Result<Accepted, BoardError>> {
        Box::pin(async move {
            let (asked, of) = (self.lite.means.ask(&occasion.to).await?, occasion.clone());
            let accepted =
                self.transaction(move |tx, lite| request::accept(tx, lite, &occasion, asked.as_ref()));
            self.lite.means.counted(&of, accepted.await)
        })
    }

    fn step(&self) -> BoxFuture<'_, Result<Option<Step>, BoardError>> {
        Box::pin(async {
            let stepped = match &self.lite.means.people {
                Some(people) => own::step(self, &**people).await?,
                None => {
                    self.transaction(|tx, lite| fanout::step(tx, lite, None))
                        .await??
                }
            };
            Ok(self.lite.means.stepped(stepped))
        })
    }

    fn resume(&self) -> BoxFuture<'_, Result<u64, BoardError>> {
        Box::pin(self.transaction(|tx, _| fanout::resume(tx)))
    }

    fn fan_out<'a>(&'a self, event_id: &'a str) -> BoxFuture<'a, Result<Option<FanOut>, StoreError>> {
        let event_id = event_id.to_owned();
        Box::pin(self.read(move |tx, _| fanout::progress(tx, &event_id)))
    }

    fn digest(&self) -> BoxFuture<'_, Result<bool, BoardError>> {
        Box::pin(async {
            let told = match &self.lite.means.people {
                Some(people) => own::digest(self, &**people).await?,
                None => {
                    self.transaction(|tx, lite| digest::tell(tx, lite, None))
                        .await??
                }
            };
            Ok(self.lite.means.tally.told(told))
        })
    }

    fn standing(&self) -> BoxFuture<'_, Result<Standing, StoreError>> {
        Box::pin(self.read(|tx, _| standing::standing(tx)))
    }

    fn tally(&self) -> &Tally {
        &self.lite.means.tally
    }

    fn next_digest(&self) -> BoxFuture<'_, Result<Option<Duration>, BoardError>> {
        Box::pin(self.read(digest::next))
    }

    fn purge(&self, older_than: Duration, limit: u32) -> BoxFuture<'_, Result<Purged, BoardError>> {
        Box::pin(self.transaction(move |tx, lite| purge::purge(tx, lite, older_than, limit)))
    }
}

/// Runs a part of a transaction that may fail on its own. The inner error is one of this part: what it wrote is undone,
/// and the reason can be committed.
fn attempt<T>(
    tx: &Transaction<'_>,
    part: impl FnOnce() -> Result<T, BoardError>,
) -> Result<Result<T, BoardError>, BoardError> {
    let begun = tx.execute_batch("SAVEPOINT part");
    begun.map_err(|error| failed(error, "beginning a part of a transaction"))?;
    let error = match part() {
        Ok(done) => return Ok(Ok(done)),
        Err(error) => error,
    };
    match error.aside() {
        // Some errors have undone the whole transaction.
        Some(aside) if tx.execute_batch("ROLLBACK TO part").is_ok() => Ok(Err(aside)),
        _ => Err(error),
    }
}

/// The public error for one of the driver, with the name of what was being done.
fn failed(error: rusqlite::Error, doing: &str) -> StoreError {
    fault::failed(error_kind(&error), error, doing)
}

/// A duration as the microseconds that columns hold.
fn micros(duration: Duration) -> i64 {
    // Half of what a number holds, so that it can be added to the present.
    i64::try_from(duration.as_micros())
        .unwrap_or(i64::MAX)
        .min(i64::MAX / 2)
}
