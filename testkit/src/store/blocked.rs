//! What a read says about the parked rows of a queued row's key.

use std::time::Duration;

use postrider_core::{Blocked, Event, Lane, OrderKey, Park, QueuedRow, Read, Receipt, Settled, Then};

use super::bench::{Bench, Relay};
use super::words::{dead, event, event_in, parks_as, refused, to, waiting};

pub(super) async fn nothing_parked_blocks_nothing(bench: Bench) {
    let (relay, _) = bench.queued(&[event("a", "k"), event("b", "k")]).await;
    assert_eq!(blocked(&relay, &[]).await, [Blocked::Nowhere, Blocked::Nowhere]);
}

pub(super) async fn a_parked_row_blocks_its_key_at_its_destination(bench: Bench) {
    // Whether it waits, is refused or comes due much later makes no difference to those behind it.
    for (n, park) in [
        waiting("d"),
        refused("d", Duration::from_secs(3_600)),
        dead(Some("d")),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("k{n}");
        let relay = after_parking(&bench, &[(event(&format!("first-{n}"), &key), vec![park])]).await;
        bench.commit(&[event(&format!("second-{n}"), &key)]).await;
        assert_eq!(last(&relay, &[]).await.blocked, Blocked::At(vec![to("d")]));
    }
}

pub(super) async fn other_keys_and_lanes_are_not_blocked(bench: Bench) {
    let relay = after_parking(&bench, &[(event("first", "k"), vec![waiting("d")])]).await;
    bench
        .commit(&[event("other", "l"), event_in("urgent", "k", Lane::High)])
        .await;
    assert_eq!(blocked(&relay, &[]).await, [Blocked::Nowhere, Blocked::Nowhere]);
}

pub(super) async fn several_destinations_are_all_named(bench: Bench) {
    let first = (event("first", "k"), vec![waiting("d"), waiting("e")]);
    let second = (event("second", "k"), vec![waiting("d")]);
    let relay = after_parking(&bench, &[first, second]).await;
    bench.commit(&[event("third", "k")]).await;
    let Blocked::At(mut names) = last(&relay, &[]).await.blocked else {
        panic!("the key is blocked at two destinations");
    };
    names.sort();
    assert_eq!(names, [to("d"), to("e")], "each destination once");
}

pub(super) async fn a_row_without_a_destination_blocks_everywhere(bench: Bench) {
    let first = (event("first", "k"), vec![waiting("d")]);
    let second = (event("second", "k"), vec![dead(None)]);
    let relay = after_parking(&bench, &[first, second]).await;
    bench.commit(&[event("third", "k"), event("other", "l")]).await;
    assert_eq!(
        blocked(&relay, &[]).await,
        [Blocked::Everywhere, Blocked::Nowhere]
    );
    // It has no destination that could say that its dead are skipped.
    assert_eq!(
        blocked(&relay, &["d"]).await,
        [Blocked::Everywhere, Blocked::Nowhere]
    );
}

pub(super) async fn a_dead_row_blocks_unless_it_is_skipped(bench: Bench) {
    let first = (event("first", "k"), vec![dead(Some("d")), dead(Some("e"))]);
    let other = (event("other", "l"), vec![dead(Some("d"))]);
    let relay = after_parking(&bench, &[first, other]).await;
    bench.commit(&[event("k2", "k"), event("l2", "l")]).await;
    assert_eq!(
        blocked(&relay, &["d"]).await,
        [Blocked::At(vec![to("e")]), Blocked::Nowhere]
    );
    // A row of that destination that is alive does hold its key.
    let rows = relay.queued().await;
    let entry = parks_as(&rows[1], vec![waiting("d")]);
    assert_eq!(relay.settle_one(entry).await, Settled::Done);
    bench.commit(&[event("l3", "l")]).await;
    assert_eq!(last(&relay, &["d"]).await.blocked, Blocked::At(vec![to("d")]));
}

pub(super) async fn a_row_parked_alone_blocks_nobody(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("scheduled", "k")]).await;
    let mut entry = parks_as(&rows[0], vec![waiting("d")]);
    entry.key = OrderKey::alone(rows[0].seq);
    assert_eq!(relay.settle_one(entry).await, Settled::Done);
    bench.commit(&[event("next", "k")]).await;
    assert_eq!(last(&relay, &[]).await.blocked, Blocked::Nowhere);
    let due = relay.due().await;
    assert_eq!(
        due[0].row.key,
        OrderKey::alone(rows[0].seq),
        "a row keeps the key it was parked under"
    );
}

pub(super) async fn a_settled_row_blocks_no_more(bench: Bench) {
    let relay = after_parking(&bench, &[(event("first", "k"), vec![waiting("d")])]).await;
    bench.commit(&[event("second", "k")]).await;
    let due = relay.due().await;
    let settled = relay.settle_parked(&due[0], Then::Sent(Receipt::default())).await;
    assert_eq!(settled, Settled::Done);
    assert_eq!(last(&relay, &[]).await.blocked, Blocked::Nowhere);
}

/// Commits events and parks each of them for its destinations.
async fn after_parking(bench: &Bench, events: &[(Event, Vec<Park>)]) -> Relay {
    // The second time, the same relay speaks with an empty memory: it gets its shards again under new tokens.
    let relay = bench.relay("relay").await;
    for (event, parks) in events {
        bench.commit(std::slice::from_ref(event)).await;
        let rows = relay.queued().await;
        let row = rows
            .iter()
            .find(|row| row.event_id == event.id)
            .expect("committed");
        assert_eq!(
            relay.settle_one(parks_as(row, parks.clone())).await,
            Settled::Done
        );
    }
    relay
}

async fn blocked(relay: &Relay, skip_dead: &[&str]) -> Vec<Blocked> {
    rows(relay, skip_dead)
        .await
        .into_iter()
        .map(|row| row.blocked)
        .collect()
}

async fn last(relay: &Relay, skip_dead: &[&str]) -> QueuedRow {
    rows(relay, skip_dead).await.pop().expect("something is queued")
}

async fn rows(relay: &Relay, skip_dead: &[&str]) -> Vec<QueuedRow> {
    let read = Read {
        skip_dead: skip_dead.iter().map(|name| to(name)).collect(),
        ..relay.everything()
    };
    let mut rows = relay.read(read).await.queued;
    rows.sort_by_key(|row| row.seq);
    rows
}
