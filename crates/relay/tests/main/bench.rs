//! A relay with a short lease on a store that can be told to fail.

use std::sync::Arc;
use std::time::Duration;

use postrider_memory::MemorySink;
use postrider_relay::{Relay, Settings};
use postrider_testkit::MemoryStore;
use postrider_testkit::faulty::FaultyStore;

use crate::support::*;

pub(crate) const LEASE: Duration = Duration::from_millis(300);

pub(crate) fn short_lease() -> Settings {
    Settings {
        lease: LEASE,
        ..quick()
    }
}

pub(crate) struct Bench {
    pub(crate) memory: MemoryStore,
    pub(crate) store: FaultyStore,
    pub(crate) sink: MemorySink,
    pub(crate) heard: Arc<Heard>,
    pub(crate) relay: Relay,
}

pub(crate) fn bench(shards: u16) -> Bench {
    let (memory, sink, heard) = (
        MemoryStore::new(shards),
        MemorySink::new(),
        Arc::new(Heard::default()),
    );
    let store = FaultyStore::new(Arc::new(memory.clone()));
    let relay = builder(&store)
        .sink(Arc::new(sink.clone()))
        .settings(short_lease())
        .observer(heard.clone())
        .build()
        .unwrap();
    Bench {
        memory,
        store,
        sink,
        heard,
        relay,
    }
}
