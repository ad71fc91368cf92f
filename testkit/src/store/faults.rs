//! Calls that are dropped, repeated and made at the same time.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use postrider_core::{Receipt, Settle, Settled, Then};

use super::bench::{Bench, LONG, SHORT};
use super::words::{event, ids, pairs, parks_as, sent, waiting};
use crate::wait::eventually;

pub(super) async fn another_handle_sees_the_same_outbox(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("a", "k"), event("b", "l")]).await;
    let other = bench.idle_relay("other", LONG).await;
    assert_eq!(ids(&other.queued().await), ["a", "b"]);
    assert_eq!(
        relay.settle_one(parks_as(&rows[0], vec![waiting("d")])).await,
        Settled::Done
    );
    assert_eq!(ids(&other.queued().await), ["b"]);
    assert_eq!(other.due_names().await, pairs(&[("a", "d")]));
}

/// Fault A18.
pub(super) async fn a_dropped_call_leaves_the_store_usable(bench: Bench) {
    let (mut relay, rows) = bench.queued(&[event("a", "k"), event("b", "k")]).await;
    for polls in 0..12 {
        abandon(relay.store.read(relay.everything()), polls).await;
        abandon(relay.store.heartbeat(relay.heartbeat()), polls).await;
        // Names nothing that exists, so that it may happen or not.
        let mut entry = sent(&rows[0], &["d"]);
        entry.event_id = "nobody".into();
        let settle = Settle {
            fence: relay.fence(),
            queued: vec![entry],
            parked: Vec::new(),
        };
        abandon(relay.store.settle(Arc::new(settle)), polls).await;
    }
    relay.beat().await;
    assert_eq!(ids(&relay.queued().await), ["a", "b"]);
    bench.commit(&[event("c", "k")]).await;
    assert_eq!(relay.settle_one(sent(&rows[0], &["d"])).await, Settled::Done);
    assert_eq!(ids(&relay.queued().await), ["b", "c"]);
}

/// Fault A18.
pub(super) async fn a_dropped_settle_may_be_repeated(bench: Bench) {
    let events: Vec<_> = (0..12).map(|n| event(&format!("e{n:02}"), "k")).collect();
    let (relay, rows) = bench.queued(&events).await;
    for (polls, row) in rows.iter().enumerate() {
        let settle = Arc::new(Settle {
            fence: relay.fence(),
            queued: vec![parks_as(row, vec![waiting("d")])],
            parked: Vec::new(),
        });
        abandon(relay.store.settle(settle.clone()), polls).await;
        let answer = relay.store.settle(settle).await.expect("repeated");
        assert!(
            matches!(answer[..], [Settled::Done | Settled::Gone]),
            "{answer:?}"
        );
    }
    assert!(relay.queued().await.is_empty());
    let mut read = relay.everything();
    read.parked.followers = 100;
    let wanted: Vec<_> = ids(&rows).into_iter().map(|id| (id, "d".to_owned())).collect();
    assert_eq!(relay.due_names_of(read).await, wanted, "each row is parked once");
}

/// Fault A17.
pub(super) async fn two_copies_of_a_settle_at_once_count_once(bench: Bench) {
    let events: Vec<_> = (0..20)
        .map(|n| event(&format!("e{n}"), &format!("k{n}")))
        .collect();
    let (relay, rows) = bench.queued(&events).await;
    let second = bench.open().await;
    let settle = Arc::new(Settle {
        fence: relay.fence(),
        queued: rows.iter().map(|row| parks_as(row, vec![waiting("d")])).collect(),
        parked: Vec::new(),
    });
    let copies = [(relay.store.clone(), settle.clone()), (second, settle)]
        .map(|(store, settle)| tokio::spawn(async move { store.settle(settle).await }));
    let mut done = 0;
    for copy in copies {
        // A store may answer busy to one of two writers; the settle then counts as not answered.
        if let Ok(answers) = copy.await.expect("a settle does not panic") {
            done += answers
                .iter()
                .filter(|settled| **settled == Settled::Done)
                .count();
        }
    }
    assert_eq!(done, rows.len(), "each entry is written by one of the copies");
    assert_eq!(relay.due().await.len(), rows.len());
}

pub(super) async fn reads_and_settles_beside_writers_lose_nothing(bench: Bench) {
    const EVENTS: usize = 200;
    let relay = bench.relay("one").await;
    let write = async {
        for n in 0..EVENTS / 4 {
            let batch: Vec<_> = (0..4)
                .map(|i| event(&format!("{n}.{i}"), &format!("k{}", n % 5)))
                .collect();
            let mut tx = bench.begin().await;
            for event in &batch {
                tx.insert(event).await.expect("inserted");
            }
            // Every fourth is tried first and given up.
            if n % 4 == 0 {
                tx.rollback().await;
                bench.commit(&batch).await;
            } else {
                tx.commit().await;
            }
            tokio::task::yield_now().await;
        }
    };
    let mut seen = Vec::new();
    let relaying = async {
        eventually("every committed event is read and settled", async || {
            let rows = relay.queued().await;
            let entries: Vec<_> = rows.iter().map(|row| sent(row, &["d"])).collect();
            let wanted = vec![Settled::Done; entries.len()];
            assert_eq!(relay.settle(entries, Vec::new()).await, wanted);
            seen.extend(ids(&rows));
            (seen.len() >= EVENTS).then_some(())
        })
        .await;
    };
    tokio::join!(write, relaying);
    let distinct: BTreeSet<_> = seen.iter().collect();
    assert_eq!((seen.len(), distinct.len()), (EVENTS, EVENTS));
    assert!(relay.queued().await.is_empty());
}

/// Fault C2.
pub(super) async fn a_taken_over_relay_settles_nothing(bench: Bench) {
    bench.commit(&[event("a", "k"), event("b", "l")]).await;
    let zombie = bench.relay_with_term("zombie", SHORT).await;
    let rows = zombie.queued().await;
    let mut heir = bench.idle_relay("heir", LONG).await;
    eventually("the lease ends and is taken over", async || {
        heir.beat().await;
        (heir.leases.len() == usize::from(bench.capabilities.shards)).then_some(())
    })
    .await;
    // The zombie wakes up and goes on where it stood.
    let settled = zombie
        .settle(rows.iter().map(|row| sent(row, &["d"])).collect(), Vec::new())
        .await;
    assert_eq!(settled, [Settled::Fenced, Settled::Fenced]);
    assert_eq!(
        ids(&heir.queued().await),
        ["a", "b"],
        "the new owner decides alone"
    );
    assert_eq!(
        heir.settle_one(parks_as(&rows[0], vec![waiting("d")])).await,
        Settled::Done
    );
    let due = heir.due().await;
    let settled = zombie
        .settle_parked(&due[0], Then::Sent(Receipt::default()))
        .await;
    assert_eq!(settled, Settled::Fenced);
}

/// Polls a call a number of times and drops it, as a deadline or a select would.
pub(super) async fn abandon<T>(call: impl Future<Output = T>, polls: usize) {
    let mut call = pin!(call);
    for _ in 0..polls {
        let ready = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_ready())).await;
        if ready {
            return;
        }
        tokio::task::yield_now().await;
    }
}
