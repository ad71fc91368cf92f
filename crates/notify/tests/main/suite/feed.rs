//! What a person sees, and does with it.

use std::sync::Arc;

use postrider_notify::{Board, Channel, Entry, Mark, Which};
use serde_json::json;

use super::Bench;
use super::stage::{accept, event, followed, says, with};

/// So many notifications for ann, and one for bea; the ids of ann's.
async fn some(board: &Arc<dyn Board>, count: usize) -> Vec<i64> {
    let mut ids = Vec::new();
    for n in 0..count {
        let one = accept(board, followed(&format!("e{n}"), "ann", &n.to_string()))
            .await
            .one;
        ids.push(one.expect("stored").entry.id);
    }
    accept(board, followed("b", "bea", "bob")).await;
    assert!(ids.is_sorted());
    ids
}

async fn ids(
    board: &Arc<dyn Board>,
    user: &str,
    before: Option<i64>,
    limit: usize,
    archived: bool,
) -> Vec<i64> {
    let entries = board.list(user, before, limit, archived).await.expect("listed");
    entries.into_iter().map(|entry| entry.id).collect()
}

async fn mark(board: &Arc<dyn Board>, user: &str, which: Which, mark: Mark) -> u64 {
    board.mark(user, which, mark).await.expect("marked")
}

pub(crate) async fn nobody_sees_anothers(bench: &dyn Bench) {
    let board = with(bench, &["ann", "bea", "Ann"]).await;
    let own = some(&board, 3).await;
    assert_eq!(ids(&board, "bea", None, 10, true).await.len(), 1);
    assert_eq!(ids(&board, "Ann", None, 10, true).await, [0; 0]);
    assert_eq!(board.unread("bea").await.expect("counted"), 1);
    for which in [Which::One(own[0]), Which::UpTo(own[2])] {
        assert_eq!(mark(&board, "bea", which, Mark::Archived).await, 0, "not hers");
    }
    assert_eq!(board.unread("ann").await.expect("counted"), 3);
    assert_eq!(board.recent("bea", 60_000).await.expect("listed").len(), 1);
}

pub(crate) async fn pages_go_back_in_time(bench: &dyn Bench) {
    let board = with(bench, &["ann", "bea"]).await;
    let mut own = some(&board, 5).await;
    own.reverse();
    assert_eq!(ids(&board, "ann", None, 2, false).await, own[..2]);
    assert_eq!(ids(&board, "ann", Some(own[1]), 2, false).await, own[2..4]);
    assert_eq!(ids(&board, "ann", Some(own[4]), 2, false).await, [0; 0]);
    assert_eq!(ids(&board, "ann", None, 100, false).await, own);
}

pub(crate) async fn marks_imply_those_before(bench: &dyn Bench) {
    let board = with(bench, &["ann", "bea"]).await;
    let own = some(&board, 3).await;
    let marks = async |id: i64| {
        let entry = board.notification(id).await.expect("asked").expect("there").entry;
        (
            entry.seen_at.is_some(),
            entry.read_at.is_some(),
            entry.archived_at.is_some(),
        )
    };
    assert_eq!(mark(&board, "ann", Which::One(own[0]), Mark::Seen).await, 1);
    assert_eq!(marks(own[0]).await, (true, false, false));
    assert_eq!(mark(&board, "ann", Which::UpTo(own[1]), Mark::Read).await, 2);
    assert_eq!(
        (marks(own[0]).await, marks(own[1]).await),
        ((true, true, false), (true, true, false))
    );
    assert_eq!(marks(own[2]).await, (false, false, false));
    assert_eq!(board.unread("ann").await.expect("counted"), 1);
    let read: Entry = board
        .notification(own[0])
        .await
        .expect("asked")
        .expect("there")
        .entry;
    assert_eq!(
        mark(&board, "ann", Which::UpTo(own[1]), Mark::Read).await,
        0,
        "they are"
    );
    assert_eq!(
        mark(&board, "ann", Which::One(own[0]), Mark::Seen).await,
        0,
        "what is read was seen"
    );
    assert_eq!(
        board
            .notification(own[0])
            .await
            .expect("asked")
            .expect("there")
            .entry,
        read
    );
    assert_eq!(mark(&board, "ann", Which::One(own[2]), Mark::Archived).await, 1);
    assert_eq!(marks(own[2]).await, (true, true, true));
    assert_eq!(mark(&board, "ann", Which::One(-1), Mark::Read).await, 0);
}

pub(crate) async fn what_is_archived_is_out_of_the_way(bench: &dyn Bench) {
    let board = with(bench, &["ann", "bea"]).await;
    let own = some(&board, 3).await;
    assert_eq!(mark(&board, "ann", Which::One(own[1]), Mark::Archived).await, 1);
    assert_eq!(ids(&board, "ann", None, 10, false).await, [own[2], own[0]]);
    assert_eq!(ids(&board, "ann", None, 10, true).await, [own[2], own[1], own[0]]);
    assert_eq!(board.unread("ann").await.expect("counted"), 2);
}

pub(crate) async fn what_is_recent_comes_oldest_first(bench: &dyn Bench) {
    let board = with(bench, &["ann", "bea"]).await;
    let own = some(&board, 3).await;
    let recent = async || -> Vec<i64> {
        let entries = board.recent("ann", 600_000).await.expect("listed");
        entries.into_iter().map(|entry| entry.id).collect()
    };
    assert_eq!(recent().await, own);
    assert_eq!(mark(&board, "ann", Which::One(own[1]), Mark::Archived).await, 1);
    assert_eq!(recent().await, [own[0], own[2]]);
    let hour = std::time::Duration::from_secs(3_600);
    bench.age("notification", "created_at", hour).await;
    assert_eq!(recent().await, [0; 0]);
}

/// Who wants it by mail only has a notification, and nothing in the feed.
pub(crate) async fn only_what_goes_in_app_is_in_the_feed(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    let mail = event("e1", "InvoiceSent", "ann", json!({}));
    let mail = accept(&board, mail).await.one.expect("stored").entry;
    board
        .prefer("ann", &says(Some(Channel::InApp), None, false))
        .await
        .expect("kept");
    assert_eq!(accept(&board, followed("e2", "ann", "bob")).await.stored, 1);
    assert_eq!(ids(&board, "ann", None, 10, true).await, [0; 0]);
    assert_eq!(board.unread("ann").await.expect("counted"), 0);
    assert_eq!(board.recent("ann", 60_000).await.expect("listed").len(), 0);
    assert_eq!(mark(&board, "ann", Which::UpTo(i64::MAX), Mark::Read).await, 0);
    assert_eq!(
        board
            .notification(mail.id)
            .await
            .expect("asked")
            .expect("there")
            .entry,
        mail
    );
}

/// `findByEventId` and `findDuplicate` of document 003.
pub(crate) async fn notifications_are_found_by_event_and_by_resource(bench: &dyn Bench) {
    let board = with(bench, &["ann", "bea"]).await;
    let first = accept(&board, followed("e1", "ann", "bob"))
        .await
        .one
        .expect("stored");
    accept(&board, followed("e1", "bea", "bob")).await;
    let of_event = board.of_event("e1", 10).await.expect("listed");
    assert_eq!((of_event.len(), &of_event[0]), (2, &first));
    assert_eq!(board.of_event("e1", 1).await.expect("listed").len(), 1);
    assert_eq!(board.of_event("e9", 10).await.expect("listed").len(), 0);
    assert_eq!(first.resource_id.as_deref(), Some("UserFollowed:bob"));
    assert_eq!((&*first.user_id, &*first.audience), ("ann", "CUSTOMER"));
    for (field, value) in [
        ("originalEvent", "UserFollowed"),
        ("eventId", "e1"),
        ("resourceId", "bob"),
    ] {
        assert_eq!(first.metadata[field], value);
    }
    let find = async |user: &str, category: &str, resource: &str| {
        let found = board.of_resource(user, category, resource).await.expect("asked");
        found.map(|one| one.entry.id)
    };
    assert_eq!(
        find("ann", "social", "UserFollowed:bob").await,
        Some(first.entry.id)
    );
    assert_eq!(find("ann", "menu", "UserFollowed:bob").await, None);
    assert_eq!(find("cy", "social", "UserFollowed:bob").await, None);
    assert_eq!(board.notification(-1).await.expect("asked"), None);
}
