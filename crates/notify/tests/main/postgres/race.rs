//! Many at once.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::StoreErrorKind;
use postrider_notify::{Board, BoardError};
use tokio::sync::Barrier;

use super::Pg;
use crate::suite::Bench;
use crate::suite::stage::{accept, crowd, finish, followed, menu, with, workflows};

/// Eight listeners are given one event, or events about one thing, at the same moment: one notification each user, and
/// nobody fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_that_accept_at_once_store_one() {
    let pg = Pg::fresh().await;
    crowd(&pg, "soup", 300).await;
    with(&pg, &["ann"]).await;
    let boards: Vec<Arc<_>> = (0..8).map(|_| Arc::new(pg.board(workflows()))).collect();
    for round in 0..5 {
        let together = Arc::new(Barrier::new(8));
        let mut tasks = Vec::new();
        for (at, board) in boards.iter().enumerate() {
            let (board, together) = (Arc::clone(board), Arc::clone(&together));
            let id = if at % 2 == 0 {
                "same".to_owned()
            } else {
                at.to_string()
            };
            tasks.push(tokio::spawn(async move {
                together.wait().await;
                let follow = followed(&format!("f{round}{id}"), "ann", &round.to_string());
                let one = board.accept(follow).await.expect("accepted");
                let many = board.accept(menu(&format!("e{round}"), "soup")).await;
                (one, many.expect("accepted"))
            }));
        }
        let (mut one, mut many) = ((0, 0), (0, 0));
        for task in tasks {
            let (follow, soup) = task.await.expect("no panic");
            one = (one.0 + follow.stored, one.1 + follow.duplicates);
            many = (many.0 + soup.stored, many.1 + soup.duplicates);
        }
        assert_eq!((one, many), ((1, 7), (300, 7 * 300)), "round {round}");
    }
    assert_eq!(pg.number("SELECT count(*) FROM notification").await, 5 * 301);
    assert_eq!(pg.number("SELECT count(*) FROM outbox").await, 5 * 301);
}

/// Whoever waits for another that is about to store the same, and finds a unique index of the team's own in the way
/// instead, hears of that one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_rule_is_named() {
    let pg = Pg::fresh().await;
    let board = with(&pg, &["ann", "bea"]).await;
    pg.run("CREATE UNIQUE INDEX team_title ON notification (title)")
        .await;
    accept(&board, followed("e1", "ann", "bob")).await;
    let refused = board.accept(followed("e2", "bea", "bob")).await;
    let Err(BoardError::Store(error)) = refused else {
        panic!("it is no duplicate: {refused:?}");
    };
    assert_eq!(error.kind(), StoreErrorKind::Other);
    let cause = postrider_core::causes(&error);
    assert!(cause.contains("team_title"), "{cause}");
}

/// A worker that is frozen with its transaction open holds up its own fan-out and no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_worker_holds_up_its_own_fan_out_only() {
    let pg = Pg::fresh().await;
    let board = crowd(&pg, "soup", 1_200).await;
    for id in ["e1", "e2"] {
        assert!(accept(&board, menu(id, "soup")).await.goes_on);
    }
    let mut frozen = pg.connect().await;
    let tx = frozen.transaction().await.expect("a transaction");
    let claim = "SELECT event_id FROM notification_fanout ORDER BY created_at LIMIT 1 FOR UPDATE";
    let claimed: String = tx.query_one(claim, &[]).await.expect("claimed").get(0);
    assert_eq!(claimed, "e1");
    let step = tokio::time::timeout(Duration::from_secs(30), board.step()).await;
    let step = step.expect("it waits for nobody").expect("a step");
    assert_eq!(step.expect("the other").event_id, "e2");
    assert_eq!(board.step().await.expect("a step"), None, "the rest is in hand");
    tx.rollback().await.expect("rolled back");
    assert_eq!(finish(&board).await, 1, "the worker is gone");
}

/// Those that start together all make the tables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn boards_migrate_at_once() {
    let pg = Pg::fresh().await;
    let together = Arc::new(Barrier::new(8));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (board, together) = (pg.board(workflows()), Arc::clone(&together));
            tokio::spawn(async move {
                together.wait().await;
                board.migrate().await
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic").expect("migrated");
    }
}
