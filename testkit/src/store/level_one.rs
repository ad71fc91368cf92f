//! The first check against duplicates: whether an id was published to a destination before, and with which content.

use postrider_core::{Act, Event, Filter, Leaves, QueuedRow, SentBefore, Settled, Then, Verb};

use super::bench::{Bench, Relay};
use super::words::{decided, event, event_with, parks_as, refused, sent, to, waiting};

pub(super) async fn the_same_content_is_known_by_destination(bench: Bench) {
    let relay = after_sending(&bench, &["d", "e"]).await;
    bench.commit(&[event("same", "k")]).await;
    let before = only(&relay).await.sent_before;
    assert_eq!(known(before), [("d".to_owned(), true), ("e".to_owned(), true)]);
}

pub(super) async fn other_content_is_told_apart(bench: Bench) {
    let relay = after_sending(&bench, &["d"]).await;
    bench.commit(&[event_with("same", "k", "{\"other\":true}")]).await;
    assert_eq!(known(only(&relay).await.sent_before), [("d".to_owned(), false)]);
}

pub(super) async fn headers_are_not_content_and_everything_else_is(bench: Bench) {
    let relay = after_sending(&bench, &["d"]).await;
    type Change = fn(&mut Event);
    let changes: [(&str, Change); 6] = [
        ("headers", |event| {
            drop(event.headers.insert("traceparent".into(), "new".into()))
        }),
        ("type", |event| event.event_type = "Other".into()),
        ("aggregate type", |event| event.aggregate_type = "OTHER".into()),
        ("aggregate id", |event| event.aggregate_id = "other".into()),
        ("key", |event| event.key = Some("other".into())),
        ("content type", |event| {
            event.content_type = Some("text/plain".into())
        }),
    ];
    for (what, change) in changes {
        let mut changed = event("same", "k");
        change(&mut changed);
        bench.commit(&[changed]).await;
        let row = only(&relay).await;
        let is_same = what == "headers";
        assert_eq!(
            known(row.sent_before.clone()),
            [("d".to_owned(), is_same)],
            "{what}"
        );
        assert_eq!(
            relay.settle_one(decided(&row, Leaves::Duplicate)).await,
            Settled::Done
        );
    }
}

pub(super) async fn another_destination_is_another_matter(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("same", "k")]).await;
    // Published to one destination, still owed to the other.
    let mut entry = sent(&rows[0], &["d"]);
    if let postrider_core::Leaves::Decided { parked, .. } = &mut entry.leaves {
        parked.push(waiting("e"));
    }
    assert_eq!(relay.settle_one(entry).await, Settled::Done);
    bench.commit(&[event("same", "k"), event("different", "k")]).await;
    let rows = relay.queued().await;
    assert_eq!(known(rows[0].sent_before.clone()), [("d".to_owned(), true)]);
    assert_eq!(known(rows[1].sent_before.clone()), []);
}

pub(super) async fn parked_and_discarded_rows_were_not_sent(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("same", "k")]).await;
    let park = refused("d", std::time::Duration::ZERO);
    assert_eq!(
        relay.settle_one(parks_as(&rows[0], vec![park])).await,
        Settled::Done
    );
    let discard = Act {
        verb: Verb::Discard("a test".into()),
        filter: Filter::default(),
        dry_run: false,
        actor: "suite".into(),
        limit: 10,
        from: None,
    };
    bench.commit(&[event("same", "k")]).await;
    assert_eq!(known(only(&relay).await.sent_before), []);
    let chunk = bench.console().act(discard).await.expect("discarded");
    assert_eq!(chunk.touched, 1);
    assert_eq!(
        known(only(&relay).await.sent_before),
        [],
        "thrown away is not published"
    );
}

pub(super) async fn a_parked_row_knows_it_too(bench: Bench) {
    let relay = after_sending(&bench, &["d"]).await;
    bench.commit(&[event("same", "k")]).await;
    let row = only(&relay).await;
    let entry = parks_as(&row, vec![waiting("d"), waiting("e")]);
    assert_eq!(relay.settle_one(entry).await, Settled::Done);
    for due in relay.due().await {
        assert_eq!(known(due.row.sent_before), [("d".to_owned(), true)]);
    }
}

/// An event that was sent to one of its destinations is routed anew when the other is gone: where it has been, it must
/// not go again.
pub(super) async fn what_is_routed_anew_knows_where_it_has_been(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("same", "k")]).await;
    let mut entry = sent(&rows[0], &["d"]);
    if let Leaves::Decided { parked, .. } = &mut entry.leaves {
        parked.push(waiting("gone"));
    }
    assert_eq!(relay.settle_one(entry).await, Settled::Done);
    let due = relay.due().await.remove(0);
    let split = Then::Split(vec![waiting("d"), waiting("e")]);
    assert_eq!(relay.settle_parked(&due, split).await, Settled::Done);
    let due = relay.due().await;
    assert_eq!(due.len(), 2);
    for due in due {
        assert_eq!(known(due.row.sent_before), [("d".to_owned(), true)]);
    }
}

pub(super) async fn a_replay_is_not_checked(bench: Bench) {
    let relay = after_sending(&bench, &["d"]).await;
    let mut tx = bench.begin().await;
    tx.insert_replay(&event("same", "k"), "replay-1")
        .await
        .expect("inserted");
    tx.commit().await;
    let row = only(&relay).await;
    assert_eq!(row.sent_before, [], "a replayed row is meant to go again");
    // Settled as sent once more, it stands in nobody's way.
    assert_eq!(
        relay.settle_one(decided(&row, sent(&row, &["d"]).leaves)).await,
        Settled::Done
    );
}

/// An event with the id `same`, published to these destinations.
async fn after_sending(bench: &Bench, destinations: &[&str]) -> Relay {
    let (relay, rows) = bench.queued(&[event("same", "k")]).await;
    assert_eq!(
        relay.settle_one(sent(&rows[0], destinations)).await,
        Settled::Done
    );
    relay
}

async fn only(relay: &Relay) -> QueuedRow {
    let mut rows = relay.queued().await;
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

/// By destination; a store may say several things about one, of which the same content is the one that counts.
fn known(before: Vec<SentBefore>) -> Vec<(String, bool)> {
    let mut names: Vec<String> = before.iter().map(|known| known.destination.to_string()).collect();
    names.sort();
    names.dedup();
    let same = |name: &str| {
        before
            .iter()
            .any(|known| known.destination == to(name) && known.same_content)
    };
    names
        .into_iter()
        .map(|name| (name.clone(), same(&name)))
        .collect()
}
