//! Databases that refuse, keep or hide single rows: the others flow.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postrider_core::{
    BoxFuture, Heartbeat, Page, Read, Settle, Settled, Standing, Store, StoreError, StoreErrorKind,
};
use postrider_memory::MemorySink;
use postrider_testkit::MemoryStore;

use crate::support::*;

/// A database that refuses every settle which names one event.
#[derive(Clone)]
struct Picky(MemoryStore);

impl Store for Picky {
    fn heartbeat(&self, beat: Heartbeat) -> BoxFuture<'_, Result<Standing, StoreError>> {
        self.0.heartbeat(beat)
    }

    fn read(&self, read: Read) -> BoxFuture<'_, Result<Page, StoreError>> {
        self.0.read(read)
    }

    fn settle(&self, settle: Arc<Settle>) -> BoxFuture<'_, Result<Vec<Settled>, StoreError>> {
        match settle
            .queued
            .iter()
            .any(|entry| entry.event_id.as_str() == "poison-1")
        {
            true => {
                Box::pin(async { Err(StoreError::new(StoreErrorKind::Other, "a constraint is violated")) })
            }
            false => self.0.settle(settle),
        }
    }
}

/// Fault C9.
#[tokio::test]
async fn an_entry_that_the_database_refuses_does_not_hold_up_the_others() {
    let (memory, sink) = (MemoryStore::new(4), MemorySink::new());
    commit(&memory, &["a", "b", "poison", "c"], 50);
    let relay = relay(&Picky(memory.clone()), &sink);
    let running = Running::start(&relay);
    until("all but one row are settled", || {
        memory.with_model(|model, _| model.queued().count()) == 1
    })
    .await;
    drop(running);
    assert_exact(&sink, &["a", "b", "poison", "c"], 50);
}

/// A database that keeps one row at the first settle which names it, as a trigger may.
#[derive(Clone)]
struct Keeping {
    memory: MemoryStore,
    asked: Arc<AtomicUsize>,
}

impl Store for Keeping {
    fn heartbeat(&self, beat: Heartbeat) -> BoxFuture<'_, Result<Standing, StoreError>> {
        self.memory.heartbeat(beat)
    }

    fn read(&self, read: Read) -> BoxFuture<'_, Result<Page, StoreError>> {
        self.memory.read(read)
    }

    fn settle(&self, settle: Arc<Settle>) -> BoxFuture<'_, Result<Vec<Settled>, StoreError>> {
        let kept = settle
            .queued
            .iter()
            .position(|entry| entry.event_id.as_str() == "a-1");
        let Some(kept) = kept.filter(|_| self.asked.fetch_add(1, Ordering::Relaxed) == 0) else {
            return self.memory.settle(settle);
        };
        let mut others = (*settle).clone();
        others.queued.remove(kept);
        Box::pin(async move {
            let mut answers = self.memory.settle(Arc::new(others)).await?;
            answers.insert(kept, Settled::Kept);
            Ok(answers)
        })
    }
}

/// Fault A25. What cannot be written is held and written later; forgotten, it would be read and published again.
#[tokio::test]
async fn a_row_that_the_database_keeps_is_published_once_and_settled_later() {
    let (memory, sink) = (MemoryStore::new(4), MemorySink::new());
    commit(&memory, &["a", "b"], 20);
    let store = Keeping {
        memory: memory.clone(),
        asked: Arc::default(),
    };
    let relay = relay(&store, &sink);
    let running = Running::start(&relay);
    let queued = || memory.with_model(|model, _| model.queued().count());
    until("all but one row are settled", || queued() == 1).await;
    assert_eq!(store.asked.load(Ordering::Relaxed), 1);
    until("the last row is settled", || queued() == 0).await;
    assert_eq!(store.asked.load(Ordering::Relaxed), 2);
    drop(running);
    assert_exact(&sink, &["a", "b"], 20);
}
