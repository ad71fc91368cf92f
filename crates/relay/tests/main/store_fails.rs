//! A database that fails, hangs or forgets to answer.

use std::time::Instant;

use postrider_core::StoreErrorKind;
use postrider_relay::engine::Note;
use postrider_testkit::faulty::{Fault, Gate};

use crate::bench::{Bench, LEASE, bench, short_lease};
use crate::support::*;

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

/// Of two events the first was published, and the second is as soon as heartbeats are answered again.
async fn publishes_once_it_may(bench: &Bench, running: Running) {
    assert_eq!(bench.sink.messages().len(), 1, "nobody publishes without a lease");
    bench.store.heartbeats().clear();
    bench.sink.wait_for(2, PATIENCE).await.unwrap();
    until("an empty outbox", || is_empty(&bench.memory)).await;
    running.stop().await;
    assert_exact(&bench.sink, &["a"], 2);
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
    publishes_once_it_may(&bench, running).await;
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
    publishes_once_it_may(&bench, running).await;
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
    until("two owners", || two_owners(&bench.memory)).await;
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
