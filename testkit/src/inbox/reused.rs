//! Two events with one id are told from one event that comes twice.

use postrider_core::{Applied, ApplyError};

use super::bench::{Bench, received, with_hash};

/// Fault D9.
pub(super) async fn another_payload_under_one_id_is_an_error(bench: Bench) {
    let first = || with_hash("a", Some("1111"));
    assert_eq!(bench.apply(vec![first()]).await.unwrap(), [Applied::Now]);
    assert_eq!(bench.apply(vec![first()]).await.unwrap(), [Applied::Before]);
    let batch = vec![received("b"), with_hash("a", Some("2222"))];
    let failed = bench.apply(batch).await;
    match &failed {
        Err(ApplyError::Reused { at: 1, recorded }) => assert_eq!(recorded, "1111"),
        _ => panic!("the id was reused: {failed:?}"),
    }
    bench.took_effect(&["a"]).await;
    assert_eq!(bench.apply(vec![first()]).await.unwrap(), [Applied::Before]);
}

pub(super) async fn without_a_hash_nothing_is_compared(bench: Bench) {
    for (id, first, second) in [
        ("a", None, Some("1111")),
        ("b", Some("1111"), None),
        ("c", None, None),
    ] {
        let applied = bench.apply(vec![with_hash(id, first)]).await;
        assert_eq!(applied.unwrap(), [Applied::Now]);
        let applied = bench.apply(vec![with_hash(id, second)]).await;
        assert_eq!(applied.unwrap(), [Applied::Before], "{id}");
    }
    // What a stranger wrote into the header is kept out of the database, and is no reason to stop.
    let odd = "1\0".to_owned() + &"2".repeat(10_000);
    for (hash, expected) in [
        (odd.as_str(), Applied::Now),
        ("3333", Applied::Before),
        ("", Applied::Before),
    ] {
        let applied = bench.apply(vec![with_hash("d", Some(hash))]).await;
        assert_eq!(applied.unwrap(), [expected]);
    }
    bench.took_effect(&["a", "b", "c", "d"]).await;
}

/// Fault D9.
pub(super) async fn a_reused_id_within_a_batch(bench: Bench) {
    let batch = vec![
        with_hash("b", Some("1111")),
        with_hash("a", Some("1111")),
        with_hash("a", Some("2222")),
    ];
    let failed = bench.apply(batch).await;
    match &failed {
        Err(ApplyError::Reused { at: 2, recorded }) => assert_eq!(recorded, "1111"),
        _ => panic!("the id was reused: {failed:?}"),
    }
    bench.took_effect(&[]).await;
}
