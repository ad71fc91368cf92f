//! Events that are collected for a while become one notification.

use std::sync::Arc;

use postrider_notify::Board;

use super::Bench;
use super::stage::{HOUR, accept, liked, rows, says, with, workflows};

/// Lets the window of every digest be over.
async fn later(bench: &dyn Bench) {
    bench.age("notification_digest", "due_at", HOUR).await;
}

async fn all(board: &Arc<dyn Board>) -> u64 {
    let mut made = 0;
    while board.digest().await.expect("a digest") {
        made += 1;
        assert!(made < 100, "it does not end");
    }
    made
}

pub(crate) async fn events_are_collected_into_one_notification(bench: &dyn Bench) {
    let board = with(bench, &["ann", "bea"]).await;
    assert_eq!(board.next_digest().await.expect("asked"), None);
    for (id, user) in [("e1", "ann"), ("e2", "ann"), ("e3", "ann"), ("e1", "bea")] {
        let accepted = accept(&board, liked(id, user)).await;
        assert_eq!((accepted.stored, accepted.collected, accepted.one), (0, 1, None));
    }
    let next = board
        .next_digest()
        .await
        .expect("asked")
        .expect("two are collected");
    assert!(next <= HOUR && next > HOUR / 2, "{next:?}");
    assert!(!board.digest().await.expect("asked"), "none is due yet");
    later(bench).await;
    assert_eq!(
        board.next_digest().await.expect("asked"),
        Some(std::time::Duration::ZERO)
    );
    assert_eq!(all(&board).await, 2);
    let feed = board.list("ann", None, 10, false).await.expect("listed");
    assert_eq!((feed.len(), &*feed[0].title), (1, "3 likes"));
    let feed = board.list("bea", None, 10, false).await.expect("listed");
    assert_eq!((feed.len(), &*feed[0].title), (1, "1 likes"));
    assert_eq!(board.next_digest().await.expect("asked"), None);
}

/// While it is open, and after it was sent.
pub(crate) async fn a_repeated_event_is_collected_once(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    assert_eq!(accept(&board, liked("e1", "ann")).await.collected, 1);
    let again = accept(&board, liked("e1", "ann")).await;
    assert_eq!((again.collected, again.duplicates), (0, 1));
    later(bench).await;
    assert_eq!(all(&board).await, 1);
    let again = accept(&board, liked("e1", "ann")).await;
    assert_eq!((again.collected, again.duplicates), (0, 1));
    later(bench).await;
    assert_eq!(all(&board).await, 0, "no digest of nothing");
    assert_eq!(rows(bench).await[0], 1);
}

pub(crate) async fn it_is_closed_once(bench: &dyn Bench) {
    with(bench, &["ann"]).await;
    let boards = [bench.open(workflows()).await, bench.open(workflows()).await];
    for round in 0..10 {
        accept(&boards[0], liked(&format!("e{round}"), "ann")).await;
        later(bench).await;
        let tasks = boards
            .clone()
            .map(|board| tokio::spawn(async move { all(&board).await }));
        for task in tasks {
            task.await.expect("no panic");
        }
        // One that found another at work leaves it to that one.
        all(&boards[0]).await;
        assert_eq!(rows(bench).await[0], round + 1);
    }
}

pub(crate) async fn who_mutes_it_meanwhile_is_not_told(bench: &dyn Bench) {
    let board = with(bench, &["ann", "bea"]).await;
    assert_eq!(accept(&board, liked("e1", "ann")).await.collected, 1);
    assert_eq!(accept(&board, liked("e1", "bea")).await.collected, 1);
    board
        .prefer("ann", &says(None, Some("social"), false))
        .await
        .expect("kept");
    board.remove("bea").await.expect("removed");
    assert_eq!(accept(&board, liked("e2", "ann")).await.muted, 1);
    later(bench).await;
    assert_eq!(all(&board).await, 2, "both are closed");
    assert_eq!(rows(bench).await[0], 0);
}

pub(crate) async fn the_next_window_is_another_digest(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    for id in ["e1", "e2"] {
        assert_eq!(accept(&board, liked(id, "ann")).await.collected, 1);
        later(bench).await;
        assert_eq!(all(&board).await, 1);
    }
    let titles = bench.texts("SELECT title FROM notification").await;
    assert_eq!(titles, ["1 likes", "1 likes"]);
}
