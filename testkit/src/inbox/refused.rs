//! After an error nothing has taken effect, and nothing is recorded.

use std::sync::Arc;

use postrider_core::{Applied, ApplyError, HandlerError};

use super::bench::{Bench, CONSUMER, calls, fails, nothing, received};
use super::{COMMITS, ROLLS_BACK, TRIPS};

/// Fault D4.
pub(super) async fn a_handler_that_fails_leaves_nothing_behind(bench: Bench) {
    let effects = bench.open().await;
    let errors: [(fn() -> HandlerError, bool); 3] = [
        (|| HandlerError::retry("not now"), true),
        (|| HandlerError::reject("never"), false),
        (|| std::io::Error::other("a disk").into(), true),
    ];
    for (error, may_pass) in errors {
        let failed = effects
            .apply(CONSUMER, vec![received("a")], fails("a", error))
            .await;
        let Err(ApplyError::Handler { at: 0, error: said }) = failed else {
            panic!("it is the handler's error: {failed:?}");
        };
        assert_eq!(
            (said.to_string(), said.may_pass()),
            (error().to_string(), may_pass)
        );
        bench.took_effect(&[]).await;
    }
    let applied = effects.apply(CONSUMER, vec![received("a")], nothing()).await;
    assert_eq!(applied.unwrap(), [Applied::Now], "it counts as not seen");
    bench.took_effect(&["a"]).await;
}

/// A panic of a handler reaches the caller as a panic, who knows whose it was; the same `Effects` goes on.
pub(super) async fn a_panic_leaves_nothing_behind(bench: Bench) {
    let effects = bench.open().await;
    for _ in 0..3 {
        let effects = Arc::clone(&effects);
        let script = calls(|_| panic!("a bug in a handler"));
        let task = tokio::spawn(async move { effects.apply(CONSUMER, vec![received("a")], script).await });
        let ended = task.await.expect_err("it panicked");
        let said = ended.into_panic();
        assert_eq!(said.downcast_ref(), Some(&"a bug in a handler"));
        bench.took_effect(&[]).await;
    }
    let applied = effects.apply(CONSUMER, vec![received("a")], nothing()).await;
    assert_eq!(applied.unwrap(), [Applied::Now]);
    bench.took_effect(&["a"]).await;
}

pub(super) async fn one_that_fails_undoes_its_batch(bench: Bench) {
    let effects = bench.open().await;
    let batch = || ["a", "b", "c"].map(received).to_vec();
    let script = fails("b", || HandlerError::retry("not now"));
    let failed = effects.apply(CONSUMER, batch(), script).await;
    assert!(
        matches!(failed, Err(ApplyError::Handler { at: 1, .. })),
        "{failed:?}"
    );
    bench.took_effect(&[]).await;
    let applied = effects.apply(CONSUMER, batch(), nothing()).await;
    assert_eq!(applied.unwrap(), [Applied::Now; 3]);
    bench.took_effect(&["a", "b", "c"]).await;
}

/// Fault D4. The handler says that all is well, and its transaction is gone with the records of all.
pub(super) async fn an_error_that_is_passed_over_is_an_error(bench: Bench) {
    let effects = bench.open().await;
    for ids in [&[TRIPS][..], &["a", TRIPS, "b"]] {
        for _ in 0..3 {
            let batch = ids.iter().map(|id| received(id)).collect();
            let failed = effects.apply(CONSUMER, batch, nothing()).await;
            assert!(matches!(failed, Err(ApplyError::Handler { .. })), "{failed:?}");
            bench.took_effect(&[]).await;
        }
    }
    let applied = effects
        .apply(CONSUMER, ["a", "b"].map(received).to_vec(), nothing())
        .await;
    assert_eq!(applied.unwrap(), [Applied::Now; 2]);
    bench.took_effect(&["a", "b"]).await;
}

/// Fault D4. With the transaction its record is gone: to answer that it took effect would lose it.
pub(super) async fn a_transaction_that_a_handler_rolls_back_is_an_error(bench: Bench) {
    let effects = bench.open().await;
    for _ in 0..3 {
        let failed = effects
            .apply(CONSUMER, vec![received(ROLLS_BACK)], nothing())
            .await;
        assert!(matches!(failed, Err(ApplyError::Handler { .. })), "{failed:?}");
        bench.took_effect(&[]).await;
    }
    // Those behind it may have written without a transaction, and each is done over; nobody is lost.
    let batch = ["a", ROLLS_BACK, "b"].map(received).to_vec();
    let failed = effects.apply(CONSUMER, batch, nothing()).await;
    assert!(matches!(failed, Err(ApplyError::Handler { .. })), "{failed:?}");
    let applied = effects
        .apply(CONSUMER, ["a", "b"].map(received).to_vec(), nothing())
        .await;
    assert_eq!(applied.unwrap(), [Applied::Now; 2]);
    assert!(bench.inbox.effects().await.ends_with(&["a".into(), "b".into()]));
}

/// Fault D4. It has happened, and its next delivery finds that out; until then nobody says that all is well.
pub(super) async fn a_transaction_that_a_handler_commits_is_an_error(bench: Bench) {
    let effects = bench.open().await;
    let failed = effects.apply(CONSUMER, vec![received(COMMITS)], nothing()).await;
    assert!(matches!(failed, Err(ApplyError::Handler { .. })), "{failed:?}");
    for _ in 0..2 {
        let applied = effects.apply(CONSUMER, vec![received(COMMITS)], nothing()).await;
        assert_eq!(applied.unwrap(), [Applied::Before]);
    }
    let applied = effects.apply(CONSUMER, vec![received("a")], nothing()).await;
    assert_eq!(applied.unwrap(), [Applied::Now]);
    bench.took_effect(&[COMMITS, "a"]).await;
}

/// Fault D8. It is the event that is refused: a database that complained about it would be waited for, for ever.
pub(super) async fn an_id_that_cannot_be_recorded_is_rejected(bench: Bench) {
    let long = "x".repeat(2_000);
    for id in ["", "a\0b", &long] {
        let failed = bench.apply(vec![received("good"), received(id)]).await;
        let Err(ApplyError::Handler { at: 1, error }) = failed else {
            panic!("{id:?} was not refused: {failed:?}");
        };
        assert!(!error.may_pass(), "{error}");
    }
    bench.took_effect(&[]).await;
}
