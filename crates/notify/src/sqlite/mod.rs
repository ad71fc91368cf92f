//! Notifications in SQLite.
//!
//! `accept` takes occasions, `chunk` stores what was planned for some members, `fanout` goes on with the rest and
//! `digest` tells what was collected; `directory`, `feed` and `deliveries` are what people and services ask.

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

use postrider_core::{BoxFuture, StoreError, StoreErrorKind};
use postrider_sqlite::{Outbox, SqliteEffects, SqliteHandler, error_kind};
use rusqlite::Transaction;

use crate::people::{self, Page};
use crate::{
    Accepted, Board, BoardError, CHUNK, FanOut, Occasion, People, Purged, Standing, Step, Tally, To,
    Workflows,
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
struct Lite {
    outbox: Outbox,
    names: Names,
    workflows: Arc<Workflows>,
    /// Who is there, where that is not kept in tables of ours.
    people: Option<Arc<dyn People>>,
    tally: Arc<Tally>,
}

impl Lite {
    /// The next people of a directory that is not ours; None where it is. Before a transaction: whoever is slow there
    /// keeps nobody from writing here.
    async fn ask(&self, to: &To, after: Option<&str>) -> Result<Option<Page>, BoardError> {
        match &self.people {
            Some(own) => people::page(&**own, (to, after, CHUNK)).await.map(Some),
            None => Ok(None),
        }
    }

    /// The same, counted where it is committed.
    fn counted(
        &self,
        occasion: &Occasion,
        accepted: Result<Accepted, BoardError>,
    ) -> Result<Accepted, BoardError> {
        if let (Ok(accepted), Some(workflow)) = (&accepted, self.workflows.of(occasion)) {
            self.tally.add(&workflow.name, accepted);
        }
        accepted
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
            tally: Arc::new(Tally::new(&workflows)),
            workflows,
            people: None,
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
        let lite = Lite {
            outbox: self.lite.outbox.clone(),
            names: self.lite.names.clone(),
            workflows: Arc::clone(&self.lite.workflows),
            people: Some(people),
            tally: Arc::clone(&self.lite.tally),
        };
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
        self.lite.names.tables(&self.lite.workflows)
    }

    fn accept(&self, occasion: Occasion) -> BoxFuture<'_, Result<Accepted, BoardError>> {
        Box::pin(async move {
            let (asked, of) = (self.lite.ask(&occasion.to, None).await?, occasion.clone());
            let accepted =
                self.transaction(move |tx, lite| accept::accept(tx, lite, &occasion, asked.as_ref()));
            self.lite.counted(&of, accepted.await)
        })
    }

    fn request(&self, occasion: Occasion) -> BoxFuture<'_, Result<Accepted, BoardError>> {
        Box::pin(async move {
            let (asked, of) = (self.lite.ask(&occasion.to, None).await?, occasion.clone());
            let accepted =
                self.transaction(move |tx, lite| request::accept(tx, lite, &occasion, asked.as_ref()));
            self.lite.counted(&of, accepted.await)
        })
    }

    fn step(&self) -> BoxFuture<'_, Result<Option<Step>, BoardError>> {
        Box::pin(async {
            let stepped = match &self.lite.people {
                Some(people) => own::step(self, &**people).await?,
                None => {
                    self.transaction(|tx, lite| fanout::step(tx, lite, None))
                        .await??
                }
            };
            if let Some(step) = &stepped {
                self.lite.tally.add(&step.workflow, step);
            }
            Ok(stepped)
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
            let told = match &self.lite.people {
                Some(people) => own::digest(self, &**people).await?,
                None => {
                    self.transaction(|tx, lite| digest::tell(tx, lite, None))
                        .await??
                }
            };
            Ok(self.lite.tally.told(told))
        })
    }

    fn standing(&self) -> BoxFuture<'_, Result<Standing, StoreError>> {
        Box::pin(self.read(|tx, _| standing::standing(tx)))
    }

    fn tally(&self) -> &Tally {
        &self.lite.tally
    }

    fn next_digest(&self) -> BoxFuture<'_, Result<Option<Duration>, BoardError>> {
        Box::pin(self.read(digest::next))
    }

    fn purge(&self, older_than: Duration, limit: u32) -> BoxFuture<'_, Result<Purged, BoardError>> {
        Box::pin(self.transaction(move |tx, lite| purge::purge(tx, lite, older_than, limit)))
    }
}

/// The public error for one of the driver, with the name of what was being done.
fn failed(error: rusqlite::Error, doing: &str) -> StoreError {
    let kind = error_kind(&error);
    let text = match kind {
        StoreErrorKind::Schema => format!("{doing}: the tables of notifications are missing"),
        _ => format!("{doing} failed"),
    };
    let said = StoreError::new(kind, text).with_source(error);
    match kind {
        StoreErrorKind::Schema => said.with_advice("make the tables with `postrider notify migrate`"),
        _ => said,
    }
}

/// A duration as the microseconds that columns hold.
fn micros(duration: Duration) -> i64 {
    // Half of what a number holds, so that it can be added to the present.
    i64::try_from(duration.as_micros())
        .unwrap_or(i64::MAX)
        .min(i64::MAX / 2)
}
