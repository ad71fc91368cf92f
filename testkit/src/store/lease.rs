//! Claiming, renewing and giving up shards.

use postrider_core::{Control, Heartbeat, Scope, Token};

use super::bench::{Bench, LONG};
use super::words::event;

pub(super) async fn one_relay_owns_every_shard(bench: Bench) {
    let relay = bench.relay("one").await;
    let shards: Vec<_> = relay.leases.iter().map(|lease| lease.shard).collect();
    assert_eq!(
        shards,
        relay.every_shard(),
        "one relay owns everything, each shard once"
    );
    assert_eq!(relay.share, bench.capabilities.shards);
    for lease in &relay.leases {
        assert_eq!(
            (lease.unclean, lease.maybe_sent),
            (0, 0),
            "nobody was there before"
        );
        assert_eq!(lease.suspect, None);
    }
}

pub(super) async fn a_renewal_keeps_the_token(bench: Bench) {
    let mut relay = bench.relay("one").await;
    let fence = relay.fence();
    for _ in 0..3 {
        relay.beat().await;
        assert_eq!(relay.fence(), fence, "a renewal changes no owner, so no token");
    }
}

pub(super) async fn a_renewal_names_the_keys_that_are_paused(bench: Bench) {
    let mut relay = bench.relay("one").await;
    let mut paused = async || {
        let beat = relay.heartbeat();
        relay.say(beat).await.controls.paused_keys
    };
    assert_eq!(paused().await, []);
    let key = event("a", "k").order_key();
    let scope = Scope::Key("THING/k".to_owned());
    let decide = async |control| {
        bench
            .console()
            .control(control, "ann".to_owned())
            .await
            .expect("a control")
    };
    decide(Control::Pause(scope.clone())).await;
    assert!(paused().await.contains(&key));
    decide(Control::Resume(scope)).await;
    assert_eq!(paused().await, []);
}

pub(super) async fn a_repeated_heartbeat_changes_nothing(bench: Bench) {
    let mut relay = bench.relay("one").await;
    let beat = relay.heartbeat();
    let first = relay.say(beat.clone()).await;
    let second = relay.say(beat).await;
    assert_eq!(sorted(first.leases), sorted(second.leases));
    assert_eq!(first.share, second.share);
}

pub(super) async fn an_owned_shard_is_not_given_twice(bench: Bench) {
    let mut first = bench.relay("one").await;
    let fence = first.fence();
    let mut second = bench.relay("two").await;
    second.beat().await;
    assert_eq!(second.leases, [], "everything has a living owner");
    first.beat().await;
    assert_eq!(
        first.fence(),
        fence,
        "the owner keeps what it has until it gives it up"
    );
}

pub(super) async fn a_release_hands_over_cleanly(bench: Bench) {
    let mut first = bench.relay("one").await;
    let mut second = bench.relay("two").await;
    let given_up = first.leases[0].clone();
    let release = Heartbeat {
        release: vec![(given_up.shard, given_up.token)],
        claim: false,
        ..first.heartbeat()
    };
    first.say(release).await;
    assert_eq!(
        first.lease(given_up.shard),
        None,
        "what was given up is not owned"
    );
    second.beat().await;
    let taken = second
        .lease(given_up.shard)
        .expect("a shard that nobody owns is claimed");
    assert!(taken.token > given_up.token, "a change of owner raises the token");
    assert_eq!((taken.unclean, taken.maybe_sent, taken.suspect), (0, 0, None));
}

/// Fault C5.
pub(super) async fn a_release_under_an_old_token_is_ignored(bench: Bench) {
    let mut relay = bench.relay("one").await;
    let lease = relay.leases[0].clone();
    let release = Heartbeat {
        release: vec![(lease.shard, Token(lease.token.0.wrapping_sub(1)))],
        ..relay.heartbeat()
    };
    relay.say(release).await;
    assert_eq!(relay.lease(lease.shard), Some(&lease));

    // A relay cannot give up what another owns, even if it guesses the token.
    let mut other = bench.relay("two").await;
    let release = Heartbeat {
        release: vec![(lease.shard, lease.token)],
        ..other.heartbeat()
    };
    other.say(release).await;
    relay.beat().await;
    assert_eq!(relay.lease(lease.shard), Some(&lease));
}

pub(super) async fn a_shard_missing_from_memory_gets_a_new_token(bench: Bench) {
    let mut relay = bench.relay("one").await;
    let known = relay.leases.clone();
    // The answer to the claim was lost: the relay does not know what it owns.
    let forgetful = Heartbeat {
        held: Vec::new(),
        ..relay.heartbeat()
    };
    relay.say(forgetful).await;
    assert_eq!(relay.leases.len(), known.len());
    for (new, old) in relay.leases.iter().zip(&known) {
        assert!(
            new.token > old.token,
            "nothing sent under the forgotten token may count"
        );
        assert_eq!(
            (new.unclean, new.maybe_sent),
            (0, 0),
            "losing an answer is no unclean end"
        );
    }
}

pub(super) async fn a_shard_remembered_under_another_token_gets_a_new_one(bench: Bench) {
    let mut relay = bench.relay("one").await;
    let old = relay.leases[0].clone();
    let mut beat = relay.heartbeat();
    beat.held[0].1 = Token(old.token.0.wrapping_sub(1));
    relay.say(beat).await;
    let new = relay.lease(old.shard).expect("the shard stays with its owner");
    assert!(new.token > old.token);
}

pub(super) async fn a_relay_that_stops_claims_nothing(bench: Bench) {
    let mut relay = bench.idle_relay("one", LONG).await;
    let stopping = Heartbeat {
        claim: false,
        ..relay.heartbeat()
    };
    relay.say(stopping).await;
    assert_eq!(relay.leases, []);
    // What it holds while it drains stays its own.
    relay.beat().await;
    let fence = relay.fence();
    assert!(!fence.is_empty());
    let stopping = Heartbeat {
        claim: false,
        ..relay.heartbeat()
    };
    relay.say(stopping).await;
    assert_eq!(relay.fence(), fence);
}

/// Fault C18.
pub(super) async fn a_restarted_relay_is_somebody_else(bench: Bench) {
    let before = bench.relay("host-1/boot-1").await;
    assert!(!before.leases.is_empty());
    let after = bench.relay("host-1/boot-2").await;
    assert_eq!(
        after.leases,
        [],
        "a new run waits for the lease of the old one to end"
    );
}

fn sorted(mut leases: Vec<postrider_core::Lease>) -> Vec<postrider_core::Lease> {
    leases.sort_by_key(|lease| lease.shard);
    leases
}
