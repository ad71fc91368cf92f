//! Keys side by side, and each in its order.

use std::sync::Mutex;

use postrider_core::HandlerError;
use postrider_listener::Order;
use postrider_testkit::wait::until;

use crate::support::{Stage, gated, message, writes};

#[tokio::test]
async fn one_that_fails_holds_back_its_key_and_no_other() {
    let stage = Stage::new();
    let ids = ["a1", "a2", "b1", "b2", "a3"];
    stage.put(ids.map(|id| message(id, &id[..1]))).await;
    let open = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let passes = std::sync::Arc::clone(&open);
    let mut retry = crate::support::SOON;
    retry.max_attempts = u32::MAX;
    let handler = writes(move |event| {
        let passes = event.event_id() != "a1" || passes.load(std::sync::atomic::Ordering::Relaxed);
        passes.then_some(()).ok_or_else(|| HandlerError::retry("not yet"))
    });
    let play = stage.play_with(handler, |builder| builder.retry(retry));
    assert_eq!(stage.rows(2).await, ["b1", "b2"]);
    until("it is tried again", || stage.notes.count("WillRetry") > 3).await;
    assert_eq!(stage.effects.rows(), ["b1", "b2"], "its followers wait");
    open.store(true, std::sync::atomic::Ordering::Relaxed);
    stage.empty().await;
    assert_eq!(stage.effects.rows(), ["b1", "b2", "a1", "a2", "a3"]);
    play.stop().await;
}

#[tokio::test]
async fn without_order_nobody_waits() {
    let stage = Stage::new();
    stage.put([message("a1", "a"), message("a2", "a")]).await;
    let first = Mutex::new(true);
    let handler = writes(move |event| {
        let fails = event.event_id() == "a1" && std::mem::take(&mut *first.lock().unwrap());
        (!fails)
            .then_some(())
            .ok_or_else(|| HandlerError::retry("not yet"))
    });
    let play = stage.play_with(handler, |builder| {
        builder.order(Order::None).batch(1).concurrency(1)
    });
    stage.empty().await;
    assert_eq!(stage.effects.rows(), ["a2", "a1"]);
    play.stop().await;
}

#[tokio::test]
async fn many_keys_keep_their_order_whatever_fails() {
    let stage = Stage::new();
    let ids: Vec<(String, String)> = (0..2_000)
        .map(|n| (format!("{n:05}"), format!("{}", n % 17)))
        .collect();
    stage.put(ids.iter().map(|(id, key)| message(id, key))).await;
    // A tenth of the events fail at their first attempt on their own.
    let handler = writes(|event| match (event.event_id().ends_with('3'), event.attempt) {
        (true, 1) => Err(HandlerError::retry("at first")),
        _ => Ok(()),
    });
    let play = stage.play_with(handler, |builder| builder.batch(20).prefetch(150));
    stage.empty().await;
    let rows = stage.effects.rows();
    assert_eq!(rows.len(), 2_000);
    for key in 0..17 {
        let of_key: Vec<&String> = rows
            .iter()
            .filter(|id| id.parse::<u32>().unwrap() % 17 == key)
            .collect();
        assert!(of_key.is_sorted(), "key {key}: {of_key:?}");
    }
    play.stop().await;
}

#[tokio::test]
async fn keys_run_side_by_side_within_the_limit() {
    let stage = Stage::new();
    stage
        .put((0..10).map(|n| message(&format!("e{n}"), &format!("k{n}"))))
        .await;
    let (open, gate) = tokio::sync::watch::channel(false);
    let play = stage.play_with(gated(gate), |builder| builder.batch(1).concurrency(4).prefetch(7));
    // Fault D16: what is held is bounded.
    play.health("it holds what it may", |health| health.held == 7)
        .await;
    until("four run", || open.receiver_count() >= 5).await;
    assert_eq!(
        open.receiver_count(),
        5,
        "one for the handler itself and one for each that runs"
    );
    open.send_replace(true);
    stage.empty().await;
    assert_eq!(stage.effects.rows().len(), 10);
    play.stop().await;
}

#[tokio::test]
async fn a_stuck_listener_says_so_once() {
    let stage = Stage::new();
    stage.put(["a1", "a2", "a3"].map(|id| message(id, "a"))).await;
    let mut retry = crate::support::SOON;
    retry.base = std::time::Duration::from_secs(3_600);
    retry.max = retry.base;
    let handler = writes(|_| Err(HandlerError::retry("never")));
    let play = stage.play_with(handler, |builder| builder.retry(retry).prefetch(2));
    play.health("it is stuck", |health| health.stuck && !health.is_well())
        .await;
    assert_eq!((stage.notes.count("Stuck"), stage.queue.messages().len()), (1, 3));
    play.stop().await;
}
