//! Running, stopping, waking up.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::header;
use postrider_memory::MemorySink;
use postrider_relay::Settings;
use postrider_testkit::MemoryStore;
use postrider_testkit::faulty::{Fault, FaultySink, FaultyStore, Gate};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::support::*;

#[tokio::test]
async fn a_drain_empties_the_outbox_and_reports_what_it_did() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    commit(&store, &["a", "b", "c"], 400);
    let relay = relay(&store, &sink);
    let report = drained(&relay).await;
    assert_eq!((report.published, report.parked, report.dead), (1_200, 0, 0));
    assert!(is_empty(&store));
    assert_exact(&sink, &["a", "b", "c"], 400);
    assert_eq!(drained(&relay).await.published, 0, "nothing is left to do");
}

#[tokio::test]
async fn a_cancelled_drain_ends_early() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    sink.set_reachable(false);
    commit(&store, &["a"], 10);
    let relay = relay(&store, &sink);
    let token = CancellationToken::new();
    let draining = tokio::spawn({
        let (relay, token) = (relay.clone(), token.clone());
        async move { relay.drain_until(token).await }
    });
    until("a shard", || {
        store.with_model(|model, _| model.relays().count() == 1)
    })
    .await;
    token.cancel();
    let report = within("a cancelled drain", draining).await.unwrap();
    assert_eq!(report.published, 0);
    assert!(!is_empty(&store));
}

#[tokio::test]
async fn a_stopped_relay_leaves_its_shards_to_the_next_at_once() {
    let (store, sink) = (MemoryStore::new(64), MemorySink::new());
    // The term is far longer than the test has patience: only released shards can be taken.
    let patient = Settings {
        lease: Duration::from_secs(60),
        ..quick()
    };
    let relay = relay_with(&store, &sink, patient);
    let first = Running::start(&relay);
    commit(&store, &["a"], 10);
    sink.wait_for(10, PATIENCE).await.unwrap();
    first.stop().await;
    store.with_model(|model, _| assert!(model.owners().all(|(_, state)| state.owner.is_none())));
    let mut tx = store.begin();
    for n in 11..=20 {
        tx.insert(event("a", n)).unwrap();
    }
    tx.commit();
    let second = Running::start(&relay);
    sink.wait_for(20, PATIENCE).await.unwrap();
    second.stop().await;
    assert_exact(&sink, &["a"], 20);
    let unmarked = |message: &postrider_core::Message| message.header(header::MAYBE_DUPLICATE).is_none();
    assert!(
        sink.messages().iter().all(unmarked),
        "a clean hand-over leaves no doubt"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_repeated_by_graceful_stops_under_load() {
    let (store, sink) = (MemoryStore::new(16), MemorySink::new());
    let keys = ["a", "b", "c", "d", "e"];
    commit(&store, &keys, 400);
    let slow = FnSink::slow(&sink, Duration::from_millis(2));
    let settings = Settings {
        batch_size: 20,
        ..quick()
    };
    let relay = relay_with(&store, &slow, settings);
    let mut stops = 0;
    while !is_empty(&store) {
        let before = sink.messages().len();
        let running = Running::start(&relay);
        until("some progress", || {
            sink.messages().len() > before + 150 || is_empty(&store)
        })
        .await;
        running.stop().await;
        stops += 1;
    }
    assert!(stops > 3, "{stops}");
    assert_exact(&sink, &keys, 400);
}

/// Fault C6.
#[tokio::test]
async fn a_stop_waits_for_what_is_under_way_and_begins_nothing_new() {
    let (store, sink) = (MemoryStore::new(1), MemorySink::new());
    let (faulty, gate) = (FaultySink::new(Arc::new(sink.clone())), Gate::new());
    faulty.publishes().on(1, Fault::HoldAnswer(gate.clone()));
    let settings = Settings {
        batch_size: 2,
        ..quick()
    };
    commit(&store, &["a"], 10);
    let relay = relay_with(&store, &faulty, settings);
    let running = Running::start(&relay);
    gate.reached(1).await;
    running.token.cancel();
    let polls = running.polls();
    until("the stop to be noticed", || running.polls() > polls).await;
    gate.open();
    let report = running.ended().await;
    assert_eq!(report.published, sink.messages().len() as u64);
    assert_eq!(
        faulty.passed().len(),
        1,
        "only the call that was under way: one key, one call"
    );
    drained(&relay).await;
    assert_exact(&sink, &["a"], 10);
}

/// Fault C6.
#[tokio::test]
async fn a_stop_gives_up_on_a_sink_that_does_not_answer() {
    let (store, sink) = (MemoryStore::new(1), MemorySink::new());
    let (faulty, gate) = (FaultySink::new(Arc::new(sink.clone())), Gate::new());
    faulty.publishes().on(1, Fault::HoldAnswer(gate.clone()));
    let settings = Settings {
        drain_timeout: Duration::from_millis(100),
        lease: Duration::from_millis(300),
        ..quick()
    };
    commit(&store, &["a"], 3);
    let relay = relay_with(&store, &faulty, settings);
    let running = Running::start(&relay);
    gate.reached(1).await;
    running.stop().await;
    drained(&relay).await;
    assert_clean(&sink, &["a"], 3);
}

#[tokio::test]
async fn the_initial_delay_comes_before_the_first_call_on_the_database() {
    let (memory, sink) = (MemoryStore::new(4), MemorySink::new());
    let store = FaultyStore::new(Arc::new(memory.clone()));
    commit(&memory, &["a"], 1);
    let delay = Duration::from_millis(400);
    let settings = Settings {
        initial_delay: delay,
        ..quick()
    };
    let relay = relay_with(&store, &sink, settings);
    let begun = Instant::now();
    let running = Running::start(&relay);
    until("the first call", || store.heartbeats().calls() > 0).await;
    assert!(begun.elapsed() >= delay, "{:?}", begun.elapsed());
    sink.wait_for(1, PATIENCE).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn a_drain_waits_for_what_a_dead_relay_held() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    let lease = Settings {
        lease: Duration::from_millis(1500),
        ..quick()
    };
    let relay = relay_with(&store, &sink, lease);
    let (a, b) = (Running::start(&relay), Running::start(&relay));
    until("two owners", || two_owners(&store)).await;
    a.drop_now().await;
    b.stop().await;
    let keys = many_keys(40);
    commit(&store, &keys, 1);
    drained(&relay).await;
    assert_eq!(
        store.with_model(|m, _| m.queued().count()),
        0,
        "queued after a drain"
    );
}

#[tokio::test]
async fn each_run_reports_its_own_work() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    let relay = relay(&store, &sink);
    let (a, b) = (Running::start(&relay), Running::start(&relay));
    until("two owners", || two_owners(&store)).await;
    let keys = many_keys(40);
    commit(&store, &keys, 1);
    until("empty", || is_empty(&store)).await;
    let (a, b) = (a.stop().await, b.stop().await);
    assert_eq!(a.published + b.published, 40);
}
