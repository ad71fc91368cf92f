//! The tables, and the view of each audience.

use postrider_notify::BoardError;

use super::Bench;
use super::stage::{accept, board, followed, liked, rows, with, workflows};

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

/// Of a table that somebody else has made: the delivery of a channel is unique in it from now on.
pub(crate) async fn a_table_without_its_key_is_given_one(bench: &dyn Bench) {
    let board = bench.open(workflows()).await;
    bench
        .run(
            "CREATE TABLE notification_delivery (notification_id bigint NOT NULL, channel text NOT NULL, \
             event_id text, address text NOT NULL, problem text)",
        )
        .await;
    let row =
        "INSERT INTO notification_delivery (notification_id, channel, address) VALUES (7, 'email', 'a')";
    bench.run(row).await;
    bench.run(row).await;
    let said = match board.migrate().await {
        Err(error @ BoardError::Duplicates { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(
        said.contains("notification_delivery") && said.contains("7, email (2 rows)"),
        "{said}"
    );
    bench.run("DELETE FROM notification_delivery").await;
    board.migrate().await.expect("now it can be");
    bench.run(row).await;
    // Names the rule: without one over these columns it is an error.
    bench
        .run(&format!(
            "{row} ON CONFLICT (notification_id, channel) DO NOTHING"
        ))
        .await;
    assert_eq!(rows(bench).await[1], 1);
}

/// Of the name of a rule, and without its effect: it is made anew, where the rows allow it.
pub(crate) async fn an_index_that_is_not_unique_is_no_rule(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    assert_eq!(accept(&board, followed("e1", "ann", "bob")).await.stored, 1);
    bench
        .run(
            "DROP INDEX uk_notification_event_user; \
             CREATE INDEX uk_notification_event_user ON notification (event_id, user_id)",
        )
        .await;
    let copy = "INSERT INTO notification (event_id, event_type, audience, workflow, user_id, category, title, body, \
         metadata) SELECT event_id, event_type, audience, workflow, user_id, category, title, body, metadata \
         FROM notification";
    bench.run(copy).await;
    let refused = board.migrate().await;
    assert!(
        matches!(refused, Err(BoardError::Duplicates { .. })),
        "{refused:?}"
    );
    bench
        .run("DELETE FROM notification WHERE id = (SELECT max(id) FROM notification)")
        .await;
    board.migrate().await.expect("now it can be");
    assert_eq!(accept(&board, followed("e1", "ann", "bob")).await.duplicates, 1);
    // Names the rule: without one over these columns it is an error.
    bench
        .run(&format!(
            "{copy} WHERE true ON CONFLICT (event_id, user_id) DO NOTHING"
        ))
        .await;
    assert_eq!(rows(bench).await[0], 1);
}

/// The rules of digests, too.
pub(crate) async fn each_rule_is_made_over_what_is_there(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    assert_eq!(accept(&board, liked("e1", "ann")).await.collected, 1);
    let digest = bench.number("SELECT max(id) FROM notification_digest").await;
    for (index, table, copy) in [
        (
            "uk_notification_digest_open",
            "notification_digest",
            "(workflow, user_id, due_at) SELECT workflow, user_id, due_at",
        ),
        (
            "uk_notification_digest_item",
            "notification_digest_item",
            "(digest_id, workflow, user_id, event_id, occasion) \
             SELECT digest_id, workflow, user_id, event_id, occasion",
        ),
    ] {
        bench.run(&format!("DROP INDEX {index}")).await;
        bench
            .run(&format!("INSERT INTO {table} {copy} FROM {table}"))
            .await;
        match board.migrate().await {
            Err(BoardError::Duplicates { table: named, .. }) => assert_eq!(named, table),
            other => panic!("{index}: {other:?}"),
        }
        let first = bench.number(&format!("SELECT min(id) FROM {table}")).await;
        bench
            .run(&format!("DELETE FROM {table} WHERE id > {first}"))
            .await;
        board.migrate().await.expect("now it can be");
        assert!(board.sql().contains(index));
    }
    assert_eq!(
        bench.number("SELECT max(id) FROM notification_digest").await,
        digest
    );
    assert_eq!(accept(&board, liked("e1", "ann")).await.duplicates, 1);
}

/// The keys of these tables were part of them; now they are rules like the others.
pub(crate) async fn tables_of_the_version_before_are_taken_over(bench: &dyn Bench) {
    with(bench, &["ann"]).await;
    bench
        .run(
            "DROP VIEW customer_notification; DROP VIEW restaurant_notification; DROP TABLE notification_delivery; \
             DROP TABLE notification_digest_item; \
             CREATE TABLE notification_delivery (notification_id bigint NOT NULL, channel text NOT NULL, \
             event_id text, address text NOT NULL, problem text, PRIMARY KEY (notification_id, channel)); \
             CREATE TABLE notification_digest_item (id bigint NOT NULL DEFAULT 1, digest_id bigint NOT NULL, \
             workflow text NOT NULL, user_id text NOT NULL, event_id text NOT NULL, occasion text NOT NULL, \
             CONSTRAINT uk_notification_digest_item UNIQUE (workflow, user_id, event_id))",
        )
        .await;
    let board = bench.open(workflows()).await;
    board.migrate().await.expect("taken over");
    board.migrate().await.expect("again");
    assert_eq!(accept(&board, followed("e1", "ann", "bob")).await.stored, 1);
    assert_eq!(accept(&board, followed("e1", "ann", "bob")).await.duplicates, 1);
    assert_eq!(accept(&board, liked("e2", "ann")).await.collected, 1);
    assert_eq!(accept(&board, liked("e2", "ann")).await.duplicates, 1);
    assert_eq!(rows(bench).await, [1, 2, 0, 1, 1]);
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
