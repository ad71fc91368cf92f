//! Many deliveries in one transaction.

use std::sync::{Arc, Mutex};

use postrider_core::{Applied, ApplyError, HandlerError, Received};

use super::bench::{Bench, CONSUMER, calls, fails, nothing, received};

pub(super) async fn handlers_run_in_order(bench: Bench) {
    let ids = ["c", "a", "d", "b", "e"];
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&seen);
    let script = calls(move |event| keep.lock().unwrap().push(event.event_id().to_owned()));
    let effects = bench.open().await;
    let applied = effects
        .apply(CONSUMER, ids.map(received).to_vec(), script)
        .await
        .unwrap();
    assert_eq!(applied, [Applied::Now; 5]);
    assert_eq!(*seen.lock().unwrap(), ids);
    bench.took_effect(&ids).await;
}

pub(super) async fn an_event_twice_in_a_batch_takes_effect_once(bench: Bench) {
    let batch = ["b", "a", "b", "b"].map(received).to_vec();
    let applied = bench.apply(batch).await.unwrap();
    let (now, before) = (Applied::Now, Applied::Before);
    assert_eq!(applied, [now, now, before, before]);
    bench.took_effect(&["b", "a"]).await;
}

pub(super) async fn some_took_effect_before(bench: Bench) {
    bench.apply(["b", "d"].map(received).to_vec()).await.unwrap();
    let batch = ["a", "b", "c", "d"].map(received).to_vec();
    let applied = bench.apply(batch).await.unwrap();
    let (now, before) = (Applied::Now, Applied::Before);
    assert_eq!(applied, [now, before, now, before]);
    bench.took_effect(&["b", "d", "a", "c"]).await;
}

/// Two batches of the same events, one the other way round: whoever took what the other waits for would stand still.
pub(super) async fn batches_that_overlap_in_another_order_do_not_stand_still(bench: Bench) {
    const EVENTS: usize = 50;
    let forward: Vec<Received> = (0..EVENTS).map(|n| received(&format!("e{n:02}"))).collect();
    let backward: Vec<Received> = forward.iter().rev().cloned().collect();
    let mut tasks = Vec::new();
    for batch in [forward.clone(), backward.clone(), forward, backward] {
        let effects = bench.open().await;
        tasks.push(tokio::spawn(async move {
            let applied = effects.apply(CONSUMER, batch, nothing()).await.unwrap();
            applied.iter().filter(|one| **one == Applied::Now).count()
        }));
    }
    let mut now = 0;
    for task in tasks {
        now += task.await.unwrap();
    }
    assert_eq!((now, bench.inbox.effects().await.len()), (EVENTS, EVENTS));
}

/// What a listener is told to give it at most is what it undoes together.
pub(super) async fn as_many_as_it_takes_are_all_or_nothing(bench: Bench) {
    // As many as a listener holds unless it is told otherwise.
    const HELD: usize = 200;
    let effects = bench.open().await;
    let most = effects.most().min(HELD);
    assert!(most > 0, "effects that take nothing have none");
    let ids: Vec<String> = (1..most)
        .map(|n| format!("e{n:03}"))
        .chain(["last".to_owned()])
        .collect();
    let batch = || ids.iter().map(|id| received(id)).collect();
    let script = fails("last", || HandlerError::retry("not now"));
    let failed = effects.apply(CONSUMER, batch(), script).await;
    match &failed {
        Err(ApplyError::Handler { at, .. }) => assert_eq!(*at, most - 1),
        _ => panic!("the last one failed: {failed:?}"),
    }
    bench.took_effect(&[]).await;
    let applied = effects.apply(CONSUMER, batch(), nothing()).await;
    assert_eq!(applied.unwrap(), vec![Applied::Now; most], "an answer for each");
    assert_eq!(bench.inbox.effects().await, ids);
}

pub(super) async fn nothing_is_nothing(bench: Bench) {
    assert_eq!(bench.apply(vec![]).await.unwrap(), []);
    bench.took_effect(&[]).await;
}
