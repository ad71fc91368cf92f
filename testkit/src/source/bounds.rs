//! How much a source holds, and what it leaves to others.

use std::collections::BTreeSet;

use postrider_core::Verdict;

use super::bench::{Bench, ids, quiet, settle_all};

pub(super) async fn what_is_held_is_bounded(bench: Bench) {
    let prefetch = bench.queue.prefetch();
    let wanted = bench.filled(prefetch * 3).await;
    let source = bench.open().await;
    let held = bench.gather(&source, prefetch).await;
    assert_eq!(
        ids(&quiet(&source).await),
        Vec::<String>::new(),
        "a source holds {prefetch} deliveries and no more"
    );
    // What it does not hold is there for others.
    let other = bench.open().await;
    let others = bench.gather(&other, prefetch).await;
    assert_eq!(ids(&others), wanted[prefetch..prefetch * 2]);
    // Room for one is room for one.
    settle_all(&source, &held[..1], Verdict::Done).await;
    assert_eq!(
        ids(&bench.receive(&source, 100).await),
        wanted[prefetch * 2..=prefetch * 2]
    );
    source.close().await;
    other.close().await;
    bench.left(&wanted[1..]).await;
}

pub(super) async fn two_sources_share_a_queue(bench: Bench) {
    let wanted = bench.filled(60).await;
    let (one, two) = (bench.open().await, bench.open().await);
    let mut seen = BTreeSet::new();
    while seen.len() < wanted.len() {
        for source in [&one, &two] {
            let received = quiet(source).await;
            for id in ids(&received) {
                assert!(seen.insert(id.clone()), "{id} was delivered twice");
            }
            settle_all(source, &received, Verdict::Done).await;
        }
    }
    one.close().await;
    two.close().await;
    bench.left(&[]).await;
}
