//! Several relays: who gets how much.

use std::collections::BTreeSet;

use postrider_core::{Heartbeat, Shard};

use super::bench::{Bench, LONG, Relay};
use crate::wait::eventually;

pub(super) async fn two_relays_come_to_equal_shares(bench: Bench) {
    let relays = vec![bench.relay("one").await, bench.relay("two").await];
    settle_down(&bench, relays).await;
}

pub(super) async fn three_relays_divide_rounding_up(bench: Bench) {
    let relays = vec![
        bench.relay("one").await,
        bench.relay("two").await,
        bench.relay("three").await,
    ];
    settle_down(&bench, relays).await;
}

pub(super) async fn a_stopping_relay_leaves_everything_to_the_others(bench: Bench) {
    let mut first = bench.relay("one").await;
    let mut second = bench.relay("two").await;
    let stop = Heartbeat {
        claim: false,
        release: first.fence(),
        held: Vec::new(),
        ..first.heartbeat()
    };
    first.say(stop).await;
    assert_eq!(first.leases, []);
    second.beat().await;
    // Its own row lasts for the whole term. If it counted until then, half of the shards would have no owner.
    assert_eq!(second.share, bench.capabilities.shards);
    assert_eq!(second.leases.len(), usize::from(bench.capabilities.shards));
}

/// Fault C3.
pub(super) async fn relays_that_claim_at_once_own_nothing_twice(bench: Bench) {
    let mut relays = Vec::new();
    for n in 0..6 {
        relays.push(bench.idle_relay(&format!("relay-{n}"), LONG).await);
    }
    let calls: Vec<_> = relays
        .iter()
        .map(|relay| {
            let (store, beat) = (relay.store.clone(), relay.heartbeat());
            tokio::spawn(async move { store.heartbeat(beat).await })
        })
        .collect();
    let mut owned = BTreeSet::new();
    for (relay, call) in relays.iter_mut().zip(calls) {
        // A store that is busy may say so: the relay simply speaks again.
        if let Ok(standing) = call.await.expect("a heartbeat does not panic") {
            relay.leases = standing.leases;
        }
    }
    for relay in &mut relays {
        relay.beat().await;
        for lease in &relay.leases {
            assert!(
                owned.insert(lease.shard),
                "{:?} was given to two relays",
                lease.shard
            );
        }
    }
    assert_eq!(
        owned.len(),
        usize::from(bench.capabilities.shards),
        "no shard is left over"
    );
}

/// Lets relays renew and give up what is above their share until nothing moves, and checks what they end with.
async fn settle_down(bench: &Bench, mut relays: Vec<Relay>) {
    let shards = bench.capabilities.shards;
    let count = u16::try_from(relays.len()).expect("a few relays");
    let share = shards.div_ceil(count);
    eventually(
        "every shard has an owner and no relay has more than its share",
        async || {
            for relay in &mut relays {
                relay.beat().await;
                assert_eq!(relay.share, share, "shards divided by live relays, rounded up");
                let surplus = relay
                    .fence()
                    .split_off(relay.leases.len().min(usize::from(share)));
                if !surplus.is_empty() {
                    let release = Heartbeat {
                        release: surplus,
                        ..relay.heartbeat()
                    };
                    relay.say(release).await;
                }
            }
            let owned: Vec<Shard> = relays
                .iter()
                .flat_map(|relay| &relay.leases)
                .map(|lease| lease.shard)
                .collect();
            let distinct: BTreeSet<Shard> = owned.iter().copied().collect();
            assert_eq!(owned.len(), distinct.len(), "a shard has one owner");
            let fair = relays
                .iter()
                .all(|relay| relay.leases.len() <= usize::from(share));
            (fair && owned.len() == usize::from(shards)).then_some(())
        },
    )
    .await;
}
