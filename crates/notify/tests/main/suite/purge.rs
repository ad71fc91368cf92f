//! What is old goes, unless somebody still works on it.

use super::Bench;
use super::stage::{HOUR, accept, event, followed, with};
use serde_json::json;

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
