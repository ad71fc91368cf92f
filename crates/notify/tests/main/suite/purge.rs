//! What is old goes, unless somebody still works on it.

use postrider_notify::Purged;
use serde_json::json;

use super::Bench;
use super::stage::{HOUR, accept, crowd, event, followed, liked, menu, rows, with};

pub(crate) async fn old_ones_go_in_steps(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    for n in 0..5 {
        accept(&board, followed(&format!("e{n}"), "ann", &n.to_string())).await;
    }
    bench.run("DELETE FROM outbox").await;
    assert_eq!(
        board.purge(HOUR, 10).await.expect("purged").notifications,
        0,
        "none is old"
    );
    bench.age("notification", "created_at", 2 * HOUR).await;
    accept(&board, followed("new", "ann", "new")).await;
    assert_eq!(board.purge(HOUR, 3).await.expect("purged").notifications, 3);
    assert_eq!(board.purge(HOUR, 10).await.expect("purged").notifications, 2);
    assert_eq!(bench.texts("SELECT event_id FROM notification").await, ["new"]);
    assert_eq!(
        bench.number("SELECT count(*) FROM notification_delivery").await,
        2
    );
}

pub(crate) async fn what_is_not_settled_stays(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    for n in 0..3 {
        accept(&board, followed(&format!("e{n}"), "ann", &n.to_string())).await;
    }
    accept(&board, event("invoice", "InvoiceSent", "ann", json!({}))).await;
    // The mail of one is sent long ago; those of the others wait, and they are older than all that is removed.
    bench
        .run("DELETE FROM outbox WHERE event_id = (SELECT max(event_id) FROM outbox)")
        .await;
    bench.age("notification", "created_at", 2 * HOUR).await;
    assert_eq!(board.purge(HOUR, 1).await.expect("purged").notifications, 1);
    assert_eq!(board.purge(HOUR, 10).await.expect("purged").notifications, 0);
    assert_eq!(bench.number("SELECT count(*) FROM notification").await, 3);
}

/// Those that are not finished stay, however old they are.
pub(crate) async fn finished_fan_outs_go_in_steps(bench: &dyn Bench) {
    let board = crowd(bench, "soup", 1_001).await;
    for id in ["e1", "e2", "e3", "e4"] {
        assert!(accept(&board, menu(id, "soup")).await.goes_on);
    }
    for _ in 0..3 {
        board.step().await.expect("a step").expect("it goes on");
    }
    for column in ["created_at", "finished_at"] {
        bench.age("notification_fanout", column, 2 * HOUR).await;
    }
    let purge = async |limit| board.purge(HOUR, limit).await.expect("purged");
    let gone = |fan_outs| Purged {
        fan_outs,
        ..Purged::default()
    };
    assert_eq!(purge(2).await, gone(2));
    assert_eq!(purge(2).await, gone(1));
    assert!(!purge(2).await.any());
    assert_eq!(
        bench.texts("SELECT event_id FROM notification_fanout").await,
        ["e4"]
    );
    let last = board.step().await.expect("a step").expect("it goes on");
    assert_eq!((&*last.event_id, last.finished), ("e4", true));
}

/// With what they were made of; what is still collected stays, however old it is.
pub(crate) async fn digests_that_were_told_go_in_steps(bench: &dyn Bench) {
    let board = with(bench, &["ann", "bea", "cy"]).await;
    for (id, user) in [("e1", "ann"), ("e2", "ann"), ("e1", "bea"), ("e1", "cy")] {
        assert_eq!(accept(&board, liked(id, user)).await.collected, 1);
    }
    bench.age("notification_digest", "due_at", HOUR).await;
    for _ in 0..3 {
        assert!(board.digest().await.expect("told"));
    }
    assert_eq!(accept(&board, liked("e3", "ann")).await.collected, 1);
    for (table, column) in [
        ("notification_digest", "due_at"),
        ("notification_digest", "sent_at"),
        ("notification_digest_item", "created_at"),
    ] {
        bench.age(table, column, 2 * HOUR).await;
    }
    let purge = async |limit| board.purge(HOUR, limit).await.expect("purged").digests;
    assert_eq!((purge(2).await, purge(2).await, purge(2).await), (2, 1, 0));
    assert_eq!(rows(bench).await[3], 1, "what is collected");
    assert!(board.digest().await.expect("told"), "and told");
    let feed = board.list("ann", None, 1, false).await.expect("listed");
    assert_eq!(feed[0].title, "1 likes");
}
