//! A [`Model`] behind a lock and a real clock: a store for suites, examples and users' own tests.

mod console;
mod upkeep;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use postrider_core::{
    BoxFuture, Doorbell, Event, Heartbeat, Migration, Page, Read, Ring, Schema, SchemaStatus, Seq, Settle,
    Settled, Shard, Standing, Store, StoreError, StoreErrorKind,
};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::model::{InsertError, Model, NewRow, Options, TxId};

/// An outbox in memory. Clones are handles to the same database, as several relays would have them.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    model: Mutex<Model>,
    /// The database's clock: the wall clock at the start, then tokio's, so that a test may pause it.
    born: (Duration, Instant),
    /// Raised by every commit, and by everything that a person does.
    commits: watch::Sender<u64>,
}

impl MemoryStore {
    /// A fresh database with this many shards.
    pub fn new(shards: u16) -> Self {
        Self::with(Options {
            shards,
            ..Options::default()
        })
    }

    /// A fresh database.
    pub fn with(options: Options) -> Self {
        let wall = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            shared: Arc::new(Shared {
                model: Mutex::new(Model::with(options)),
                born: (wall, Instant::now()),
                commits: watch::Sender::new(0),
            }),
        }
    }

    /// Begins a transaction. Dropped without a commit, it rolls back.
    pub fn begin(&self) -> MemoryTx {
        MemoryTx {
            tx: self.model().begin(),
            store: self.clone(),
        }
    }

    /// Commits one event in a transaction of its own.
    pub fn enqueue(&self, event: Event) -> Result<Seq, InsertError> {
        let mut tx = self.begin();
        let seq = tx.insert(event)?;
        tx.commit();
        Ok(seq)
    }

    /// Looks at the database, or does what an operator does; `now` is its clock.
    pub fn with_model<T>(&self, look: impl FnOnce(&mut Model, Duration) -> T) -> T {
        let now = self.now();
        look(&mut self.model(), now)
    }

    /// Wakes whoever sleeps.
    fn ring(&self) {
        self.shared.commits.send_modify(|n| *n += 1);
    }

    fn now(&self) -> Duration {
        let (wall, born) = self.shared.born;
        wall + born.elapsed()
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        // A panic under the lock is a broken contract that a test reports; later looks at the data may explain it.
        self.shared.model.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A producer's transaction.
#[derive(Debug)]
pub struct MemoryTx {
    store: MemoryStore,
    tx: TxId,
}

impl MemoryTx {
    /// Inserts an event, or a row as another language might have written it.
    pub fn insert(&mut self, row: impl Into<NewRow>) -> Result<Seq, InsertError> {
        let now = self.store.now();
        self.store.model().insert(now, self.tx, row)
    }

    /// Makes the rows visible and rings.
    pub fn commit(self) {
        self.store.model().commit(self.tx);
        self.store.ring();
    }

    /// Forgets the rows.
    pub fn rollback(self) {}
}

impl Drop for MemoryTx {
    fn drop(&mut self) {
        // Does nothing after a commit: the transaction is over by then.
        self.store.model().rollback(self.tx);
    }
}

impl Store for MemoryStore {
    fn heartbeat(&self, beat: Heartbeat) -> BoxFuture<'_, Result<Standing, StoreError>> {
        Box::pin(async move {
            let standing = self.with_model(|model, now| model.heartbeat(now, &beat));
            if !beat.claim || !beat.release.is_empty() {
                self.shared.commits.send_modify(|n| *n += 1);
            }
            Ok(standing)
        })
    }

    fn read(&self, read: Read) -> BoxFuture<'_, Result<Page, StoreError>> {
        Box::pin(async move { Ok(self.with_model(|model, now| model.read(now, &read))) })
    }

    fn settle(&self, settle: Arc<Settle>) -> BoxFuture<'_, Result<Vec<Settled>, StoreError>> {
        Box::pin(async move { Ok(self.with_model(|model, now| model.settle(now, &settle))) })
    }

    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        Some(Arc::new(self.clone()))
    }
}

impl Doorbell for MemoryStore {
    /// Rings for every commit, whatever its shard: a ring for nothing is allowed.
    fn arm(&self, _shards: Vec<Shard>) -> BoxFuture<'_, Result<Ring, StoreError>> {
        let mut commits = self.shared.commits.subscribe();
        let ring: Ring = Box::pin(async move {
            if commits.changed().await.is_err() {
                // Nobody is left who could commit.
                std::future::pending::<()>().await;
            }
        });
        Box::pin(async move { Ok(ring) })
    }
}

impl Schema for MemoryStore {
    fn migrations(&self) -> Vec<Migration> {
        Vec::new()
    }

    fn status(&self) -> BoxFuture<'_, Result<SchemaStatus, StoreError>> {
        Box::pin(async move {
            Ok(self.with_model(|model, _| SchemaStatus {
                installed: 1,
                wanted: 1,
                queued: model.queued().count() as u64,
                parked: model.parked().count() as u64,
                differs: Vec::new(),
            }))
        })
    }

    fn up(&self) -> BoxFuture<'_, Result<Vec<u32>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Removes nothing, because there are no tables; refuses where a real store must.
    fn down(&self) -> BoxFuture<'_, Result<Vec<u32>, StoreError>> {
        Box::pin(async move {
            let status = Schema::status(self).await?;
            if status.queued + status.parked > 0 {
                let text = format!(
                    "{} queued and {} parked rows would be lost",
                    status.queued, status.parked
                );
                return Err(StoreError::new(StoreErrorKind::Schema, text));
            }
            Ok(Vec::new())
        })
    }
}
