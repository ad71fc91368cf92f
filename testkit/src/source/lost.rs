//! A connection ends with deliveries that have no verdict.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Incoming, Source, SourceErrorKind, Verdict};

use super::bench::{Bench, ids, settle_all};

/// A close is heard of at once; this is for a machine that is busy.
const SOON: Duration = Duration::from_secs(10);

pub(super) async fn close_gives_back_what_is_unsettled(bench: Bench) {
    let wanted = bench.filled(6).await;
    let source = bench.open().await;
    let received = bench.gather(&source, 6).await;
    settle_all(&source, &received[2..4], Verdict::Done).await;
    source.close().await;
    let other = bench.open().await;
    let again = bench.gather(&other, 4).await;
    assert_eq!(ids(&again), ["m0", "m1", "m4", "m5"]);
    assert!(
        again.iter().all(|it| it.redelivered >= 1),
        "they were delivered before"
    );
    // The verdict of a closed source must not fall on the delivery of another.
    let _ = source.settle(verdicts(&received)).await;
    other.close().await;
    bench.left(&[&wanted[..2], &wanted[4..]].concat()).await;
}

pub(super) async fn closing_twice_is_safe(bench: Bench) {
    bench.filled(1).await;
    let source = bench.open().await;
    bench.receive(&source, 1).await;
    source.close().await;
    source.close().await;
    let error = source.receive(1).await.expect_err("it is closed");
    assert_eq!(error.kind, SourceErrorKind::Closed, "{error}");
    let unused = bench.open().await;
    unused.close().await;
    let error = unused.receive(1).await.expect_err("it is closed");
    assert_eq!(error.kind, SourceErrorKind::Closed, "{error}");
}

pub(super) async fn a_receive_under_way_ends_with_a_close(bench: Bench) {
    let source = bench.open().await;
    let close = async {
        // Nothing tells that a receive has begun to wait; one that has not is refused, which is right as well.
        tokio::time::sleep(Duration::from_millis(100)).await;
        source.close().await;
    };
    let receive = tokio::time::timeout(SOON, source.receive(1));
    let (received, ()) = tokio::join!(receive, close);
    let received = received.expect("a receive does not outlive its source");
    let error = received.expect_err("there was nothing to receive");
    assert_eq!(error.kind, SourceErrorKind::Closed, "{error}");
}

pub(super) async fn a_cut_connection_delivers_again(bench: Bench) {
    let wanted = bench.filled(10).await;
    let source = bench.open().await;
    let received = bench.gather(&source, 10).await;
    settle_all(&source, &received[..3], Verdict::Done).await;
    // Heard by the broker before the cut: a second source would otherwise find them too, and rightly. Verdicts have no
    // answer that could be waited for.
    tokio::time::sleep(Duration::from_millis(300)).await;
    bench.queue.cut().await;
    let mut again = BTreeSet::new();
    while again.len() < 7 {
        for incoming in bench.receive(&source, 10).await {
            assert!(
                incoming.redelivered >= 1,
                "{:?} is not new",
                incoming.message.event_id
            );
            again.insert(incoming.message.event_id.to_string());
        }
    }
    assert_eq!(again, wanted[3..].iter().cloned().collect());
    source.close().await;
    bench.left(&wanted[3..]).await;
}

/// Whoever holds deliveries whose tags are void works on them twice, unless an error says that they come again.
async fn is_told(bench: &Bench, source: &Arc<dyn Source>) {
    let received = tokio::time::timeout(bench.patience, source.receive(100)).await;
    let received = received.expect("the next receive fails, and does not wait");
    let error = received.expect_err("the next receive fails before anything comes again");
    assert_ne!(error.kind, SourceErrorKind::Closed, "{error}");
}

pub(super) async fn a_cut_connection_is_told_before_anything_comes_again(bench: Bench) {
    let wanted = bench.filled(5).await;
    let source = bench.open().await;
    bench.gather(&source, 5).await;
    bench.queue.cut().await;
    is_told(&bench, &source).await;
    let mut again = ids(&bench.gather(&source, 5).await);
    again.sort();
    assert_eq!(again, wanted);
    source.close().await;
}

pub(super) async fn a_settle_that_fails_is_told_before_anything_comes_again(bench: Bench) {
    let wanted = bench.filled(6).await;
    let source = bench.open().await;
    let before = bench.gather(&source, 5).await;
    settle_all(&source, &before[..1], Verdict::Done).await;
    bench.queue.refuse_verdicts(true).await;
    let refused = source.settle(verdicts(&before[1..2])).await;
    refused.expect_err("a verdict that is not known to the broker is an error");
    bench.queue.refuse_verdicts(false).await;
    is_told(&bench, &source).await;
    // Once is enough: everything without a verdict comes again, and the sixth behind it.
    let received = tokio::time::timeout(bench.patience, source.receive(5)).await;
    let received = received.expect("something comes").expect("it is told once");
    assert_eq!(ids(&received)[..1], wanted[1..2]);
    settle_all(&source, &before, Verdict::Done).await;
    source.close().await;
    bench.left(&wanted[1..]).await;
}

pub(super) async fn tags_of_a_cut_connection_mean_nothing(bench: Bench) {
    let wanted = bench.filled(10).await;
    let source = bench.open().await;
    let before = bench.gather(&source, 10).await;
    bench.queue.cut().await;
    let after = bench.gather(&source, 10).await;
    assert!(
        after.iter().all(|it| it.redelivered >= 1),
        "all of them came back"
    );
    // Whatever this answers, it must not settle the deliveries of the second life.
    let _ = source.settle(verdicts(&before)).await;
    source.close().await;
    bench.left(&wanted).await;
}

fn verdicts(received: &[Incoming]) -> Vec<(u64, Verdict)> {
    received.iter().map(|it| (it.tag, Verdict::Done)).collect()
}
