//! A relay that has nothing to do, or nothing that it could do, costs nothing.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::ErrorKind;
use postrider_memory::MemorySink;
use postrider_relay::Settings;
use postrider_testkit::MemoryStore;
use postrider_testkit::faulty::{Fault, FaultySink, Gate};

use crate::bench::{LEASE, bench};
use crate::support::*;

/// Fails if the relay is woken more often than its timers explain.
async fn rests(running: &Running, most: u64) {
    let woken = running.woken_in(Duration::from_millis(300)).await;
    assert!(woken < most, "woken {woken} times in 300 ms");
}

#[tokio::test]
async fn a_relay_in_its_initial_delay_rests_and_ends_at_once_when_it_is_stopped() {
    let (store, sink) = (MemoryStore::new(4), MemorySink::new());
    let settings = Settings {
        // Far longer than the test has patience.
        initial_delay: Duration::from_secs(600),
        ..quick()
    };
    let relay = relay_with(&store, &sink, settings);
    let running = Running::start(&relay);
    rests(&running, 20).await;
    running.stop().await;
}

#[tokio::test]
async fn a_relay_with_nothing_to_do_rests() {
    let bench = bench(64);
    let running = Running::start(&bench.relay);
    commit(&bench.memory, &["a"], 1);
    until("an empty outbox", || is_empty(&bench.memory)).await;
    rests(&running, 60).await;
    running.stop().await;
}

#[tokio::test]
async fn a_relay_whose_heartbeat_hangs_rests() {
    let (bench, gate) = (bench(8), Gate::new());
    bench.store.heartbeats().from(2, Fault::Hold(gate.clone()));
    let running = Running::start(&bench.relay);
    within("a heartbeat", gate.reached(1)).await;
    // Its lease ends meanwhile, and from then on it may do nothing but wait. It says so to nobody, so there is only the
    // time to go by.
    tokio::time::sleep(LEASE).await;
    rests(&running, 30).await;
    gate.open();
    commit(&bench.memory, &["a"], 1);
    bench.sink.wait_for(1, PATIENCE).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn a_relay_whose_circuit_is_open_with_nothing_to_probe_rests() {
    let bench = bench(8);
    bench.sink.fail_next(ErrorKind::Rejected);
    bench.sink.fail_next(ErrorKind::Unreachable);
    commit(&bench.memory, &["a"], 1);
    let running = Running::start(&bench.relay);
    until("an open circuit", || bench.heard.openings() > 0).await;
    let discarded = bench
        .memory
        .with_model(|model, now| model.discard(now, "not wanted", |_| true));
    assert!(discarded.len() <= 1, "it may have gone just before");
    rests(&running, 60).await;
    // Its pauses have become as long as they get.
    rests(&running, 30).await;
    bench.memory.enqueue(event("b", 1)).unwrap();
    until("the next event", || arrived(&bench.sink, "b").len() == 1).await;
    running.stop().await;
}

#[tokio::test]
async fn a_relay_that_stops_while_a_call_is_under_way_and_a_circuit_is_open_rests() {
    let (store, left, right) = (MemoryStore::new(4), MemorySink::new(), MemorySink::new());
    let (held, gate, heard) = (
        FaultySink::new(Arc::new(left.clone())),
        Gate::new(),
        Arc::new(Heard::default()),
    );
    held.publishes().on(1, Fault::Hold(gate.clone()));
    right.set_reachable(false);
    commit(&store, &["a"], 5);
    let relay = left_and_right(&store, &held, &right)
        .observer(heard.clone())
        .build()
        .unwrap();
    let running = Running::start(&relay);
    within("a call", gate.reached(1)).await;
    until("an open circuit", || heard.openings() > 0).await;
    running.token.cancel();
    rests(&running, 30).await;
    gate.open();
    running.ended().await;
    right.set_reachable(true);
    drained(&relay).await;
    assert_exact(&left, &["a"], 5);
    assert_exact(&right, &["a"], 5);
}
