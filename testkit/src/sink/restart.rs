//! The broker goes away and comes back, in the middle.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Answer, Class, Message, Sink};

use super::bench::{Bench, first_arrivals, is_confirmed, publish, publish_all};
use crate::suite::say_skipped;
use crate::wait::within;

/// Keys of the load; each batch has one message of each.
const KEYS: usize = 10;
/// Batches of the load.
const BATCHES: usize = 30;
/// How long a broker may take to come back.
const RESTART: Duration = Duration::from_secs(45);

/// Fault B12.
pub(super) async fn what_was_confirmed_survives_a_restart(bench: Bench) {
    let sink = bench.open().await;
    if !sink.capabilities().durable {
        say_skipped(
            "sink",
            "restart::what_was_confirmed_survives_a_restart",
            "the sink is not durable",
        );
        return;
    }
    let batch = bench.numbered("m", 50, 10);
    publish_all(&sink, &batch).await;
    bench.broker.stop().await;
    bench.broker.start().await;
    bench.until_arrived(&batch).await;
}

pub(super) async fn a_stopped_broker_is_unavailable(bench: Bench) {
    let sink = bench.open().await;
    publish_all(&sink, &bench.numbered("before", 5, 5)).await;
    bench.broker.stop().await;
    let during = bench.numbered("during", 5, 5);
    for answer in publish(&sink, &during).await {
        let Answer::Failed(failure) = answer else {
            panic!("a stopped broker confirms nothing");
        };
        // Nothing is charged and nothing is parked for an outage.
        assert_eq!(failure.kind.policy().class, Class::Unavailable, "{failure:?}");
    }
    bench.broker.start().await;
    // The sink connects again by itself; the engine only tries again.
    confirm(&sink, &during).await;
    bench.until_arrived(&during).await;
}

/// Fault B3.
pub(super) async fn a_restart_at_one_third_loses_nothing(bench: Bench) {
    restart_at(&bench, BATCHES / 3).await;
}

/// Fault B3.
pub(super) async fn a_restart_at_one_half_loses_nothing(bench: Bench) {
    restart_at(&bench, BATCHES / 2).await;
}

/// Publishes a load, with the broker stopped and started while one batch is under way, and tries again what was not
/// confirmed, as the engine does: a key's next message goes only after the one before it.
async fn restart_at(bench: &Bench, batch: usize) {
    let sink = bench.open().await;
    let load = bench.numbered("m", KEYS * BATCHES, KEYS);
    for (n, messages) in load.chunks(KEYS).enumerate() {
        if n == batch {
            let restart = async {
                bench.broker.stop().await;
                bench.broker.start().await;
            };
            tokio::join!(restart, confirm(&sink, messages));
        } else {
            confirm(&sink, messages).await;
        }
    }
    let arrived = bench.until_arrived(&load).await;
    for key in 0..KEYS {
        let wanted: Vec<&str> = load
            .iter()
            .skip(key)
            .step_by(KEYS)
            .map(|m| m.event_id.as_str())
            .collect();
        assert_eq!(
            first_arrivals(&arrived, |id| wanted.contains(&id)),
            wanted,
            "the order of key {key}"
        );
    }
    assert_eq!(
        first_arrivals(&arrived, |_| true).len(),
        load.len(),
        "nothing that was never sent"
    );
}

/// Publishes until everything is confirmed.
async fn confirm(sink: &Arc<dyn Sink>, batch: &[Message]) {
    let mut left = batch.to_vec();
    within(RESTART, "the destination takes messages again", async || {
        let answers = publish(sink, &left).await;
        let mut answers = answers.iter();
        left.retain(|_| !answers.next().is_some_and(is_confirmed));
        left.is_empty().then_some(())
    })
    .await;
}
