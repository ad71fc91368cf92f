//! Records that are removed: on purpose, and because they are old.

use std::time::Duration;

use postrider_core::{Applied, Records};

use super::bench::{Bench, CONSUMER, nothing, received};

const HOUR: Duration = Duration::from_secs(3_600);

pub(super) async fn a_forgotten_event_takes_effect_again(bench: Bench) {
    bench.apply(["a", "b"].map(received).to_vec()).await.unwrap();
    let one = Records::of(CONSUMER).ids(["a", "unknown"]);
    assert_eq!(bench.inbox.forget(one.clone()).await, 1);
    assert_eq!(bench.inbox.forget(one).await, 0);
    let applied = bench.apply(["a", "b"].map(received).to_vec()).await.unwrap();
    assert_eq!(applied, [Applied::Now, Applied::Before]);
    bench.took_effect(&["a", "b", "a"]).await;
}

pub(super) async fn every_part_that_is_given_must_hold(bench: Bench) {
    bench.apply(["a", "b", "c"].map(received).to_vec()).await.unwrap();
    let other = bench.open().await;
    other
        .apply("mailer", vec![received("a")], nothing())
        .await
        .unwrap();
    bench.inbox.age("b", 2 * HOUR).await;
    bench.inbox.age("c", 4 * HOUR).await;
    let all = || Records::of(CONSUMER);
    for (records, expected) in [
        (all(), 3),
        (Records::of("mailer"), 1),
        (Records::of("nobody"), 0),
        (all().older_than(HOUR), 2),
        (all().newer_than(HOUR), 1),
        (all().older_than(HOUR).newer_than(3 * HOUR), 1),
        (all().ids(["b", "c"]).older_than(3 * HOUR), 1),
        (all().ids(["a"]).older_than(HOUR), 0),
    ] {
        assert_eq!(bench.inbox.count(records.clone()).await, expected, "{records:?}");
    }
    assert_eq!(bench.inbox.forget(all().older_than(HOUR)).await, 2);
    assert_eq!(bench.inbox.count(all()).await, 1);
    assert_eq!(bench.inbox.forget(all()).await, 1);
    assert_eq!(bench.inbox.count(Records::of("mailer")).await, 1);
}

/// Fault D7.
pub(super) async fn old_records_are_purged_in_steps(bench: Bench) {
    bench
        .apply(["a", "b", "c", "d"].map(received).to_vec())
        .await
        .unwrap();
    for id in ["a", "b", "c"] {
        bench.inbox.age(id, 2 * HOUR).await;
    }
    let inbox = bench.inbox.console().await;
    for gone in [2, 1, 0] {
        assert_eq!(inbox.purge(None, HOUR, 2).await.expect("purged"), gone);
    }
    assert_eq!(bench.inbox.count(Records::of(CONSUMER)).await, 1);
}

/// Fault D7. Another consumer's broker may deliver later, and its records are kept for that.
pub(super) async fn a_purge_for_one_consumer_leaves_the_others(bench: Bench) {
    let effects = bench.open().await;
    for consumer in [CONSUMER, "mailer"] {
        let batch = ["a", "b", "c"].map(received).to_vec();
        effects.apply(consumer, batch, nothing()).await.unwrap();
    }
    for id in ["a", "b"] {
        bench.inbox.age(id, 2 * HOUR).await;
    }
    let inbox = bench.inbox.console().await;
    for gone in [1, 1, 0] {
        let purged = inbox.purge(Some(CONSUMER.to_owned()), HOUR, 1).await;
        assert_eq!(purged.expect("purged"), gone);
    }
    assert_eq!(bench.inbox.count(Records::of(CONSUMER)).await, 1);
    assert_eq!(bench.inbox.count(Records::of("mailer")).await, 3);
    let batch = ["a", "b", "c"].map(received).to_vec();
    let again = effects.apply("mailer", batch, nothing()).await;
    assert_eq!(again.unwrap(), [Applied::Before; 3]);
}
