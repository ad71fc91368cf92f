//! Events that wait for their time, and what people do with them.

use std::time::Duration;

use postrider_core::{
    Act, Chunk, Event, EventId, EventRecord, Filter, Leaves, OrderKey, Park, SettleQueued, Settled, Status,
    Then, Timestamp, Verb,
};

use super::bench::{Bench, Relay};
use super::job::ANN;
use super::words::{dead, decided, event, pairs, refusal, sent, waiting};
use crate::by_hand;

const HOUR: Duration = Duration::from_secs(3_600);

pub(super) async fn a_scheduled_row_is_moved_and_cancelled(bench: Bench) {
    let relay = scheduled(&bench, &[event("moved", "k"), event("cancelled", "k")], HOUR).await;
    assert!(relay.due().await.is_empty());
    let before = shown(&bench, "moved").await;
    assert_eq!(before.status(), Status::Scheduled);
    assert_eq!(act(&bench, Verb::Move(3 * HOUR), "moved").await.touched, 1);
    let after = shown(&bench, "moved").await;
    assert_eq!(after.status(), Status::Scheduled);
    let (before, after) = (before.routes[0].next_attempt_at, after.routes[0].next_attempt_at);
    assert!(after > before, "{after:?} is not later than {before:?}");
    let next = relay.read(relay.everything()).await.next_due_in;
    assert!(next.is_some_and(|next| next <= HOUR), "the other one: {next:?}");
    assert_eq!(
        act(&bench, Verb::Discard("not wanted".into()), "cancelled")
            .await
            .touched,
        1
    );
    assert_eq!(shown(&bench, "cancelled").await.status(), Status::Discarded);
    assert_eq!(act(&bench, Verb::Move(Duration::ZERO), "moved").await.touched, 1);
    assert_eq!(
        relay.due_names().await,
        pairs(&[("moved", "d")]),
        "now is a time too"
    );
}

/// What is due may be under way already: it is too late for another time.
pub(super) async fn a_row_whose_time_has_come_is_not_moved(bench: Bench) {
    let relay = scheduled(&bench, &[event("a", "k")], Duration::ZERO).await;
    let seen = relay.due().await.remove(0);
    let chunk = act(&bench, Verb::Move(HOUR), "a").await;
    assert_eq!(
        (chunk.touched, chunk.refused),
        (0, vec![("a".into(), Status::Held)])
    );
    let sent = relay.settle_parked(&seen, Then::Sent(Default::default())).await;
    assert_eq!(sent, Settled::Done);
}

pub(super) async fn what_is_not_scheduled_is_refused_with_its_state(bench: Bench) {
    let parks = [
        (event("dead", "k"), dead(Some("d"))),
        (event("waiting", "k"), waiting("d")),
    ];
    let (relay, _) = bench.parked(&parks).await;
    bench
        .commit(&[
            event("retrying", "l"),
            event("published", "m"),
            event("queued", "n"),
        ])
        .await;
    let rows = relay.queued().await;
    let failed = Park {
        next_attempt_in: HOUR,
        failures: 1,
        failure: Some(refusal()),
        ..waiting("d")
    };
    let entries = vec![alone(&rows[0], failed), sent(&rows[1], &["d"])];
    assert_eq!(relay.settle(entries, Vec::new()).await, [Settled::Done; 2]);
    let states = [
        ("dead", Status::DeadLetter),
        ("waiting", Status::Waiting),
        ("retrying", Status::Retrying),
        ("published", Status::Published),
        ("queued", Status::Pending),
    ];
    for (id, status) in states {
        let before = shown(&bench, id).await;
        let chunk = act(&bench, Verb::Move(HOUR), id).await;
        assert_eq!(
            (chunk.touched, chunk.refused),
            (0, vec![(EventId::from(id), status)]),
            "{id}"
        );
        assert_eq!(shown(&bench, id).await.routes, before.routes, "nothing changed");
    }
}

/// A person saw it scheduled, and it came due before the verb.
pub(super) async fn a_row_that_came_due_meanwhile_is_refused_with_its_state(bench: Bench) {
    scheduled(&bench, &[event("due", "k")], Duration::ZERO).await;
    for verb in [Verb::Discard("not wanted".into()), Verb::Move(HOUR)] {
        let chunk = act_on(&bench, verb, "due", vec![Status::Scheduled]).await;
        assert_eq!(chunk.touched, 0);
        assert_eq!(chunk.refused, [("due".into(), Status::Held)]);
    }
    assert_eq!(shown(&bench, "due").await.status(), Status::Held);
}

/// What is true of one of them must not hide what is true of the others.
pub(super) async fn each_event_that_is_named_is_heard_of(bench: Bench) {
    scheduled(&bench, &[event("due", "k")], Duration::ZERO).await;
    let relay = scheduled(&bench, &[event("far", "k"), event("further", "k")], HOUR).await;
    bench
        .commit(&[event("published", "m"), event("queued", "n")])
        .await;
    let rows = relay.queued().await;
    assert_eq!(relay.settle_one(sent(&rows[0], &["d"])).await, Settled::Done);
    let named = ["due", "far", "further", "published", "queued", "unknown"];
    let mut first = by_hand::act(Verb::Move(2 * HOUR), "far");
    first.filter.event_id = named.map(EventId::from).into();
    first.filter.status = vec![Status::Scheduled];
    first.limit = 1;
    let (mut touched, mut refused) = (0, Vec::new());
    let mut next = Some(first);
    while let Some(act) = next.take() {
        let chunk = bench.console().act(act.clone()).await.expect("a step");
        touched += chunk.touched;
        refused.extend(chunk.refused);
        next = chunk.next.map(|from| Act {
            from: Some(from),
            ..act
        });
    }
    let states = [
        ("due".into(), Status::Held),
        ("published".into(), Status::Published),
        ("queued".into(), Status::Pending),
    ];
    assert_eq!((touched, refused), (2, states.to_vec()));
}

/// Thousands that wait for tomorrow stand in nobody's way.
pub(super) async fn a_due_row_is_found_among_many_scheduled(bench: Bench) {
    let many: Vec<_> = (0..2_500)
        .map(|n| event(&format!("e{n}"), &format!("k{n}")))
        .collect();
    scheduled(&bench, &many, 24 * HOUR).await;
    let relay = scheduled(&bench, &[event("now", "now")], Duration::ZERO).await;
    assert_eq!(
        relay.due_names().await,
        pairs(&[("now", "d")]),
        "at the first look"
    );
    let next = relay.read(relay.everything()).await.next_due_in;
    assert!(next.is_some_and(|next| next <= 24 * HOUR), "{next:?}");
}

/// Counted from when it is written it would be late by as long as that took.
pub(super) async fn a_scheduled_row_is_due_at_its_own_time(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("far", "k"), event("past", "k")]).await;
    let far = Timestamp(4_000_000_000_123_456);
    let at = |time: Timestamp| Park {
        next_attempt_in: HOUR,
        available_at: Some(time),
        ..waiting("d")
    };
    let entries = vec![alone(&rows[0], at(far)), alone(&rows[1], at(Timestamp(1)))];
    assert_eq!(relay.settle(entries, Vec::new()).await, vec![Settled::Done; 2]);
    assert_eq!(relay.due_names().await, pairs(&[("past", "d")]));
    let shown = shown(&bench, "far").await;
    assert_eq!(shown.routes[0].next_attempt_at, Some(far));
}

/// Commits events and parks each as one that waits for its time.
async fn scheduled(bench: &Bench, events: &[Event], until: Duration) -> Relay {
    let (relay, rows) = bench.queued(events).await;
    let park = Park {
        next_attempt_in: until,
        ..waiting("d")
    };
    let entries = rows.iter().map(|row| alone(row, park.clone())).collect();
    assert_eq!(
        relay.settle(entries, Vec::new()).await,
        vec![Settled::Done; rows.len()]
    );
    relay
}

fn alone(row: &postrider_core::QueuedRow, park: Park) -> SettleQueued {
    let leaves = Leaves::Decided {
        sent: Vec::new(),
        parked: vec![park],
    };
    SettleQueued {
        key: OrderKey::alone(row.seq),
        ..decided(row, leaves)
    }
}

async fn act(bench: &Bench, verb: Verb, id: &str) -> Chunk {
    act_on(bench, verb, id, Vec::new()).await
}

async fn act_on(bench: &Bench, verb: Verb, id: &str, status: Vec<Status>) -> Chunk {
    let act = Act {
        verb,
        filter: Filter {
            event_id: vec![id.into()],
            status,
            ..Filter::default()
        },
        dry_run: false,
        actor: ANN.to_owned(),
        limit: 10,
        from: None,
    };
    bench.console().act(act).await.expect("an act")
}

async fn shown(bench: &Bench, id: &str) -> EventRecord {
    let shown = bench.console().show(id.into()).await;
    shown.expect("shown").pop().expect("there is such an event")
}
