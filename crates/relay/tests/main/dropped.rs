//! A run that is dropped in the middle of whatever it does.

use std::sync::Arc;
use std::time::Duration;

use postrider_relay::Settings;
use postrider_testkit::faulty::{Fault, FaultySink, Gate};

use crate::bench::{bench, short_lease};
use crate::support::*;

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
