//! A connection ends with deliveries that have no verdict.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{SourceErrorKind, Verdict};

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
    let late = received.iter().map(|it| (it.tag, Verdict::Done)).collect();
    let _ = source.settle(late).await;
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
    let old = before.iter().map(|it| (it.tag, Verdict::Done)).collect();
    let _ = source.settle(old).await;
    source.close().await;
    bench.left(&wanted).await;
}
