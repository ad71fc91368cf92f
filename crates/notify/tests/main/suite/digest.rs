//! Events that are collected for a while become one notification.

use std::sync::Arc;
use std::time::Duration;

use postrider_notify::Board;
use serde_json::json;

use super::Bench;
use super::stage::{
    HOUR, accept, crowd, event, finish, for_all, is_refused, liked, rows, says, with, workflows,
};

/// Lets the window of every digest be over.
pub(crate) async fn later(bench: &dyn Bench) {
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
    assert_eq!(board.next_digest().await.expect("asked"), Some(Duration::ZERO));
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

/// Its workflow is not there any more. It is tried again after a while, and others are told meanwhile.
pub(crate) async fn one_that_cannot_be_told_is_put_off(bench: &dyn Bench) {
    let board = with(bench, &["ann", "bea"]).await;
    for user in ["ann", "bea"] {
        assert_eq!(accept(&board, liked("e1", user)).await.collected, 1);
    }
    let rename = async |to: &str| {
        let sql = format!("UPDATE notification_digest SET workflow = '{to}' WHERE user_id = 'ann'");
        bench.run(&sql).await;
    };
    rename("gone").await;
    later(bench).await;
    later(bench).await;
    let reason = is_refused(board.digest().await);
    assert!(reason.contains("gone"), "{reason}");
    assert_eq!(all(&board).await, 1, "the other is told");
    let said = "SELECT problem FROM notification_digest WHERE sent_at IS NULL";
    assert_eq!(bench.texts(said).await, [reason]);
    assert_eq!(
        board.next_digest().await.expect("asked"),
        None,
        "of none that is known"
    );
    rename("postliked").await;
    let next = board.next_digest().await.expect("asked").expect("it is open");
    assert!(
        next > Duration::ZERO && next <= Duration::from_secs(60),
        "{next:?}"
    );
    assert_eq!(accept(&board, liked("e2", "ann")).await.collected, 1);
    later(bench).await;
    assert_eq!(all(&board).await, 1);
    let feed = board.list("ann", None, 10, false).await.expect("listed");
    assert_eq!((feed.len(), &*feed[0].title), (1, "2 likes"));
}

/// The notification was stored when its delivery was refused: none of it is there.
pub(crate) async fn one_that_the_database_refuses_is_put_off_whole(bench: &dyn Bench) {
    let board = with(bench, &["ann", "bea"]).await;
    let other = event("e1", "MenuChanged", "bea", json!({"dish": "Soup"}));
    assert_eq!(accept(&board, other).await.stored, 1);
    assert_eq!(accept(&board, liked("e2", "ann")).await.collected, 1);
    bench
        .run("CREATE UNIQUE INDEX odd ON notification_delivery (channel)")
        .await;
    later(bench).await;
    let before = rows(bench).await;
    is_refused(board.digest().await);
    assert_eq!(rows(bench).await, before);
    assert!(!board.digest().await.expect("asked"), "it is put off");
    bench.run("DROP INDEX odd").await;
    later(bench).await;
    assert_eq!(all(&board).await, 1);
    let feed = board.list("ann", None, 10, false).await.expect("listed");
    assert_eq!((feed.len(), &*feed[0].title), (1, "1 likes"));
}

/// Whoever wrote such a row did not tell the digest.
pub(crate) async fn one_whose_id_is_taken_is_not_lost(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    assert_eq!(accept(&board, liked("e1", "ann")).await.collected, 1);
    let id = bench.number("SELECT max(id) FROM notification_digest").await;
    let refused = board
        .accept(liked(&format!("notification-digest-{id}"), "ann"))
        .await;
    assert!(is_refused(refused).contains("event id"));
    bench
        .run(&format!(
            "INSERT INTO notification (event_id, event_type, audience, workflow, user_id, category, title, body, \
             metadata) VALUES ('notification-digest-{id}', 'T', 'CUSTOMER', 'w', 'ann', 'c', 't', 'b', '{{}}')"
        ))
        .await;
    later(bench).await;
    is_refused(board.digest().await);
    bench.run("DELETE FROM notification").await;
    later(bench).await;
    assert_eq!(all(&board).await, 1);
    assert_eq!(bench.texts("SELECT title FROM notification").await, ["1 likes"]);
}

/// Every event is told, and told once: in the digest that is being told, or in the next.
pub(crate) async fn what_comes_while_one_is_told_is_in_the_next(bench: &dyn Bench) {
    const EVENTS: u64 = 40;
    with(bench, &["ann"]).await;
    let boards = [bench.open(workflows()).await, bench.open(workflows()).await];
    let collecting = async {
        for n in 0..EVENTS {
            assert_eq!(
                accept(&boards[0], liked(&format!("e{n}"), "ann")).await.collected,
                1
            );
        }
    };
    let telling = async {
        loop {
            later(bench).await;
            all(&boards[1]).await;
        }
    };
    tokio::select! {
        () = collecting => {}
        () = telling => {}
    }
    later(bench).await;
    all(&boards[1]).await;
    let titles = bench.texts("SELECT title FROM notification").await;
    let counts = titles
        .iter()
        .map(|title| title.split(' ').next().unwrap_or_default());
    let told: u64 = counts.map(|count| count.parse::<u64>().expect("a count")).sum();
    assert_eq!(told, EVENTS, "{titles:?}");
}

/// What is read for one digest is bounded, whatever was collected; all of it is counted.
pub(crate) async fn of_long_events_the_latest_are_told(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    let long = |id: &str, size: usize| {
        event(
            id,
            "PostLiked",
            "ann",
            json!({"postId": 1, "text": "x".repeat(size)}),
        )
    };
    for n in 0..60 {
        let collected = accept(&board, long(&format!("e{n}"), 100_000)).await.collected;
        assert_eq!(collected, 1);
    }
    let reason = is_refused(board.accept(long("longer", 200_000)).await);
    assert!(
        reason.contains("digest") && reason.contains("payload"),
        "{reason}"
    );
    later(bench).await;
    assert_eq!(all(&board).await, 1);
    let feed = board.list("ann", None, 10, false).await.expect("listed");
    assert_eq!((&*feed[0].title, &*feed[0].body), ("60 likes", "42 shown"));
    let kept = "SELECT count(*) FROM notification_digest_item WHERE occasion <> ''";
    assert_eq!(bench.number(kept).await, 0, "what was told is not kept");
    assert_eq!(
        accept(&board, long("e7", 100_000)).await.duplicates,
        1,
        "but known"
    );
}

/// One event for many who collect: in chunks as any other.
pub(crate) async fn a_long_event_for_many_is_collected_in_chunks(bench: &dyn Bench) {
    let board = crowd(bench, "soup", 200).await;
    let long = json!({"postId": 1, "text": "x".repeat(120_000)});
    let accepted = accept(&board, for_all("soup", event("e1", "PostLiked", "", long))).await;
    assert!(accepted.collected < 80 && accepted.goes_on, "{accepted:?}");
    finish(&board).await;
    assert_eq!(rows(bench).await, [0, 0, 1, 200, 0]);
}
