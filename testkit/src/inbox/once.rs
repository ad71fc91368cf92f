//! However often an event is delivered, it takes effect once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_core::{Applied, ApplyError, HandlerError};

use super::bench::{Bench, CONSUMER, Gate, calls, nothing, received};

/// How long somebody who must wait is watched while he does. Who does not wait is seen sooner than that; this is the
/// one wait without a condition, because nothing tells of what does not happen.
const WHILE: Duration = Duration::from_millis(150);

/// Fault D1.
pub(super) async fn twice_in_sequence(bench: Bench) {
    assert_eq!(bench.apply(vec![received("a")]).await.unwrap(), [Applied::Now]);
    assert_eq!(bench.apply(vec![received("a")]).await.unwrap(), [Applied::Before]);
    let same = bench.open().await;
    for _ in 0..3 {
        let applied = same.apply(CONSUMER, vec![received("a")], nothing()).await;
        assert_eq!(applied.unwrap(), [Applied::Before]);
    }
    bench.took_effect(&["a"]).await;
}

/// Fault D2. The second waits for the first, and then finds that it has happened.
pub(super) async fn twice_at_once(bench: Bench) {
    let (one, two) = (bench.open().await, bench.open().await);
    let gate = Gate::new();
    let script = gate.then(|| Ok(()));
    let first = tokio::spawn({
        let script = Arc::clone(&script);
        async move { one.apply(CONSUMER, vec![received("a")], script).await }
    });
    gate.arrived(1).await;
    let mut second = tokio::spawn(async move { two.apply(CONSUMER, vec![received("a")], script).await });
    let early = tokio::time::timeout(WHILE, &mut second).await;
    assert!(
        early.is_err(),
        "it did not wait for the one that was first: {early:?}"
    );
    gate.open();
    assert_eq!(first.await.unwrap().unwrap(), [Applied::Now]);
    assert_eq!(second.await.unwrap().unwrap(), [Applied::Before]);
    assert_eq!(gate.arrivals(), 1, "one handler ran");
    bench.took_effect(&["a"]).await;
}

/// Faults D2 and D4.
pub(super) async fn the_second_takes_effect_when_the_first_fails(bench: Bench) {
    let (one, two) = (bench.open().await, bench.open().await);
    let gate = Gate::new();
    let script = gate.then(|| Err(HandlerError::retry("not now")));
    let first = tokio::spawn(async move { one.apply(CONSUMER, vec![received("a")], script).await });
    gate.arrived(1).await;
    let second = tokio::spawn(async move { two.apply(CONSUMER, vec![received("a")], nothing()).await });
    gate.open();
    assert!(matches!(
        first.await.unwrap(),
        Err(ApplyError::Handler { at: 0, .. })
    ));
    assert_eq!(second.await.unwrap().unwrap(), [Applied::Now]);
    bench.took_effect(&["a"]).await;
}

/// Fault D4. Whether the call that nobody waits for takes effect is open; together with the next it does so once.
pub(super) async fn a_dropped_call_takes_effect_once_with_its_repetition(bench: Bench) {
    let one = bench.open().await;
    let gate = Gate::new();
    let script = gate.then(|| Ok(()));
    let dropped = tokio::spawn({
        let one = Arc::clone(&one);
        async move { one.apply(CONSUMER, vec![received("a")], script).await }
    });
    gate.arrived(1).await;
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    gate.open();
    let again = bench.apply(vec![received("a")]).await.unwrap();
    assert!(matches!(again[..], [Applied::Now] | [Applied::Before]));
    bench.took_effect(&["a"]).await;
    let same = one.apply(CONSUMER, vec![received("b")], nothing()).await;
    assert_eq!(same.unwrap(), [Applied::Now], "the same goes on");
}

/// Fault D2.
pub(super) async fn many_deliveries_of_many_events_at_once(bench: Bench) {
    const EVENTS: usize = 40;
    let mut tasks = Vec::new();
    for worker in 0..4 {
        let effects = bench.open().await;
        tasks.push(tokio::spawn(async move {
            let mut now = 0;
            for n in 0..EVENTS {
                // Each begins elsewhere, so that all of them meet all the time.
                let id = format!("e{}", (n + worker * 3) % EVENTS);
                let applied = effects.apply(CONSUMER, vec![received(&id)], nothing()).await;
                now += usize::from(applied.unwrap() == [Applied::Now]);
            }
            now
        }));
    }
    let mut now = 0;
    for task in tasks {
        now += task.await.unwrap();
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for id in bench.inbox.effects().await {
        *counts.entry(id).or_default() += 1;
    }
    assert_eq!((now, counts.len()), (EVENTS, EVENTS));
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
}

pub(super) async fn consumers_do_not_know_of_each_other(bench: Bench) {
    let effects = bench.open().await;
    for (consumer, expected) in [
        ("billing", Applied::Now),
        ("mailer", Applied::Now),
        ("Billing", Applied::Now),
        ("billing", Applied::Before),
    ] {
        let applied = effects.apply(consumer, vec![received("a")], nothing()).await;
        assert_eq!(applied.unwrap(), [expected], "{consumer}");
    }
    bench.took_effect(&["a", "a", "a"]).await;
}

/// Fault D8.
pub(super) async fn ids_are_told_apart_byte_by_byte(bench: Bench) {
    let long = "x".repeat(255);
    let longer = format!("{}y", &long[1..]);
    let wide = "é".repeat(255);
    let ids = [
        "a",
        "A",
        "a ",
        " a",
        "á",
        "a\u{301}",
        "'",
        "\"",
        "''",
        "%",
        "_",
        "\\",
        "\n",
        "ß",
        "ss",
        "0",
        "00",
        "0.0",
        "null",
        "[]",
        "{}",
        "😀",
        "a\u{200b}",
        &long,
        &longer,
        &wide,
    ];
    let effects = bench.open().await;
    for expected in [Applied::Now, Applied::Before] {
        for id in ids {
            let applied = effects.apply(CONSUMER, vec![received(id)], nothing()).await;
            assert_eq!(applied.unwrap(), [expected], "{id:?}");
        }
    }
    bench.took_effect(&ids).await;
}

pub(super) async fn the_handler_sees_the_delivery(bench: Bench) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&seen);
    let script = calls(move |event| {
        let total = event.json::<serde_json::Value>().unwrap()["total"].clone();
        let said = (
            event.event_id().to_owned(),
            event.attempt,
            event.redelivered,
            total,
        );
        keep.lock().unwrap().push(said);
    });
    let mut delivery = received("a");
    (delivery.attempt, delivery.redelivered) = (3, 2);
    let effects = bench.open().await;
    effects.apply(CONSUMER, vec![delivery], script).await.unwrap();
    let expected = ("a".to_owned(), 3, 2, 1250.into());
    assert_eq!(*seen.lock().unwrap(), [expected]);
}
