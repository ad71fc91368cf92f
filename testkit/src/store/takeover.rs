//! What happens when an owner dies: nothing before its lease ends, and an honest account after.

use std::time::Duration;

use postrider_core::{Heartbeat, Seq, Settled, Suspect};
use tokio::time::Instant;

use super::bench::{Bench, Relay, SHORT, WINDOW};
use super::words::{event, sent};
use crate::wait::eventually;

pub(super) async fn a_renewed_lease_is_never_taken(bench: Bench) {
    let mut owner = bench.relay_with_term("owner", SHORT).await;
    let fence = owner.fence();
    let mut rival = bench.idle_relay("rival", SHORT).await;
    let end = Instant::now() + 4 * SHORT;
    while Instant::now() < end {
        let renewed = Instant::now();
        owner.beat().await;
        rival.beat().await;
        if renewed.elapsed() >= SHORT {
            // The machine was too slow to say anything about this round, or about the lease from here on.
            return;
        }
        assert_eq!(owner.fence(), fence, "a lease that is renewed in time stays");
        assert_eq!(rival.leases, [], "a lease that is renewed in time is not taken");
        // The passing of the lease's own time is what is looked at.
        tokio::time::sleep(SHORT / 6).await;
    }
}

/// Fault C3.
pub(super) async fn an_expired_lease_is_taken_with_a_raised_token(bench: Bench) {
    let spoke = Instant::now();
    let owner = bench.relay_with_term("owner", SHORT).await;
    let heir = take_over(&bench, "heir").await;
    // The database cannot have heard the owner before it spoke.
    assert!(spoke.elapsed() >= SHORT, "the lease was taken before it ended");
    assert_eq!(heir.leases.len(), owner.leases.len());
    for (new, old) in heir.leases.iter().zip(&owner.leases) {
        assert!(new.token > old.token, "a change of owner raises the token");
        assert_eq!((new.unclean, new.maybe_sent), (1, WINDOW));
    }
}

/// Fault C9.
pub(super) async fn owners_that_end_without_a_settle_are_counted(bench: Bench) {
    bench.relay_with_term("a", SHORT).await;
    let second = take_over_for(&bench, "b", SHORT).await;
    assert_eq!(second.leases[0].unclean, 1);
    let mut third = take_over(&bench, "c").await;
    assert_eq!(third.leases[0].unclean, 2);
    // Losing an answer changes the token but not what is known about earlier owners.
    let forgetful = Heartbeat {
        held: Vec::new(),
        ..third.heartbeat()
    };
    third.say(forgetful).await;
    assert_eq!((third.leases[0].unclean, third.leases[0].maybe_sent), (2, WINDOW));
}

pub(super) async fn a_settle_resets_the_count_and_the_suspect(bench: Bench) {
    bench.commit(&[event("e", "k")]).await;
    bench.relay_with_term("a", SHORT).await;
    let mut second = take_over_for(&bench, "b", Duration::from_secs(2)).await;
    let row = second.queued().await.remove(0);
    let suspected = Heartbeat {
        suspects: vec![Suspect {
            shard: row.shard,
            seq: row.seq,
        }],
        ..second.heartbeat()
    };
    second.say(suspected).await;
    assert_eq!(second.settle_one(sent(&row, &["d"])).await, Settled::Done);
    let third = take_over(&bench, "c").await;
    let lease = third.lease(row.shard).expect("everything was taken over");
    assert_eq!(lease.unclean, 1, "only the owner since the settle counts");
    assert_eq!(lease.suspect, None);
}

pub(super) async fn a_release_resets_the_count_and_what_may_be_sent(bench: Bench) {
    bench.relay_with_term("a", SHORT).await;
    let mut second = take_over(&bench, "b").await;
    let release = Heartbeat {
        release: second.fence(),
        held: Vec::new(),
        claim: false,
        ..second.heartbeat()
    };
    second.say(release).await;
    let third = bench.relay("c").await;
    assert!(!third.leases.is_empty());
    for lease in &third.leases {
        assert_eq!((lease.unclean, lease.maybe_sent, lease.suspect), (0, 0, None));
    }
}

/// What the first owner had in hand may still be unmarked when the second ends, however little that one had.
pub(super) async fn a_second_takeover_forgets_nothing_that_may_be_sent(bench: Bench) {
    bench.relay_with_term("a", SHORT).await;
    let mut second = take_over_for(&bench, "b", SHORT).await;
    let modest = Heartbeat {
        window: WINDOW / 2,
        ..second.heartbeat()
    };
    second.say(modest).await;
    let third = take_over(&bench, "c").await;
    assert_eq!((third.leases[0].unclean, third.leases[0].maybe_sent), (2, WINDOW));
}

/// Fault C9. A row is found guilty by ends of its own, not by those that were before it was tried.
pub(super) async fn another_suspect_has_a_count_of_its_own(bench: Bench) {
    let mut owner = careful(&bench).await;
    let shard = owner.leases[0].shard;
    owner.say(trying(&owner, 41)).await;
    let mut owner = take_over_for(&bench, "e", Duration::from_secs(2)).await;
    assert_eq!(
        owner.lease(shard).map(|lease| lease.unclean),
        Some(Suspect::COUNTS_FROM + 1)
    );
    for (seq, wanted) in [
        (42, Suspect::COUNTS_FROM),
        (42, Suspect::COUNTS_FROM),
        (43, Suspect::COUNTS_FROM),
    ] {
        owner.say(trying(&owner, seq)).await;
        let lease = owner.lease(shard).expect("it is still held");
        assert_eq!((lease.unclean, lease.suspect), (wanted, Some(Seq(seq))));
    }
    let mut next = take_over_for(&bench, "f", Duration::from_secs(2)).await;
    next.say(trying(&next, 43)).await;
    let lease = next.lease(shard).expect("it was taken over");
    assert_eq!(
        (lease.unclean, lease.suspect),
        (Suspect::COUNTS_FROM + 1, Some(Seq(43)))
    );
}

/// Fault C9. An owner that ends before it tried the suspect says nothing about it: somebody paused the outbox, or ends
/// every process that starts.
pub(super) async fn only_ends_on_trial_are_held_against_a_suspect(bench: Bench) {
    let mut owner = careful(&bench).await;
    let shard = owner.leases[0].shard;
    owner.say(trying(&owner, 42)).await;
    let known = |relay: &Relay| relay.lease(shard).map(|lease| (lease.unclean, lease.suspect));
    for name in ["e", "f"] {
        let idle = take_over_for(&bench, name, SHORT).await;
        assert_eq!(known(&idle), Some((Suspect::COUNTS_FROM + 1, Some(Seq(42)))));
    }
    let mut again = take_over_for(&bench, "g", Duration::from_secs(2)).await;
    again.say(trying(&again, 42)).await;
    assert_eq!(known(&again), Some((Suspect::COUNTS_FROM + 1, Some(Seq(42)))));
    let mut heir = take_over_for(&bench, "h", Duration::from_secs(2)).await;
    assert_eq!(known(&heir), Some((Suspect::COUNTS_FROM + 2, Some(Seq(42)))));
    heir.say(trying(&heir, 0)).await;
    let last = take_over(&bench, "i").await;
    assert_eq!(
        last.lease(shard).map(|lease| lease.unclean),
        Some(Suspect::COUNTS_FROM),
        "nobody is on trial"
    );
}

/// Fault C9.
pub(super) async fn a_suspect_is_handed_to_the_next_owner(bench: Bench) {
    let mut first = bench.relay_with_term("a", SHORT).await;
    let shard = first.leases[0].shard;
    let suspected = Heartbeat {
        suspects: vec![Suspect { shard, seq: Seq(42) }],
        ..first.heartbeat()
    };
    first.say(suspected).await;
    let second = take_over(&bench, "b").await;
    for lease in &second.leases {
        let wanted = (lease.shard == shard).then_some(Seq(42));
        assert_eq!(lease.suspect, wanted, "the suspect of {shard:?} and of no other");
    }
}

pub(super) async fn a_suspect_of_a_foreign_shard_is_not_written(bench: Bench) {
    let mut owner = bench.relay("owner").await;
    let mut other = bench.relay("other").await;
    let shard = owner.leases[0].shard;
    let meddling = Heartbeat {
        suspects: vec![Suspect { shard, seq: Seq(42) }],
        ..other.heartbeat()
    };
    other.say(meddling).await;
    owner.beat().await;
    assert_eq!(owner.leases[0].suspect, None);
}

/// The owner of shards whose owners keep ending, as many as make them careful.
async fn careful(bench: &Bench) -> Relay {
    bench.relay_with_term("a", SHORT).await;
    for name in ["b", "c"] {
        take_over_for(bench, name, SHORT).await;
    }
    let owner = take_over_for(bench, "d", Duration::from_secs(2)).await;
    assert_eq!(owner.leases[0].unclean, Suspect::COUNTS_FROM);
    owner
}

/// What a relay says that tries a row of its first shard alone.
fn trying(relay: &Relay, seq: u128) -> Heartbeat {
    let shard = relay.leases[0].shard;
    Heartbeat {
        suspects: vec![Suspect { shard, seq: Seq(seq) }],
        ..relay.heartbeat()
    }
}

/// A new relay that waits until it has taken everything over, and then lives as long as the case.
async fn take_over(bench: &Bench, name: &str) -> Relay {
    take_over_for(bench, name, super::bench::LONG).await
}

async fn take_over_for(bench: &Bench, name: &str, term: Duration) -> Relay {
    let mut relay = bench.idle_relay(name, term).await;
    eventually("an expired lease is taken over", async || {
        relay.beat().await;
        (relay.leases.len() == usize::from(bench.capabilities.shards)).then_some(())
    })
    .await;
    relay
}
