//! The conformance suite of the `Store` contract.
//!
//! A backend implements [`StoreHarness`] over a private database and names it in [`store_suite!`](crate::store_suite),
//! which makes one `#[test]` of every case:
//!
//! ```
//! use std::sync::Arc;
//! use postrider_core::{BoxFuture, Event, Store};
//! use postrider_testkit::MemoryStore;
//! use postrider_testkit::store::{Feature, StoreCapabilities, StoreHarness, TestOutbox, Writer};
//!
//! struct Memory;
//! struct Outbox(MemoryStore);
//! struct Tx(postrider_testkit::memory::MemoryTx);
//!
//! impl StoreHarness for Memory {
//!     fn capabilities(&self) -> StoreCapabilities {
//!         StoreCapabilities { shards: 8, lacks: vec![(Feature::Crashes, "it ends with its process")] }
//!     }
//!     fn fresh(&self) -> BoxFuture<'_, Box<dyn TestOutbox>> {
//!         Box::pin(async { Box::new(Outbox(MemoryStore::new(8))) as Box<dyn TestOutbox> })
//!     }
//! }
//!
//! impl TestOutbox for Outbox {
//!     fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
//!         Box::pin(async { Arc::new(self.0.clone()) as Arc<dyn Store> })
//!     }
//!     fn begin(&self) -> BoxFuture<'_, Box<dyn Writer>> {
//!         Box::pin(async { Box::new(Tx(self.0.begin())) as Box<dyn Writer> })
//!     }
//! }
//!
//! impl Writer for Tx {
//!     fn insert<'a>(&'a mut self, event: &'a Event) -> BoxFuture<'a, Result<(), String>> {
//!         Box::pin(async { self.0.insert(event.clone()).map(drop).map_err(|error| error.to_string()) })
//!     }
//!     fn commit(self: Box<Self>) -> BoxFuture<'static, ()> {
//!         Box::pin(async { self.0.commit() })
//!     }
//!     fn rollback(self: Box<Self>) -> BoxFuture<'static, ()> {
//!         Box::pin(async { self.0.rollback() })
//!     }
//! }
//!
//! mod conformance {
//!     use super::Memory;
//!     postrider_testkit::store_suite!(Memory);
//! }
//! # fn main() {}
//! ```

mod audit;
mod bench;
mod blocked;
mod cases;
mod console;
mod content;
mod control;
mod crash;
mod deeds;
mod doorbell;
mod duty;
mod edit;
mod edit_anew;
mod faults;
mod find;
mod history;
mod hold;
mod job;
mod keep;
mod lease;
mod level_one;
mod lines;
mod operate;
mod order;
mod pages;
mod parked;
mod read;
mod replay;
mod replayed;
mod schedule;
mod settle;
mod share;
mod takeover;
mod versions;
mod worded;
mod words;

use std::sync::Arc;

use postrider_core::{BoxFuture, Console, Event, Store, Upkeep};

use crate::suite;

pub use bench::Bench;
pub use cases::CASES;
pub use crash::{Doomed, doomed};

/// What a store may lack. Nothing else is optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// More than one shard.
    SeveralShards,
    /// Two producing transactions may be open at a time.
    SeveralWriters,
    /// The horizon moves; without it every read starts from zero.
    Horizon,
    /// The tables accept a row that cannot be read as an event.
    BadRows,
    /// Rows may be inserted as part of a replay.
    Replays,
    /// Ids are checked against the history.
    LevelOne,
    /// The store has a doorbell.
    Doorbell,
    /// The store has a console.
    Console,
    /// The console lists by every filter, from either end.
    Lists,
    /// Failures are grouped by what their texts have in common.
    Groups,
    /// The console has jobs.
    Jobs,
    /// Jobs send sent events again.
    Copies,
    /// Scheduled events are moved, and are no burden however many they are.
    Schedules,
    /// Payloads are changed.
    Edits,
    /// The console tells what is paused or limited, and limits.
    Controls,
    /// A key is paused.
    KeyPauses,
    /// The console tells what people did, to an event and at all.
    Audits,
    /// Duties are claimed.
    Duties,
    /// The history is read as rows, and read back.
    Histories,
    /// Everything that is kept for a time is purged.
    Purges,
    /// The outbox outlives a process that works on it.
    Crashes,
}

/// What a store can do, as data.
#[derive(Clone, Debug)]
pub struct StoreCapabilities {
    /// The number of shards of a fresh outbox.
    pub shards: u16,
    /// What it lacks, each with the reason that is printed when a case is skipped.
    pub lacks: Vec<(Feature, &'static str)>,
}

impl StoreCapabilities {
    fn why_not(&self, feature: Feature) -> Option<&'static str> {
        if feature == Feature::SeveralShards && self.shards < 2 {
            return Some("the outbox has one shard");
        }
        suite::lacking(&self.lacks, feature)
    }
}

/// How a backend lends itself to the suite.
pub trait StoreHarness: Send + Sync {
    /// What it can do.
    fn capabilities(&self) -> StoreCapabilities;

    /// A fresh, empty outbox with nothing of another case in it.
    fn fresh(&self) -> BoxFuture<'_, Box<dyn TestOutbox>>;
}

/// One outbox of one case. Dropped at the end of the case.
pub trait TestOutbox: Send + Sync {
    /// Opens a handle of its own, as another relay's process would.
    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>>;

    /// Begins a producer's transaction.
    fn begin(&self) -> BoxFuture<'_, Box<dyn Writer>>;

    /// The operators' side; needed unless the store lacks [`Feature::Console`].
    fn console(&self) -> Option<Arc<dyn Console>> {
        None
    }

    /// The housekeepers' side; needed where the console is.
    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        None
    }

    /// What another process needs to work on this outbox and die; needed unless the store lacks [`Feature::Crashes`].
    fn doomed(&self) -> Option<Doomed> {
        None
    }
}

/// A producer's transaction.
pub trait Writer: Send {
    /// Inserts an event by the store's own producing side. The error is for people.
    fn insert<'a>(&'a mut self, event: &'a Event) -> BoxFuture<'a, Result<(), String>>;

    /// Inserts a row with the id, key and priority of the event that cannot be read as an event, as a producer in
    /// another language might (headers that are not JSON, for one); needed unless the store lacks
    /// [`Feature::BadRows`].
    fn insert_bad<'a>(&'a mut self, event: &'a Event) -> BoxFuture<'a, Result<(), String>> {
        let id = event.id.clone();
        Box::pin(async move { Err(format!("this harness cannot insert {id} as a bad row")) })
    }

    /// Inserts an event as part of a replay; needed unless the store lacks [`Feature::Replays`].
    fn insert_replay<'a>(
        &'a mut self,
        event: &'a Event,
        replay: &'a str,
    ) -> BoxFuture<'a, Result<(), String>> {
        let id = event.id.clone();
        Box::pin(async move {
            Err(format!(
                "this harness cannot insert {id} as part of replay {replay}"
            ))
        })
    }

    /// Commits.
    fn commit(self: Box<Self>) -> BoxFuture<'static, ()>;

    /// Rolls back.
    fn rollback(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// One case of the suite.
pub type Case = suite::Case<Feature, Bench>;

/// Runs one case by name on a runtime of its own. What [`store_suite!`](crate::store_suite) calls.
pub fn run(name: &str, harness: impl StoreHarness) {
    let capabilities = harness.capabilities();
    let why_not = |feature| capabilities.why_not(feature);
    suite::run("store", (CASES, name), why_not, Bench::new(&harness));
}
