//! What a verdict does, and what it does not.

use postrider_core::Verdict;

use super::bench::{Bench, ids, quiet, settle_all};
use crate::wait::within;

pub(super) async fn done_is_never_delivered_again(bench: Bench) {
    let wanted = bench.filled(10).await;
    let source = bench.open().await;
    let received = bench.gather(&source, 10).await;
    settle_all(&source, &received[..4], Verdict::Done).await;
    source.close().await;
    bench.left(&wanted[4..]).await;
}

pub(super) async fn nothing_is_gone_before_its_verdict(bench: Bench) {
    let wanted = bench.filled(10).await;
    let source = bench.open().await;
    assert_eq!(ids(&bench.gather(&source, 10).await), wanted);
    source.close().await;
    bench.left(&wanted).await;
}

pub(super) async fn verdicts_may_come_in_any_order(bench: Bench) {
    let wanted = bench.filled(10).await;
    let source = bench.open().await;
    let received = bench.gather(&source, 10).await;
    // The last first, and some never: an acknowledgement of one must not be taken for one of all before it.
    let chosen: Vec<_> = received.iter().rev().step_by(2).cloned().collect();
    settle_all(&source, &chosen, Verdict::Done).await;
    source.close().await;
    let done = ids(&chosen);
    let left: Vec<String> = wanted.into_iter().filter(|id| !done.contains(id)).collect();
    bench.left(&left).await;
}

pub(super) async fn again_delivers_it_again(bench: Bench) {
    bench.filled(3).await;
    let source = bench.open().await;
    let received = bench.gather(&source, 3).await;
    settle_all(&source, &received[..1], Verdict::Again).await;
    let again = bench.receive(&source, 10).await;
    assert_eq!(ids(&again), ["m0"]);
    assert!(again[0].redelivered >= 1, "it was delivered before");
    assert_eq!(again[0].message, received[0].message, "it is the same message");
    settle_all(&source, &again, Verdict::Done).await;
    settle_all(&source, &received[1..], Verdict::Done).await;
    source.close().await;
    bench.left(&[]).await;
}

pub(super) async fn deliveries_are_counted(bench: Bench) {
    bench.filled(1).await;
    let source = bench.open().await;
    for before in 0..4 {
        let received = bench.receive(&source, 1).await;
        assert_eq!(received[0].redelivered, before, "deliveries before this one");
        settle_all(&source, &received, Verdict::Again).await;
    }
}

pub(super) async fn reject_moves_it_to_the_dead_letters(bench: Bench) {
    let wanted = bench.filled(3).await;
    let source = bench.open().await;
    let received = bench.gather(&source, 3).await;
    settle_all(&source, &received[1..2], Verdict::Reject).await;
    within(
        bench.patience,
        "the rejected message is where rejected ones go",
        async || (bench.queue.rejected().await == ["m1"]).then_some(()),
    )
    .await;
    assert_eq!(
        ids(&quiet(&source).await),
        Vec::<String>::new(),
        "it is not delivered again"
    );
    source.close().await;
    bench.left(&[wanted[0].clone(), wanted[2].clone()]).await;
}

pub(super) async fn unknown_and_repeated_tags_mean_nothing(bench: Bench) {
    let wanted = bench.filled(4).await;
    let source = bench.open().await;
    let received = bench.gather(&source, 4).await;
    settle_all(&source, &received[..1], Verdict::Done).await;
    let strange = received.iter().map(|it| it.tag).max().unwrap_or(0) + 1_000;
    let verdicts = vec![
        (strange, Verdict::Done),
        (received[0].tag, Verdict::Again),
        (received[0].tag, Verdict::Done),
    ];
    let settled = source.settle(verdicts).await;
    settled.expect("a tag that means nothing is no error");
    assert_eq!(
        ids(&quiet(&source).await),
        Vec::<String>::new(),
        "nothing came back"
    );
    // The source is still good for the others.
    settle_all(&source, &received[1..2], Verdict::Done).await;
    source.close().await;
    bench.left(&wanted[2..]).await;
}
