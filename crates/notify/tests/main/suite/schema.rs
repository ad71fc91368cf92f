//! The tables, and the view of each audience.

use postrider_notify::BoardError;

use super::Bench;
use super::stage::{accept, board, followed, with, workflows};

pub(crate) async fn migrating_again_changes_nothing(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    assert_eq!(accept(&board, followed("e1", "ann", "bob")).await.stored, 1);
    board.migrate().await.expect("again");
    let other = bench.open(workflows()).await;
    other.migrate().await.expect("by another");
    assert_eq!(accept(&other, followed("e1", "ann", "bob")).await.duplicates, 1);
    assert!(board.sql().contains("uk_notification_resource"));
}

/// Adding the constraints over rows that are there: document 003 leaves it open.
pub(crate) async fn duplicates_are_listed_and_nothing_is_changed(bench: &dyn Bench) {
    let board = board(bench).await;
    bench.run("DROP INDEX uk_notification_resource").await;
    let row = |event: &str, resource: &str| {
        format!(
            "INSERT INTO notification (event_id, event_type, audience, workflow, user_id, category, resource_id, \
             title, body, metadata) \
             VALUES ('{event}', 'T', 'CUSTOMER', 'w', 'ann', 'social', {resource}, 't', 'b', '{{}}')"
        )
    };
    for (event, resource) in [
        ("e1", "'T:1'"),
        ("e2", "'T:1'"),
        ("e3", "'T:2'"),
        ("e4", "NULL"),
        ("e5", "NULL"),
    ] {
        bench.run(&row(event, resource)).await;
    }
    let refused = board.migrate().await;
    let Err(BoardError::Duplicates { table, duplicates }) = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!(
        (*table, duplicates.columns),
        ("notification", "user_id, category, resource_id, period")
    );
    assert_eq!(duplicates.groups.len(), 1);
    let (values, rows) = &duplicates.groups[0];
    assert!(
        *rows == 2 && values.contains("ann") && values.contains("T:1"),
        "{values}"
    );
    let said = refused.expect_err("refused").to_string();
    assert!(said.contains("T:1") && said.contains("remove"), "{said}");
    assert_eq!(bench.number("SELECT count(*) FROM notification").await, 5);
    bench.run("DELETE FROM notification WHERE event_id = 'e2'").await;
    board.migrate().await.expect("now it can be");
}

pub(crate) async fn each_audience_has_its_view(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    accept(&board, followed("e1", "ann", "bob")).await;
    let types = bench
        .texts("SELECT notification_type FROM customer_notification WHERE event_id = 'e1' ORDER BY notification_type")
        .await;
    assert_eq!(types, ["EMAIL", "IN_APP"]);
    let columns = "id, event_id, user_id, notification_type, event_type, category, resource_id, title, body, \
                   created_at, read_at";
    let rows = |view: &str| format!("SELECT count(*) FROM (SELECT {columns} FROM {view}) rows_of_view");
    assert_eq!(bench.number(&rows("customer_notification")).await, 2);
    assert_eq!(bench.number(&rows("restaurant_notification")).await, 0);
}
