//! How much a source holds, and what it leaves to others.

use std::collections::BTreeSet;

use postrider_core::Verdict;

use super::bench::{Bench, ids, quiet, settle_all};

/// Messages behind a held one; many times what may be kept of them.
const BEHIND: usize = 400;
/// What a source may keep of its own for one held message: far less than a few bytes for each one behind it.
const KEPT: u64 = 1_024;

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

/// One message may be held for hours. What is done behind it meanwhile must cost no memory, nothing at each further
/// verdict, and must not come again.
pub(super) async fn what_is_done_behind_a_held_message_is_not_kept(bench: Bench) {
    let wanted = bench.filled(1 + BEHIND).await;
    let source = bench.open().await;
    let mut came = bench.gather(&source, 1).await.len();
    while came < wanted.len() {
        let received = bench.receive(&source, 20).await;
        came += received.len();
        settle_all(&source, &received, Verdict::Done).await;
    }
    let kept = bench.queue.kept().await;
    assert!(kept <= KEPT, "{kept} bytes are kept of one held message");
    source.close().await;
    bench.left(&wanted[..1]).await;
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
