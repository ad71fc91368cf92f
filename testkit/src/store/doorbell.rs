//! The doorbell: a hint that must come when a commit follows the arming.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Doorbell, Heartbeat, Ring, Shard};

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
    let rang = tokio::time::timeout(Duration::ZERO, &mut ring).await;
    assert!(rang.is_err(), "nothing was committed");
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

/// What a relay gives up is asked for at once by one that sleeps beside it.
pub(super) async fn a_release_rings(bench: Bench) {
    let mut leaves = bench.relay("one").await;
    let stays = bench.idle_relay("two", super::bench::LONG).await;
    let bell = bell(&stays);
    let mut ring = arm(&stays, &bell).await;
    let rang = tokio::time::timeout(Duration::ZERO, &mut ring).await;
    assert!(rang.is_err(), "nothing was given up");
    let release = Heartbeat {
        release: leaves.fence(),
        held: Vec::new(),
        claim: false,
        ..leaves.heartbeat()
    };
    leaves.say(release).await;
    heard(ring).await;
}

/// Relays of one process may share a handle, each with shards of its own.
pub(super) async fn two_that_sleep_are_each_rung_for(bench: Bench) {
    let (relay, halves) = halves(&bench).await;
    let bell = bell(&relay);
    for (number, early) in halves.iter().enumerate() {
        let late = &halves[1 - number];
        let ring = arm_for(&bell, early).await;
        let _other = arm_for(&bell, late).await;
        bench
            .commit(&[event(&format!("early{number}"), &early.key)])
            .await;
        heard(ring).await;
        let _other = arm_for(&bell, early).await;
        let ring = arm_for(&bell, late).await;
        bench.commit(&[event(&format!("late{number}"), &late.key)]).await;
        heard(ring).await;
    }
}

pub(super) async fn one_that_wakes_leaves_the_other_asleep(bench: Bench) {
    let (relay, [one, other]) = halves(&bench).await;
    let bell = bell(&relay);
    let ring = arm_for(&bell, &one).await;
    for _ in 0..20 {
        drop(arm_for(&bell, &other).await);
        tokio::task::yield_now().await;
    }
    bench.commit(&[event("a", &one.key)]).await;
    heard(ring).await;
}

/// Shards of one relay, and a key that is in them.
struct Half {
    shards: Vec<Shard>,
    key: String,
}

/// Two halves of the shards; where there is one, it is both.
async fn halves(bench: &Bench) -> (Relay, [Half; 2]) {
    let events: Vec<_> = (0..64)
        .map(|n| event(&format!("e{n}"), &format!("k{n}")))
        .collect();
    let (relay, rows) = bench.queued(&events).await;
    let shards = relay.every_shard();
    let middle = shards.len() / 2;
    let half = |part: &[Shard]| {
        let shards = if middle == 0 { &*shards } else { part };
        let row = rows.iter().position(|row| shards.contains(&row.shard));
        let row = row.expect("64 keys are in more than one shard");
        Half {
            shards: shards.to_vec(),
            key: format!("k{row}"),
        }
    };
    let halves = [half(&shards[..middle]), half(&shards[middle..])];
    (relay, halves)
}

async fn arm_for(bell: &Arc<dyn Doorbell>, half: &Half) -> Ring {
    let shards = half.shards.clone();
    bell.arm(shards).await.expect("the doorbell is armed")
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
