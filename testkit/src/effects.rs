//! A database in memory in which effects happen once: what the `Effects` contract means.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use postrider_core::{
    Applied, ApplyError, BoxFuture, Effects, HandlerError, Received, StoreError, StoreErrorKind, to_record,
};
use tokio::sync::Notify;
use tokio::time::Instant;

mod console;

/// What is called for each event; it writes its effect through the [`Work`] it is given.
pub type MemoryHandler = dyn Fn(Received, Work) -> BoxFuture<'static, Result<(), HandlerError>> + Send + Sync;

/// The consumer and the id of what took effect.
type Record = (Arc<str>, String);

/// The hash of what took effect, and when that was.
#[derive(Clone, Debug)]
struct Kept {
    hash: Option<String>,
    since: Instant,
}

/// Effects in memory. Clones are handles to the same database. Rows have no unique key, so that an effect that happens
/// twice is there twice.
#[derive(Clone, Debug, Default)]
pub struct MemoryEffects {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Rung when a transaction ends.
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    records: BTreeMap<Record, Kept>,
    /// Records that a transaction has inserted and not committed: who wants the same one waits.
    locked: BTreeSet<Record>,
    rows: Vec<String>,
    away: Option<StoreErrorKind>,
    /// Calls that failed because the database was away.
    refused: usize,
    lose_answer: bool,
}

impl State {
    /// Fails while the database is away.
    fn answer(&mut self) -> Result<(), StoreError> {
        let Some(kind) = self.away else { return Ok(()) };
        self.refused += 1;
        Err(StoreError::new(kind, "the test took the database away"))
    }
}

/// The transaction of one batch, as a handler sees it.
#[derive(Clone, Debug, Default)]
pub struct Work(Arc<Mutex<Vec<String>>>);

impl Work {
    /// Writes one row, visible when the transaction is committed.
    pub fn write(&self, row: impl Into<String>) {
        lock(&self.0).push(row.into());
    }
}

impl MemoryEffects {
    /// An empty database.
    pub fn new() -> Self {
        Self::default()
    }

    /// Every row of committed transactions, in the order of their commits.
    pub fn rows(&self) -> Vec<String> {
        self.state().rows.clone()
    }

    /// Takes the database away, or brings it back: while it is away every call fails with this kind.
    pub fn set_away(&self, kind: Option<StoreErrorKind>) {
        self.state().away = kind;
    }

    /// How many calls failed because it was away.
    pub fn refused(&self) -> usize {
        self.state().refused
    }

    /// Commits the next transaction and loses the answer.
    pub fn lose_next_answer(&self) {
        self.state().lose_answer = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }

    /// Inserts the records that are new, and says which. Waits while another transaction holds one of them.
    async fn record(
        &self,
        consumer: &Arc<str>,
        events: &[(&str, Option<&str>)],
    ) -> Result<(Vec<bool>, Locks<'_>), ApplyError> {
        loop {
            let ended = self.shared.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if let Some(recorded) = self.try_record(consumer, events)? {
                return Ok(recorded);
            }
            ended.await;
        }
    }

    fn try_record(
        &self,
        consumer: &Arc<str>,
        events: &[(&str, Option<&str>)],
    ) -> Result<Option<(Vec<bool>, Locks<'_>)>, ApplyError> {
        let mut state = self.state();
        state.answer().map_err(ApplyError::Store)?;
        let record = |id: &str| (Arc::clone(consumer), id.to_owned());
        if events.iter().any(|(id, _)| state.locked.contains(&record(id))) {
            return Ok(None);
        }
        let mut mine: BTreeMap<Record, Option<String>> = BTreeMap::new();
        let mut news = Vec::with_capacity(events.len());
        for (at, (id, hash)) in events.iter().enumerate() {
            let record = record(id);
            let hash = hash.map(str::to_owned);
            let known = state.records.get(&record).map(|kept| &kept.hash);
            let known = known.or_else(|| mine.get(&record)).cloned();
            match (&known, &hash) {
                (Some(Some(recorded)), Some(hash)) if recorded != hash => {
                    let recorded = recorded.clone();
                    return Err(ApplyError::Reused { at, recorded });
                }
                _ => news.push(known.is_none()),
            }
            if known.is_none() {
                mine.insert(record, hash);
            }
        }
        state.locked.extend(mine.keys().cloned());
        let locks = Locks {
            shared: &self.shared,
            mine,
        };
        Ok(Some((news, locks)))
    }

    fn commit(&self, locks: &Locks<'_>, work: &Work) -> Result<(), ApplyError> {
        let mut state = self.state();
        state.answer().map_err(ApplyError::Store)?;
        let since = Instant::now();
        let kept = |(record, hash): (&Record, &Option<String>)| {
            let hash = hash.clone();
            (record.clone(), Kept { hash, since })
        };
        state.records.extend(locks.mine.iter().map(kept));
        state.rows.append(&mut lock(&work.0));
        if std::mem::take(&mut state.lose_answer) {
            let error = StoreError::new(StoreErrorKind::Unreachable, "the answer to the commit was lost");
            return Err(ApplyError::Store(error));
        }
        Ok(())
    }
}

impl Effects for MemoryEffects {
    type Handler = MemoryHandler;

    fn apply(
        &self,
        consumer: Arc<str>,
        deliveries: Arc<[Received]>,
        handler: Arc<MemoryHandler>,
    ) -> BoxFuture<'_, Result<Vec<Applied>, ApplyError>> {
        Box::pin(async move {
            let events = to_record(&deliveries)?;
            let (news, locks) = self.record(&consumer, &events).await?;
            let work = Work::default();
            for (at, delivery) in deliveries.iter().enumerate().filter(|(at, _)| news[*at]) {
                let done = handler(delivery.clone(), work.clone()).await;
                done.map_err(|error| ApplyError::Handler { at, error })?;
            }
            self.commit(&locks, &work)?;
            let applied = |new| if new { Applied::Now } else { Applied::Before };
            Ok(news.into_iter().map(applied).collect())
        })
    }
}

/// The records of a transaction under way. Given up however it ends, as a database does when a connection is dropped.
struct Locks<'a> {
    shared: &'a Shared,
    mine: BTreeMap<Record, Option<String>>,
}

impl Drop for Locks<'_> {
    fn drop(&mut self) {
        lock(&self.shared.state)
            .locked
            .retain(|record| !self.mine.contains_key(record));
        self.shared.ended.notify_waiters();
    }
}

/// A handler that panics holds no lock of ours, but a test that does must not spoil the others.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
