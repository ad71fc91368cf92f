//! The doorbell: a hint that must come when a commit follows the arming.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Doorbell, Ring};

use super::bench::{Bench, Relay};
use super::words::{event, ids};

/// A ring that takes longer has been missed.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn a_commit_after_arming_rings(bench: Bench) {
    let relay = bench.relay("one").await;
    let bell = bell(&relay);
    let ring = arm(&relay, &bell).await;
    assert!(
        relay.queued().await.is_empty(),
        "the look between arming and waiting"
    );
    bench.commit(&[event("a", "k")]).await;
    heard(ring).await;
    assert_eq!(ids(&relay.queued().await), ["a"], "what rang is there to be read");
}

pub(super) async fn it_can_be_armed_again_after_a_ring(bench: Bench) {
    let relay = bench.relay("one").await;
    let bell = bell(&relay);
    for n in 0..5 {
        let ring = arm(&relay, &bell).await;
        bench.commit(&[event(&format!("e{n}"), "k")]).await;
        heard(ring).await;
    }
}

pub(super) async fn a_dropped_ring_leaves_nothing_behind(bench: Bench) {
    let relay = bench.relay("one").await;
    let bell = bell(&relay);
    for _ in 0..100 {
        drop(arm(&relay, &bell).await);
    }
    let mut ring = arm(&relay, &bell).await;
    // Polled once and dropped, as a select does.
    assert!(
        tokio::time::timeout(Duration::ZERO, &mut ring).await.is_err() || relay.queued().await.is_empty()
    );
    drop(ring);
    bench.commit(&[event("a", "k")]).await;
    let ring = arm(&relay, &bell).await;
    bench.commit(&[event("b", "k")]).await;
    heard(ring).await;
}

pub(super) async fn a_commit_through_another_handle_rings(bench: Bench) {
    let sleeper = bench.relay("one").await;
    // Another process of the same service is at work beside it.
    let _other = bench.relay("two").await;
    let bell = bell(&sleeper);
    let ring = arm(&sleeper, &bell).await;
    let waiting = tokio::spawn(ring);
    tokio::task::yield_now().await;
    bench.commit(&[event("a", "k")]).await;
    let rang = tokio::time::timeout(PATIENCE, waiting).await;
    rang.expect("a commit while somebody waits rings")
        .expect("the wait does not panic");
}

fn bell(relay: &Relay) -> Arc<dyn Doorbell> {
    let bell = relay.store.doorbell();
    bell.expect("a store without a doorbell says so in its capabilities")
}

async fn arm(relay: &Relay, bell: &Arc<dyn Doorbell>) -> Ring {
    let shards = relay.leases.iter().map(|lease| lease.shard).collect();
    bell.arm(shards).await.expect("the doorbell is armed")
}

async fn heard(ring: Ring) {
    let rang = tokio::time::timeout(PATIENCE, ring).await;
    rang.expect("a commit after arming rings");
}
