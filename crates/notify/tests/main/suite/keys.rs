//! Requests with a key: the first that says something with it counts.

use std::sync::Arc;

use postrider_notify::{Accepted, Board, BoardError, Occasion};

use super::Bench;
use super::stage::{HOUR, followed, liked, menu, rows, with, workflows};

async fn request(board: &Arc<dyn Board>, occasion: Occasion) -> Accepted {
    board.request(occasion).await.expect("accepted")
}

fn is_reused(result: Result<Accepted, BoardError>) {
    assert!(matches!(result, Err(BoardError::Reused)), "{result:?}");
}

pub(crate) async fn the_first_that_counts_is_known_again(bench: &dyn Bench) {
    let board = with(bench, &["ann", "bea"]).await;
    board
        .subscribe("soup", &["ann".to_owned()])
        .await
        .expect("subscribed");
    // One person, a digest, a topic: whatever is stored, something else with the same key is refused.
    let first = [
        followed("k1", "ann", "bob"),
        liked("k2", "ann"),
        menu("k3", "soup"),
    ];
    let other = [
        followed("k1", "bea", "bob"),
        liked("k2", "bea"),
        menu("k3", "salad"),
    ];
    for (first, other) in first.into_iter().zip(other) {
        let told = request(&board, first.clone()).await;
        assert_eq!((told.stored + told.collected, told.duplicates), (1, 0));
        let before = rows(bench).await;
        is_reused(board.request(other).await);
        let again = request(&board, first).await;
        assert_eq!((again.stored + again.collected, again.duplicates), (0, 1));
        assert_eq!(rows(bench).await, before);
    }
}

pub(crate) async fn of_two_at_once_one_counts(bench: &dyn Bench) {
    with(bench, &["ann", "bea"]).await;
    for n in 0..10 {
        let key = format!("k{n}");
        let boards = [bench.open(workflows()).await, bench.open(workflows()).await];
        let asked = [followed(&key, "ann", &key), followed(&key, "bea", &key)];
        let tasks = boards.into_iter().zip(asked);
        let tasks = tasks.map(|(board, asked)| tokio::spawn(async move { board.request(asked).await }));
        let (mut stored, mut reused) = (0, 0);
        for task in tasks.collect::<Vec<_>>() {
            match task.await.expect("no panic") {
                Ok(accepted) => stored += accepted.stored,
                Err(BoardError::Reused) => reused += 1,
                Err(error) => panic!("{error:?}"),
            }
        }
        assert_eq!((stored, reused), (1, 1));
    }
}

/// Somebody who is not known yet, or a template that lacks a word: nothing came of it, so it may be said otherwise.
pub(crate) async fn a_key_for_nobody_is_free(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    assert_eq!(
        request(&board, followed("k1", "nobody", "bob")).await,
        Accepted::default()
    );
    assert!(board.request(menu("k1", "")).await.is_err());
    assert_eq!(request(&board, followed("k1", "ann", "bob")).await.stored, 1);
}

pub(crate) async fn it_is_known_as_long_as_notifications_are(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    request(&board, liked("k1", "ann")).await;
    let keys = "SELECT count(*) FROM notification_request";
    let purge = async || board.purge(HOUR, 100).await.expect("purged").requests;
    assert_eq!((purge().await, bench.number(keys).await), (0, 1));
    bench.age("notification_request", "created_at", HOUR * 2).await;
    assert_eq!((purge().await, bench.number(keys).await), (1, 0));
}
