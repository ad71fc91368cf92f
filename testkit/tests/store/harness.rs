//! The database in memory as the suite's harness, with a place to put something between the suite and the store.

use std::sync::Arc;

use postrider_core::{BoxFuture, Console, ErrorKind, Event, Failure, Store, Upkeep};
use postrider_testkit::MemoryStore;
use postrider_testkit::memory::MemoryTx;
use postrider_testkit::model::NewRow;
use postrider_testkit::store::{Feature, StoreCapabilities, StoreHarness, TestOutbox, Writer};

#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) shards: u16,
    pub(crate) store: fn(MemoryStore) -> Arc<dyn Store>,
    pub(crate) console: fn(MemoryStore) -> Arc<dyn Console>,
    pub(crate) upkeep: fn(MemoryStore) -> Arc<dyn Upkeep>,
}

impl Memory {
    pub(crate) fn plain(shards: u16) -> Self {
        Self {
            shards,
            store: |store| Arc::new(store),
            console: |store| Arc::new(store),
            upkeep: |store| Arc::new(store),
        }
    }
}

impl StoreHarness for Memory {
    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities {
            shards: self.shards,
            lacks: vec![(Feature::Crashes, "a database in memory ends with its process")],
        }
    }

    fn fresh(&self) -> BoxFuture<'_, Box<dyn TestOutbox>> {
        Box::pin(async move {
            Box::new(Outbox {
                store: MemoryStore::new(self.shards),
                given: *self,
            }) as Box<dyn TestOutbox>
        })
    }
}

struct Outbox {
    store: MemoryStore,
    given: Memory,
}

impl TestOutbox for Outbox {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async move { (self.given.store)(self.store.clone()) })
    }

    fn begin(&self) -> BoxFuture<'_, Box<dyn Writer>> {
        Box::pin(async move { Box::new(Tx(self.store.begin())) as Box<dyn Writer> })
    }

    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        Some((self.given.upkeep)(self.store.clone()))
    }

    fn console(&self) -> Option<Arc<dyn Console>> {
        Some((self.given.console)(self.store.clone()))
    }
}

struct Tx(MemoryTx);

impl Tx {
    fn row(&mut self, row: NewRow) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move { self.0.insert(row).map(drop).map_err(|error| error.to_string()) })
    }
}

impl Writer for Tx {
    fn insert<'a>(&'a mut self, event: &'a Event) -> BoxFuture<'a, Result<(), String>> {
        self.row(event.clone().into())
    }

    fn insert_bad<'a>(&'a mut self, event: &'a Event) -> BoxFuture<'a, Result<(), String>> {
        self.row(NewRow {
            bad: Some(Failure::new(ErrorKind::BadRow, "the headers are not JSON")),
            ..event.clone().into()
        })
    }

    fn insert_replay<'a>(
        &'a mut self,
        event: &'a Event,
        replay: &'a str,
    ) -> BoxFuture<'a, Result<(), String>> {
        self.row(NewRow {
            replay: Some(replay.into()),
            ..event.clone().into()
        })
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.0.commit() })
    }

    fn rollback(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.0.rollback() })
    }
}
