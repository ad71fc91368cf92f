//! What counts as the same, and for how long.

use postrider_core::Timestamp;
use postrider_notify::Occasion;
use serde_json::json;

use super::Bench;
use super::stage::{HOUR, NOON, accept, event, followed, with};

fn comment(id: &str, comment: &str) -> Occasion {
    event(
        id,
        "CommentCreated",
        "ann",
        json!({"postId": "p1", "commentId": comment}),
    )
}

/// Both are of one category and about one id; the type tells them apart.
pub(crate) async fn another_type_of_event_is_another_thing(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    assert_eq!(accept(&board, followed("e1", "ann", "7")).await.stored, 1);
    assert_eq!(accept(&board, comment("e2", "7")).await.stored, 1);
    let about = bench
        .texts("SELECT resource_id FROM notification ORDER BY id")
        .await;
    assert_eq!(about, ["UserFollowed:7", "CommentCreated:7"]);
}

pub(crate) async fn a_second_comment_is_told_again(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    assert_eq!(accept(&board, comment("e1", "c1")).await.stored, 1);
    assert_eq!(
        accept(&board, comment("e2", "c2")).await.stored,
        1,
        "on the same post"
    );
    assert_eq!(
        accept(&board, comment("e3", "c2")).await.duplicates,
        1,
        "but once each"
    );
}

pub(crate) async fn after_the_window_it_is_told_again(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    let hour = i64::try_from(HOUR.as_micros()).expect("an hour");
    for (id, after, stored) in [
        ("e1", 0, 1),
        ("e2", hour - 1, 0),
        ("e3", hour, 1),
        ("e4", hour + 5, 0),
        ("e5", -1, 1),
    ] {
        let occasion = Occasion {
            at: Timestamp(NOON.0 + after),
            ..followed(id, "ann", "bob")
        };
        assert_eq!(accept(&board, occasion).await.stored, stored, "{id}");
    }
}

pub(crate) async fn without_a_resource_every_event_is_told(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    for id in ["e1", "e2", "e3"] {
        let stored = accept(&board, event(id, "MenuChanged", "ann", json!({"dish": "Soup"}))).await;
        assert_eq!(stored.stored, 1, "{id}");
    }
    // The follower is empty: nothing can be said to be the same.
    assert_eq!(accept(&board, followed("e4", "ann", "")).await.stored, 1);
    assert_eq!(accept(&board, followed("e5", "ann", "")).await.stored, 1);
}
