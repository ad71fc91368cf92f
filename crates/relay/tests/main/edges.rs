//! Faults at the edges: the database and the sink misbehave, the relay does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use postrider_core::{Sink, StoreErrorKind};
use postrider_memory::MemorySink;
use postrider_relay::engine::Note;
use postrider_relay::{Relay, Settings};
use postrider_testkit::MemoryStore;
use postrider_testkit::faulty::{Fault, FaultySink, FaultyStore, Gate};

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

/// A relay with a short lease on a store that can be told to fail.
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

fn failed(what: &'static str) -> impl Fn(&Note) -> bool {
    move |note| matches!(note, Note::StoreFailed { doing, .. } if *doing == what)
}

#[tokio::test]
async fn a_settle_whose_answer_is_lost_doubles_nothing() {
    let bench = bench(8);
    for call in [1, 2, 4, 5] {
        let lost = Fault::FailAfterWrite(StoreErrorKind::Unreachable);
        bench.store.settles().on(call, lost);
    }
    commit(&bench.memory, &["a", "b", "c"], 100);
    let report = drained(&bench.relay).await;
    assert_eq!(report.published, 300);
    assert!(is_empty(&bench.memory));
    assert_exact(&bench.sink, &["a", "b", "c"], 100);
    assert_eq!(bench.memory.with_model(|model, _| model.counters().sent), 300);
    assert!(bench.heard.count(failed("settle")) >= 2);
}

/// Fault A17.
#[tokio::test]
async fn a_settle_that_is_refused_is_written_later() {
    let bench = bench(8);
    for _ in 0..3 {
        bench.store.settles().next(Fault::Reject(StoreErrorKind::Busy));
    }
    commit(&bench.memory, &["a"], 20);
    drained(&bench.relay).await;
    assert!(is_empty(&bench.memory));
    assert_exact(&bench.sink, &["a"], 20);
    assert_eq!(bench.heard.count(failed("settle")), 3);
}

/// Fault C4.
#[tokio::test]
async fn heartbeats_that_fail_for_longer_than_the_lease_stop_publishing_until_they_heal() {
    let bench = bench(8);
    let running = Running::start(&bench.relay);
    commit(&bench.memory, &["a"], 1);
    bench.sink.wait_for(1, PATIENCE).await.unwrap();
    let beats = bench.store.heartbeats();
    beats.from(1, Fault::Reject(StoreErrorKind::Unreachable));
    // A quarter of a second lies between two of them: the lease is over.
    until("a long outage", || bench.heard.count(failed("heartbeat")) >= 4).await;
    bench.memory.enqueue(event("a", 2)).unwrap();
    let beat = beats.calls();
    until("another heartbeat", || beats.calls() > beat).await;
    assert_eq!(bench.sink.messages().len(), 1, "nobody publishes without a lease");
    beats.clear();
    bench.sink.wait_for(2, PATIENCE).await.unwrap();
    until("an empty outbox", || is_empty(&bench.memory)).await;
    running.stop().await;
    assert_exact(&bench.sink, &["a"], 2);
}

/// Fault C4. A lease counts from the moment it was asked for: what an answer that comes too late grants is over
/// already.
#[tokio::test]
async fn a_renewal_that_is_answered_after_its_lease_lets_nothing_pass() {
    let bench = bench(8);
    let running = Running::start(&bench.relay);
    commit(&bench.memory, &["a"], 1);
    bench.sink.wait_for(1, PATIENCE).await.unwrap();
    let (beats, gate) = (bench.store.heartbeats(), Gate::new());
    beats.next(Fault::HoldAnswer(gate.clone()));
    gate.reached(1).await;
    // The database has renewed the lease, and nobody has heard of it; nothing is renewed after that.
    beats.from(1, Fault::Reject(StoreErrorKind::Unreachable));
    let renewed = Instant::now();
    until("the lease is over", || renewed.elapsed() > LEASE).await;
    bench.memory.enqueue(event("a", 2)).unwrap();
    let calls = beats.calls();
    gate.open();
    until("heartbeats after the late answer", || beats.calls() > calls + 1).await;
    assert_eq!(bench.sink.messages().len(), 1, "nobody publishes without a lease");
    beats.clear();
    bench.sink.wait_for(2, PATIENCE).await.unwrap();
    until("an empty outbox", || is_empty(&bench.memory)).await;
    running.stop().await;
    assert_exact(&bench.sink, &["a"], 2);
}

/// Fault C3.
#[tokio::test]
async fn a_relay_cut_off_from_the_database_is_relieved_by_another_and_comes_back() {
    let bench = bench(8);
    let keys = ["a", "b", "c", "d"];
    let first = Running::start(&bench.relay);
    commit(&bench.memory, &keys, 1);
    bench.sink.wait_for(4, PATIENCE).await.unwrap();
    let lost = || Fault::Reject(StoreErrorKind::Unreachable);
    bench.store.heartbeats().from(1, lost());
    bench.store.reads().from(1, lost());
    bench.store.settles().from(1, lost());
    let other = relay_with(&bench.memory, &bench.sink, short_lease());
    let second = Running::start(&other);
    for key in keys {
        bench.memory.enqueue(event(key, 2)).unwrap();
    }
    bench.sink.wait_for(8, PATIENCE).await.unwrap();
    bench.store.heartbeats().clear();
    bench.store.reads().clear();
    bench.store.settles().clear();
    until("two owners", || {
        bench.memory.with_model(|model, _| {
            let mut owners: Vec<_> = model
                .owners()
                .filter_map(|(_, state)| state.owner.clone())
                .collect();
            owners.sort();
            owners.dedup();
            owners.len() == 2
        })
    })
    .await;
    for key in keys {
        bench.memory.enqueue(event(key, 3)).unwrap();
    }
    until("an empty outbox", || is_empty(&bench.memory)).await;
    first.stop().await;
    second.stop().await;
    assert_clean(&bench.sink, &keys, 3);
}

#[tokio::test]
async fn a_heartbeat_whose_answer_is_lost_is_made_again() {
    let bench = bench(8);
    for call in 1..=3 {
        let lost = Fault::FailAfterWrite(StoreErrorKind::Unreachable);
        bench.store.heartbeats().on(call, lost);
    }
    commit(&bench.memory, &["a"], 10);
    drained(&bench.relay).await;
    assert_exact(&bench.sink, &["a"], 10);
}

#[tokio::test]
async fn reads_that_fail_are_made_again() {
    let bench = bench(8);
    bench
        .store
        .reads()
        .on(1, Fault::Reject(StoreErrorKind::Unreachable));
    bench
        .store
        .reads()
        .on(2, Fault::FailAfterWrite(StoreErrorKind::Corrupt));
    commit(&bench.memory, &["a"], 10);
    drained(&bench.relay).await;
    assert_exact(&bench.sink, &["a"], 10);
    assert_eq!(bench.heard.count(failed("read")), 2);
}

#[tokio::test]
async fn a_database_that_answers_nothing_for_a_while_only_delays() {
    let bench = bench(8);
    let gates = [(); 3].map(|()| Gate::new());
    commit(&bench.memory, &["a", "b"], 50);
    bench.store.reads().on(1, Fault::Hold(gates[0].clone()));
    bench.store.settles().on(1, Fault::HoldAnswer(gates[1].clone()));
    bench.store.heartbeats().on(3, Fault::Hold(gates[2].clone()));
    let running = Running::start(&bench.relay);
    for gate in &gates {
        within("a held call", gate.reached(1)).await;
        gate.open();
    }
    until("an empty outbox", || is_empty(&bench.memory)).await;
    running.stop().await;
    assert_clean(&bench.sink, &["a", "b"], 50);
}

/// A sink whose first calls go wrong in a way that is no answer at all.
async fn survives(misbehave: fn() -> Misbehaviour) {
    let bench = bench(8);
    let calls = Arc::new(AtomicUsize::new(0));
    let bad = FnSink::before(&bench.sink, move |inner, batch| {
        let call = calls.fetch_add(1, Ordering::SeqCst);
        let how = misbehave();
        async move {
            match how {
                _ if call >= 3 => inner.publish(batch).await,
                Misbehaviour::Panic => panic!("a bug in a sink"),
                Misbehaviour::Silence => std::future::pending().await,
                Misbehaviour::TooFew => {
                    let mut answers = inner.publish(batch).await;
                    answers.truncate(answers.len() / 2);
                    answers
                }
                Misbehaviour::TooMany => {
                    let mut answers = inner.publish(batch).await;
                    answers.extend(answers.clone());
                    answers
                }
            }
        }
    });
    let settings = Settings {
        publish_timeout: Duration::from_millis(50),
        ..quick()
    };
    commit(&bench.memory, &["a", "b", "c"], 20);
    let relay = relay_with(&bench.memory, &bad, settings);
    let running = Running::start(&relay);
    until("an empty outbox", || is_empty(&bench.memory)).await;
    let report = running.stop().await;
    assert_eq!((report.published, report.dead), (60, 0));
    assert_clean(&bench.sink, &["a", "b", "c"], 20);
}

#[derive(Clone, Copy)]
enum Misbehaviour {
    Panic,
    Silence,
    TooFew,
    TooMany,
}

/// Fault C7.
#[tokio::test]
async fn a_sink_that_panics_is_asked_again() {
    survives(|| Misbehaviour::Panic).await;
}

/// Fault B20.
#[tokio::test]
async fn a_sink_that_never_answers_is_asked_again() {
    survives(|| Misbehaviour::Silence).await;
}

/// Fault B23.
#[tokio::test]
async fn a_sink_that_answers_too_little_is_asked_again_for_the_rest() {
    survives(|| Misbehaviour::TooFew).await;
}

#[tokio::test]
async fn a_sink_that_answers_too_much_is_not_believed_beyond_its_batch() {
    survives(|| Misbehaviour::TooMany).await;
}

/// Fault C1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_run_in_the_middle_loses_nothing_and_marks_what_is_repeated() {
    let bench = bench(8);
    let keys = ["a", "b", "c", "d"];
    commit(&bench.memory, &keys, 200);
    let faulty = FaultySink::new(Arc::new(FnSink::slow(&bench.sink, Duration::from_millis(1))));
    let settings = Settings {
        batch_size: 10,
        ..short_lease()
    };
    let relay = relay_with(&bench.memory, &faulty, settings);
    for round in 1..=3 {
        let running = Running::start(&relay);
        until("some progress", || bench.sink.messages().len() > round * 150).await;
        running.drop_now().await;
    }
    let running = Running::start(&relay);
    until("an empty outbox", || is_empty(&bench.memory)).await;
    running.stop().await;
    assert_clean(&bench.sink, &keys, 200);
}

#[tokio::test]
async fn a_dropped_run_publishes_nothing_more() {
    let bench = bench(1);
    let (faulty, gate) = (FaultySink::new(Arc::new(bench.sink.clone())), Gate::new());
    faulty.publishes().on(1, Fault::Hold(gate.clone()));
    commit(&bench.memory, &["a"], 5);
    let relay = relay_with(&bench.memory, &faulty, short_lease());
    let running = Running::start(&relay);
    within("a publish", gate.reached(1)).await;
    running.drop_now().await;
    gate.open();
    // Nothing must happen, so there is nothing to wait for. One thread runs every task here: whatever was let go has
    // had its turn after this.
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(bench.sink.messages().is_empty());
    drained(&relay).await;
    assert_clean(&bench.sink, &["a"], 5);
}

/// Fault A6.
#[tokio::test]
async fn a_transaction_that_stays_open_holds_its_own_place_only() {
    let bench = bench(1);
    let running = Running::start(&bench.relay);
    let mut open = bench.memory.begin();
    open.insert(event("a", 1)).unwrap();
    bench.memory.enqueue(event("b", 1)).unwrap();
    bench.sink.wait_for(1, PATIENCE).await.unwrap();
    let mut rolled_back = bench.memory.begin();
    rolled_back.insert(event("c", 1)).unwrap();
    rolled_back.rollback();
    open.commit();
    bench.sink.wait_for(2, PATIENCE).await.unwrap();
    until("an empty outbox", || is_empty(&bench.memory)).await;
    running.stop().await;
    assert_eq!(ids(&bench.sink.messages()), ["b-1", "a-1"]);
}
