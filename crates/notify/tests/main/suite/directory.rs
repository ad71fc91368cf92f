//! Who is there, and what they subscribed to.

use std::sync::Arc;

use postrider_notify::{Board, Channel, Preferences, Recipient, To};

use super::Bench;
use super::stage::{board, person, says, with};

async fn members(board: &Arc<dyn Board>, to: &To, after: Option<&str>, limit: usize) -> Vec<String> {
    let members = board.members(to, after, limit).await.expect("listed");
    members.into_iter().map(|member| member.recipient.id).collect()
}

pub(crate) async fn people_are_kept_and_replaced(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    board
        .subscribe("soup", &["ann".to_owned()])
        .await
        .expect("subscribed");
    let ann = board.recipient("ann").await.expect("asked").expect("known");
    assert_eq!(
        (ann.recipient, ann.preferences),
        (person("ann"), Preferences::default())
    );
    let moved = Recipient {
        locale: Some("de-AT".to_owned()),
        email: None,
        ..person("ann")
    };
    board.put(&moved).await.expect("put");
    let ann = board.recipient("ann").await.expect("asked").expect("known");
    assert_eq!(ann.recipient, moved);
    assert_eq!(board.topics("ann").await.expect("asked"), ["soup"], "they stay");
    assert!(board.remove("ann").await.expect("removed"));
    assert!(!board.remove("ann").await.expect("not there"));
    assert_eq!(board.recipient("ann").await.expect("asked"), None);
    assert_eq!(board.topics("ann").await.expect("asked"), [""; 0]);
}

pub(crate) async fn topics_have_members_in_the_order_of_bytes(bench: &dyn Bench) {
    let ids = ["B", "Z", "a", "b", "á", "ü"];
    let board = with(bench, &ids).await;
    let ids = ids.map(str::to_owned);
    assert_eq!(board.subscribe("soup", &ids).await.expect("subscribed"), 6);
    assert_eq!(
        board.subscribe("soup", &ids).await.expect("subscribed"),
        0,
        "they are"
    );
    board.subscribe("Soup", &ids[..1]).await.expect("subscribed");
    let soup = To::Topic("soup".to_owned());
    assert_eq!(members(&board, &soup, None, 10).await, ids);
    assert_eq!(members(&board, &soup, None, 2).await, ids[..2]);
    assert_eq!(members(&board, &soup, Some("Z"), 3).await, ids[2..5]);
    assert_eq!(members(&board, &soup, Some("ü"), 3).await, [""; 0]);
    assert_eq!(board.topics("B").await.expect("asked"), ["Soup", "soup"]);
    let gone = board.unsubscribe("soup", &ids[1..3]).await.expect("unsubscribed");
    assert_eq!((gone, members(&board, &soup, None, 10).await.len()), (2, 4));
    assert_eq!(
        board.unsubscribe("soup", &ids[1..3]).await.expect("unsubscribed"),
        0
    );
}

pub(crate) async fn nobody_is_a_member_who_is_not_known(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    let ids = ["ann", "ghost"].map(str::to_owned);
    board.subscribe("soup", &ids).await.expect("subscribed");
    assert_eq!(
        members(&board, &To::Topic("soup".to_owned()), None, 10).await,
        ["ann"]
    );
    assert_eq!(
        members(&board, &To::User("ghost".to_owned()), None, 10).await,
        [""; 0]
    );
    assert_eq!(
        members(&board, &To::User("ann".to_owned()), None, 10).await,
        ["ann"]
    );
    assert_eq!(
        members(&board, &To::User("ann".to_owned()), Some("ann"), 10).await,
        [""; 0]
    );
    assert!(
        !board
            .prefer("ghost", &says(None, None, false))
            .await
            .expect("asked")
    );
}

pub(crate) async fn preferences_are_replaced(bench: &dyn Bench) {
    let board = board(bench).await;
    board.put(&person("ann")).await.expect("put");
    for preference in [
        says(Some(Channel::Email), None, false),
        says(None, Some("menu"), false),
        says(Some(Channel::Email), None, true),
        says(Some(Channel::Push), Some("menu"), true),
    ] {
        assert!(board.prefer("ann", &preference).await.expect("kept"));
    }
    let ann = board.recipient("ann").await.expect("asked").expect("known");
    assert_eq!(ann.preferences.0.len(), 3, "{:?}", ann.preferences);
    assert!(ann.preferences.allow(Channel::Email, "social"));
    assert!(!ann.preferences.allow(Channel::InApp, "menu"));
    assert!(ann.preferences.allow(Channel::Push, "menu"));
    let to = To::User("ann".to_owned());
    let member = board.members(&to, None, 10).await.expect("listed").remove(0);
    assert_eq!(member, ann);
}

/// The events that deliver to them could not have such ids.
pub(crate) async fn ids_that_no_event_can_have_are_refused(bench: &dyn Bench) {
    let board = board(bench).await;
    for id in ["", "a\tb", "a\u{0}", &"x".repeat(256)] {
        let odd = Recipient {
            id: id.to_owned(),
            ..person("ann")
        };
        assert!(board.put(&odd).await.is_err(), "{id:?}");
    }
    let long = Recipient {
        id: "ü".repeat(255),
        ..person("ann")
    };
    board.put(&long).await.expect("as long as may be");
}
