//! Effects that are in no transaction: they are looked up before and recorded after.

use std::sync::Arc;

use postrider_core::{Applied, InboxConsole, Recorded, Records, StoreError};

use super::bench::{Bench, CONSUMER, received, with_hash};

async fn look(inbox: &Arc<dyn InboxConsole>, id: &str, hash: Option<&str>) -> Option<Recorded> {
    let known = inbox.look(CONSUMER.to_owned(), id.to_owned(), hash.map(str::to_owned));
    known.await.expect("an answer")
}

async fn record(inbox: &Arc<dyn InboxConsole>, id: &str, hash: Option<&str>) -> Result<Recorded, StoreError> {
    let recorded = inbox.record(CONSUMER.to_owned(), id.to_owned(), hash.map(str::to_owned));
    recorded.await
}

/// Fault D1.
pub(super) async fn what_happened_elsewhere_is_known(bench: Bench) {
    let inbox = bench.inbox.console().await;
    assert_eq!(look(&inbox, "a", None).await, None);
    assert_eq!(
        inbox.count(Records::of(CONSUMER)).await.unwrap(),
        0,
        "a look leaves nothing"
    );
    assert_eq!(record(&inbox, "a", None).await.unwrap(), Recorded::Now);
    assert_eq!(record(&inbox, "a", None).await.unwrap(), Recorded::Before);
    assert_eq!(look(&inbox, "a", None).await, Some(Recorded::Before));
    let other = inbox.look("mailer".to_owned(), "a".to_owned(), None).await;
    assert_eq!(other.unwrap(), None, "another consumer knows nothing of it");
    // It is the same record that effects in a transaction find.
    let applied = bench.apply(["a", "b"].map(received).to_vec()).await.unwrap();
    assert_eq!(applied, [Applied::Before, Applied::Now]);
    assert_eq!(look(&inbox, "b", None).await, Some(Recorded::Before));
}

/// Fault D9.
pub(super) async fn what_happened_elsewhere_is_compared(bench: Bench) {
    let inbox = bench.inbox.console().await;
    assert_eq!(record(&inbox, "a", Some("one")).await.unwrap(), Recorded::Now);
    let reused = Recorded::Reused {
        recorded: "one".to_owned(),
    };
    assert_eq!(look(&inbox, "a", Some("two")).await, Some(reused.clone()));
    assert_eq!(record(&inbox, "a", Some("two")).await.unwrap(), reused);
    for hash in [None, Some("one")] {
        assert_eq!(look(&inbox, "a", hash).await, Some(Recorded::Before));
    }
    let error = bench.apply(vec![with_hash("a", Some("two"))]).await;
    assert!(error.is_err(), "{error:?}");
}
