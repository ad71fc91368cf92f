//! A notification is there once, however often and by whomever its event is delivered.

use std::sync::Arc;

use postrider_core::{Address, Applied, Envelope, Event, Incoming, Received, encode};
use postrider_notify::{Channel, Workflows};

use super::Bench;
use super::stage::{accept, followed, rows, with, workflows};

/// `duplicate event id` of document 003: the same id is answered, and one row is there.
pub(crate) async fn the_same_event_twice_is_one_notification(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    let first = accept(&board, followed("e1", "ann", "bob")).await;
    assert_eq!((first.stored, first.duplicates, first.goes_on), (1, 0, false));
    let first = first.one.expect("it is answered");
    assert_eq!(
        (&*first.entry.title, &*first.entry.body),
        ("Bob follows you", "Name of ann: UserFollowed")
    );
    for _ in 0..2 {
        let again = accept(&board, followed("e1", "ann", "bob")).await;
        assert_eq!((again.stored, again.duplicates), (0, 1));
        assert_eq!(again.one.expect("it is answered"), first, "with its deliveries");
    }
    assert_eq!(rows(bench).await, [1, 2, 0, 0, 1]);
}

/// `same resource under another event id` of document 003.
pub(crate) async fn the_same_resource_under_another_id_is_one_notification(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    let first = accept(&board, followed("e1", "ann", "bob"))
        .await
        .one
        .expect("stored");
    let again = accept(&board, followed("e2", "ann", "bob")).await;
    assert_eq!((again.stored, again.duplicates), (0, 1));
    assert_eq!(
        again.one.expect("the one that was there").entry.id,
        first.entry.id
    );
    assert_eq!(rows(bench).await, [1, 2, 0, 0, 1]);
}

/// `race of two listeners` of document 003.
pub(crate) async fn of_two_at_once_one_is_stored_and_both_succeed(bench: &dyn Bench) {
    with(bench, &["ann"]).await;
    let boards = [bench.open(workflows()).await, bench.open(workflows()).await];
    for round in 0..20 {
        let occasion = |id: &str| followed(&format!("e{round}{id}"), "ann", &format!("follower {round}"));
        // Every other time they have two ids, and it is the resource that they meet at.
        let ids = if round % 2 == 0 { ["", ""] } else { ["a", "b"] };
        let tasks = [0, 1].map(|at| {
            let (board, occasion) = (Arc::clone(&boards[at]), occasion(ids[at]));
            tokio::spawn(async move { board.accept(occasion).await })
        });
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(task.await.expect("no panic").expect("both succeed"));
        }
        let sum = answers.iter().map(|one| (one.stored, one.duplicates));
        assert_eq!(
            sum.fold((0, 0), |(a, b), (c, d)| (a + c, b + d)),
            (1, 1),
            "round {round}"
        );
        let ids: Vec<i64> = answers
            .iter()
            .flat_map(|one| &one.one)
            .map(|one| one.entry.id)
            .collect();
        assert!(
            ids.len() == 2 && ids[0] == ids[1],
            "both are answered with the one: {ids:?}"
        );
    }
    assert_eq!(rows(bench).await, [20, 40, 0, 0, 20]);
}

pub(crate) async fn the_second_channel_is_no_duplicate(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    let one = accept(&board, followed("e1", "ann", "bob"))
        .await
        .one
        .expect("stored");
    let channels: Vec<Channel> = one.deliveries.iter().map(|delivery| delivery.channel).collect();
    assert_eq!(channels, [Channel::InApp, Channel::Email]);
    let events = bench.texts("SELECT event_id FROM outbox").await;
    assert_eq!(events, [format!("notification-{}-email", one.entry.id)]);
}

pub(crate) async fn an_event_of_another_user_is_no_duplicate(bench: &dyn Bench) {
    let board = with(bench, &["ann", "Ann", "ann "]).await;
    for user in ["ann", "Ann", "ann "] {
        let stored = accept(&board, followed("e1", user, "bob")).await;
        assert_eq!((stored.stored, stored.duplicates), (1, 0), "{user:?}");
    }
    let nobody = accept(&board, followed("e1", "nobody", "bob")).await;
    assert_eq!((nobody.stored, nobody.one), (0, None));
}

/// An event of the customer ann, as a listener receives it.
pub(crate) fn received(event_type: &str, id: &str, payload: &str) -> Received {
    let event = Event::builder(event_type)
        .id(id)
        .aggregate("CUSTOMER", "ann")
        .json(payload);
    let event = event.build().expect("an event");
    let message = encode(
        Envelope::Flat,
        &event,
        &event.order_key(),
        Address::default(),
        String::new(),
    );
    let incoming = Incoming {
        message: message.expect("a message"),
        tag: 1,
        redelivered: 0,
    };
    Received::open(Envelope::Flat, &incoming).expect("opened")
}

/// `duplicate delivery` of document 004: the inbox and the notification are of one transaction.
pub(crate) async fn a_listener_stores_with_its_inbox(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    let event = |id: &str, payload: &str| received("UserFollowed", id, payload);
    let good = event(
        "e1",
        r#"{"recipientType": "USER", "followerId": "bob", "who": "Bob"}"#,
    );
    let applied = bench.deliver(workflows(), vec![good.clone()]).await;
    assert_eq!(applied.expect("applied"), [Applied::Now]);
    let applied = bench.deliver(workflows(), vec![good.clone()]).await;
    assert_eq!(applied.expect("applied"), [Applied::Before]);
    assert_eq!(board.unread("ann").await.expect("counted"), 1);
    // Words are missing: it never works, and nothing of its batch is there.
    let bad = event("e2", r#"{"recipientType": "USER", "followerId": "cy"}"#);
    let other = event(
        "e3",
        r#"{"recipientType": "USER", "followerId": "dan", "who": "Dan"}"#,
    );
    let failed = bench.deliver(workflows(), vec![other, bad]).await;
    let Err(postrider_core::ApplyError::Handler { at: 1, error }) = failed else {
        panic!("it is the second that is refused: {failed:?}");
    };
    assert!(
        !error.may_pass() && error.to_string().contains("payload.who"),
        "{error}"
    );
    assert_eq!(rows(bench).await, [1, 2, 0, 0, 1]);
}

/// A shop has more types of events than workflows. Whatever is in them, nobody is told and nothing is refused.
pub(crate) async fn what_is_ignored_is_passed_over(bench: &dyn Bench) {
    with(bench, &["ann"]).await;
    let odd = received("OrderArchived", "e1", r#"{"recipientId": []}"#);
    let refused = bench.deliver(workflows(), vec![odd.clone()]).await;
    assert!(refused.is_err(), "{refused:?}");
    let all = workflows();
    let ignoring = Workflows::new(all.audiences().to_vec(), all.all().to_vec()).expect("they are right");
    let ignoring = ignoring.ignoring(vec!["OrderArchived".to_owned()]);
    let applied = bench.deliver(Arc::new(ignoring), vec![odd]).await;
    assert_eq!(applied.expect("applied"), [Applied::Now]);
    assert_eq!(rows(bench).await, [0; 5]);
}
