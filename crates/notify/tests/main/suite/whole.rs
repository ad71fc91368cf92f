//! All that belongs to an occasion is stored, or nothing; and only what is a duplicate counts as one.

use postrider_notify::BoardError;
use serde_json::json;

use super::Bench;
use super::stage::{
    accept, board, crowd, event, followed, is_refused, is_store_error, menu, person, rows, with,
};

const NOTHING: [i64; 5] = [0; 5];

/// Error 11000 of document 003: a collision with another unique index is not what was looked for.
pub(crate) async fn another_constraint_is_an_error_and_no_duplicate(bench: &dyn Bench) {
    let board = with(bench, &["ann", "bea"]).await;
    bench.run("CREATE UNIQUE INDEX odd ON notification (title)").await;
    assert_eq!(accept(&board, followed("e1", "ann", "bob")).await.stored, 1);
    let before = rows(bench).await;
    is_store_error(board.accept(followed("e2", "bea", "bob")).await);
    is_store_error(board.accept(followed("e3", "ann", "cy")).await);
    assert_eq!(rows(bench).await, before, "nothing was stored");
    // What is a duplicate stays one, whatever else stands in its way.
    assert_eq!(accept(&board, followed("e1", "ann", "bob")).await.duplicates, 1);
    bench.run("DROP INDEX odd").await;
    assert_eq!(
        accept(&board, followed("e2", "bea", "bob")).await.stored,
        1,
        "retry after failure"
    );
}

pub(crate) async fn an_error_in_the_deliveries_leaves_nothing(bench: &dyn Bench) {
    let board = crowd(bench, "soup", 5).await;
    bench
        .run("CREATE UNIQUE INDEX odd ON notification_delivery (channel)")
        .await;
    is_store_error(board.accept(menu("e1", "soup")).await);
    assert_eq!(rows(bench).await, NOTHING);
    bench.run("DROP INDEX odd").await;
    assert_eq!(accept(&board, menu("e1", "soup")).await.stored, 5);
}

pub(crate) async fn an_error_in_the_outbox_leaves_nothing(bench: &dyn Bench) {
    let board = crowd(bench, "soup", 5).await;
    bench.run("CREATE UNIQUE INDEX odd ON outbox (event_type)").await;
    is_store_error(board.accept(menu("e1", "soup")).await);
    assert_eq!(rows(bench).await, NOTHING);
    bench.run("DROP INDEX odd").await;
    assert_eq!(accept(&board, menu("e1", "soup")).await.stored, 5);
    assert_eq!(rows(bench).await, [5, 10, 0, 0, 5]);
}

pub(crate) async fn an_error_of_the_fan_out_leaves_nothing(bench: &dyn Bench) {
    let board = crowd(bench, "soup", 1_100).await;
    bench
        .run("CREATE UNIQUE INDEX odd ON notification_fanout (workflow)")
        .await;
    assert!(accept(&board, menu("e1", "soup")).await.goes_on);
    let before = rows(bench).await;
    is_store_error(board.accept(menu("e2", "soup")).await);
    assert_eq!(rows(bench).await, before);
    bench.run("DROP INDEX odd").await;
    assert!(accept(&board, menu("e2", "soup")).await.goes_on);
    // A chunk that fails moves nothing on: it is done again as a whole.
    bench.run("DELETE FROM outbox").await;
    let before = rows(bench).await;
    bench.run("CREATE UNIQUE INDEX odd ON outbox (event_type)").await;
    is_refused(board.step().await);
    assert_eq!(rows(bench).await, before);
    bench.run("DROP INDEX odd").await;
    assert_eq!(board.resume().await.expect("resumed"), 1);
    let step = board.step().await.expect("a step").expect("there was one");
    assert!(step.finished && step.stored == 100, "{step:?}");
}

pub(crate) async fn an_occasion_without_words_is_refused_whole(bench: &dyn Bench) {
    let board = board(bench).await;
    let strange = event("e1", "Unheard", "ann", json!({}));
    let refused = board.accept(strange).await;
    assert!(matches!(refused, Err(BoardError::Occasion(_))), "{refused:?}");
    // Nobody is known, and still it is said: a dead letter today is better than one when the first user comes.
    let missing = event("e2", "UserFollowed", "ann", json!({"who": "Bob"}));
    let refused = board.accept(missing).await;
    assert!(matches!(refused, Err(BoardError::Occasion(_))), "{refused:?}");
    let odd = event("e3\0", "InvoiceSent", "ann", json!({}));
    let refused = board.accept(odd).await;
    assert!(matches!(refused, Err(BoardError::Occasion(_))), "{refused:?}");
    assert_eq!(rows(bench).await, NOTHING);
}

/// Somebody wrote an id into the table that no event can carry. What was stored before it is noticed must be sent.
pub(crate) async fn an_id_that_no_event_can_have_leaves_nothing_half_stored(bench: &dyn Bench) {
    let board = crowd(bench, "soup", 5).await;
    bench
        .run(
            "INSERT INTO notification_recipient (id, name, email) VALUES ('u00002\t', 'Odd', 'odd@example.com');
             INSERT INTO notification_subscription (topic, user_id) VALUES ('soup', 'u00002\t')",
        )
        .await;
    assert_eq!(accept(&board, menu("e1", "soup")).await.stored, 6);
    assert_eq!(rows(bench).await, [6, 12, 0, 0, 5]);
    let unsent = "SELECT count(*) FROM notification_delivery WHERE channel = 'email' AND problem IS NULL \
                  AND event_id NOT IN (SELECT event_id FROM outbox)";
    assert_eq!(bench.number(unsent).await, 0);
    let problems = "SELECT problem FROM notification_delivery WHERE problem IS NOT NULL";
    let problems = bench.texts(problems).await;
    assert!(
        problems.len() == 1 && problems[0].contains("control character"),
        "{problems:?}"
    );
}

/// What strangers call themselves, and a language that nobody has words in.
pub(crate) async fn hostile_names_and_unknown_languages_are_told_all_the_same(bench: &dyn Bench) {
    let board = board(bench).await;
    let hostile = postrider_notify::Recipient {
        name: "<b>Ann</b>\r\nBcc: all@example.com\u{202e}".to_owned(),
        locale: Some("xx-YY".to_owned()),
        ..person("ann")
    };
    board.put(&hostile).await.expect("put");
    let who = "Bob\r\nBcc: all@example.com";
    let payload = json!({"followerId": "b", "who": who});
    let told = accept(&board, event("e1", "UserFollowed", "ann", payload)).await;
    let entry = told.one.expect("stored").entry;
    assert_eq!(entry.title, "Bob  Bcc: all@example.com follows you");
    assert_eq!(entry.body, "<b>Ann</b>  Bcc: all@example.com: UserFollowed");
    assert_eq!(rows(bench).await, [1, 2, 0, 0, 1]);
}
