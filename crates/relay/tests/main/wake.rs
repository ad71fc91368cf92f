//! What wakes a relay that sleeps, and what it does without a doorbell that works.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider_core::{BoxFuture, Doorbell, Ring, Shard, Store, StoreError};
use postrider_memory::MemorySink;
use postrider_relay::{Relay, Settings};
use postrider_testkit::MemoryStore;
use postrider_testkit::faulty::FaultyStore;

use crate::support::*;

/// A doorbell that knows who sleeps beside it.
#[derive(Clone)]
struct Bell {
    store: FaultyStore,
    /// What rings; without it nothing ever does, as when all the messages get lost.
    inner: Option<Arc<dyn Doorbell>>,
    armings: Arc<AtomicUsize>,
    /// How many reads there had been when each of those was armed that still are, and for how many shards.
    armed: Arc<Mutex<BTreeMap<usize, (u64, usize)>>>,
}

impl Bell {
    fn new(store: &FaultyStore, inner: Option<Arc<dyn Doorbell>>) -> Self {
        Self {
            store: store.clone(),
            inner,
            armings: Arc::default(),
            armed: Arc::default(),
        }
    }

    /// So many relays sleep: each has armed the bell and has looked once more since.
    fn asleep(&self, relays: usize) -> bool {
        let armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        let reads = self.store.reads().calls();
        armed.len() == relays && armed.values().all(|(before, _)| reads > *before)
    }

    /// The shards that are slept on, each as often as somebody does.
    fn shards(&self) -> usize {
        let armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        armed.values().map(|(_, shards)| shards).sum()
    }
}

impl Doorbell for Bell {
    fn arm(&self, shards: Vec<Shard>) -> BoxFuture<'_, Result<Ring, StoreError>> {
        let armed = Armed(self.clone(), self.armings.fetch_add(1, Ordering::SeqCst));
        let (rings, count) = (self.inner.clone(), shards.len());
        Box::pin(async move {
            let ring: Ring = match rings {
                Some(bell) => bell.arm(shards).await?,
                None => Box::pin(std::future::pending()),
            };
            armed.begin(count);
            Ok(Box::pin(async move {
                let _armed = armed;
                ring.await;
            }) as Ring)
        })
    }
}

/// One arming, until it has rung or is given up.
struct Armed(Bell, usize);

impl Armed {
    fn begin(&self, shards: usize) {
        let Self(bell, number) = self;
        let mut armed = bell.armed.lock().unwrap_or_else(PoisonError::into_inner);
        armed.insert(*number, (bell.store.reads().calls(), shards));
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        let Self(bell, number) = self;
        let mut armed = bell.armed.lock().unwrap_or_else(PoisonError::into_inner);
        armed.remove(number);
    }
}

/// A relay that looks once in ten minutes by itself, and its doorbell: one that rings, or one that does not.
fn sleepy(memory: &MemoryStore, sink: &MemorySink, rings: bool, lease: Duration) -> (Relay, Bell) {
    let faulty = FaultyStore::new(Arc::new(memory.clone()));
    let bell = Bell::new(&faulty, memory.doorbell().filter(|_| rings));
    let store = Rewired {
        inner: Arc::new(faulty),
        bell: Some(Arc::new(bell.clone())),
    };
    let settings = Settings {
        poll_interval: Duration::from_secs(600),
        lease,
        ..quick()
    };
    let relay = relay_with(&store, sink, settings);
    (relay, bell)
}

/// A relay that sleeps for ten minutes and hears no doorbell.
async fn asleep(memory: &MemoryStore, sink: &MemorySink) -> (Relay, Running) {
    let (relay, bell) = sleepy(memory, sink, false, quick().lease);
    let running = Running::start(&relay);
    until("it sleeps", || bell.asleep(1)).await;
    (relay, running)
}

#[tokio::test]
async fn a_nudge_wakes_a_sleeping_relay_at_once() {
    let (store, sink) = (MemoryStore::new(4), MemorySink::new());
    let (relay, running) = asleep(&store, &sink).await;
    commit(&store, &["a"], 1);
    relay.nudge();
    sink.wait_for(1, PATIENCE).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn a_nudger_wakes_it_too() {
    let (store, sink) = (MemoryStore::new(4), MemorySink::new());
    let (relay, running) = asleep(&store, &sink).await;
    let nudger = relay.nudger();
    commit(&store, &["a"], 1);
    nudger.nudge();
    sink.wait_for(1, PATIENCE).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn one_nudge_wakes_every_run() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    let (relay, bell) = sleepy(&store, &sink, false, Duration::from_millis(600));
    let (a, b) = (Running::start(&relay), Running::start(&relay));
    until("two owners", || {
        relay.nudge();
        two_owners(&store)
    })
    .await;
    // The last nudge has woken both: they arm the bell again before they sleep.
    let before = bell.armings.load(Ordering::SeqCst);
    until("both sleep", || {
        bell.armings.load(Ordering::SeqCst) >= before + 2 && bell.asleep(2)
    })
    .await;
    let keys = many_keys(40);
    commit(&store, &keys, 1);
    relay.nudge();
    sink.wait_for(40, Duration::from_secs(2)).await.unwrap();
    a.stop().await;
    b.stop().await;
}

/// A relay that went on sleeping on what it gave up would keep the new owner from it.
#[tokio::test]
async fn nobody_sleeps_on_a_shard_that_was_given_up() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    let (relay, bell) = sleepy(&store, &sink, false, Duration::from_millis(600));
    let a = Running::start(&relay);
    until("the first sleeps on all shards", || {
        bell.asleep(1) && bell.shards() == 8
    })
    .await;
    let b = Running::start(&relay);
    until("two owners", || two_owners(&store)).await;
    until("each sleeps on its own", || bell.asleep(2) && bell.shards() == 8).await;
    // What the second had taken over stays with nobody when it ends; the first sleeps on all of them again.
    b.stop().await;
    until("the first sleeps on all shards", || {
        bell.asleep(1) && bell.shards() == 8
    })
    .await;
    a.stop().await;
}

#[tokio::test]
async fn a_doorbell_wakes_a_relay_that_polls_once_in_ten_minutes() {
    let (store, sink) = (MemoryStore::new(4), MemorySink::new());
    let (relay, bell) = sleepy(&store, &sink, true, quick().lease);
    let running = Running::start(&relay);
    for n in 1..=5 {
        until("it sleeps", || bell.asleep(1)).await;
        store.enqueue(event("a", n)).unwrap();
        sink.wait_for(n as usize, PATIENCE).await.unwrap();
    }
    running.stop().await;
}

/// Fault A20.
#[tokio::test]
async fn a_store_without_a_doorbell_is_polled() {
    let (memory, sink) = (MemoryStore::new(4), MemorySink::new());
    let store = Rewired {
        inner: Arc::new(memory.clone()),
        bell: None,
    };
    let running = Running::start(&relay(&store, &sink));
    for n in 1..=5 {
        memory.enqueue(event("a", n)).unwrap();
        sink.wait_for(n as usize, PATIENCE).await.unwrap();
    }
    running.stop().await;
}

/// A doorbell that cannot be armed.
struct Broken {
    panics: bool,
    tried: Arc<AtomicUsize>,
}

impl Doorbell for Broken {
    fn arm(&self, _: Vec<Shard>) -> BoxFuture<'_, Result<Ring, StoreError>> {
        self.tried.fetch_add(1, Ordering::SeqCst);
        let panics = self.panics;
        Box::pin(async move {
            match panics {
                true => panic!("bell"),
                false => std::future::pending().await,
            }
        })
    }
}

async fn polled_beside_a_broken_bell(panics: bool) {
    let (memory, sink) = (MemoryStore::new(4), MemorySink::new());
    let tried = Arc::new(AtomicUsize::new(0));
    let bell = Broken {
        panics,
        tried: tried.clone(),
    };
    let store = Rewired {
        inner: Arc::new(memory.clone()),
        bell: Some(Arc::new(bell)),
    };
    let running = Running::start(&relay(&store, &sink));
    until("the bell is tried", || tried.load(Ordering::SeqCst) > 0).await;
    memory.enqueue(event("a", 1)).unwrap();
    sink.wait_for(1, Duration::from_secs(3)).await.unwrap();
    running.stop().await;
}

/// Fault A20.
#[tokio::test]
async fn a_doorbell_that_hangs_does_not_stop_the_polling() {
    polled_beside_a_broken_bell(false).await;
}

/// Faults A20 and C7.
#[tokio::test]
async fn a_doorbell_that_panics_does_not_stop_the_polling() {
    polled_beside_a_broken_bell(true).await;
}
