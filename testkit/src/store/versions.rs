//! A parked row is changed only by one who has seen it as it is; what was published leaves in any case.

use std::time::Duration;

use postrider_core::{ErrorKind, Failure, Moment, Park, ParkedRow, Receipt, Settled, Status, Then, What};

use super::bench::{Bench, Relay};
use super::words::{dead, event, goes_on, names, pairs, parks_as, refused, to, waiting};
use crate::wait::eventually;

pub(super) async fn a_row_that_stays_is_changed_and_versioned(bench: Bench) {
    let (relay, due) = one_due(&bench).await;
    let park = Park {
        attempts: 3,
        failures: 7,
        maybe_sent: true,
        ..refused("d", Duration::ZERO)
    };
    assert_eq!(relay.settle_parked(&due, Then::Again(park)).await, Settled::Done);
    let again = relay.due().await.remove(0);
    assert_eq!((again.attempts, again.failures, again.maybe_sent), (3, 7, true));
    assert!(again.version > due.version, "every write raises the version");
    assert_eq!(again.row.seq, due.row.seq);
    assert_eq!(
        relay.settle_parked(&again, Then::Again(dead(Some("d")))).await,
        Settled::Done
    );
    assert!(relay.due().await.is_empty());
}

pub(super) async fn a_repeated_change_is_written_once(bench: Bench) {
    let (relay, due) = one_due(&bench).await;
    let again = || Then::Again(refused("d", Duration::ZERO));
    assert_eq!(relay.settle_parked(&due, again()).await, Settled::Done);
    let version = relay.due().await[0].version;
    assert_eq!(relay.settle_parked(&due, again()).await, Settled::Gone);
    assert_eq!(relay.due().await[0].version, version);
    assert_eq!(
        relay.due_names().await,
        pairs(&[("a", "d")]),
        "a row is changed, never inserted again"
    );
}

pub(super) async fn an_old_version_changes_nothing(bench: Bench) {
    let (relay, due) = one_due(&bench).await;
    for version in [due.version.wrapping_sub(1), due.version + 1] {
        let mut entry = goes_on(&due, Then::Again(dead(Some("d"))));
        entry.version = version;
        assert_eq!(relay.settle(Vec::new(), vec![entry]).await, [Settled::Gone]);
    }
    let still = relay.due().await.remove(0);
    assert_eq!(still.version, due.version);
    // A row of another destination is another row.
    let mut entry = goes_on(&due, Then::Again(waiting("e")));
    entry.destination = Some("e".into());
    assert_eq!(relay.settle(Vec::new(), vec![entry]).await, [Settled::Gone]);
    assert_eq!(relay.due_names().await, pairs(&[("a", "d")]));
}

pub(super) async fn a_confirmed_row_leaves_whatever_its_version(bench: Bench) {
    let (relay, due) = one_due(&bench).await;
    let again = Then::Again(refused("d", Duration::from_secs(3_600)));
    assert_eq!(relay.settle_parked(&due, again).await, Settled::Done);
    // The confirm of the attempt before arrives only now: the event is out, whatever was written since.
    let sent = || Then::Sent(Receipt::default());
    assert_eq!(relay.settle_parked(&due, sent()).await, Settled::Done);
    assert_eq!(relay.read(relay.everything()).await.next_due_in, None);
    assert_eq!(relay.settle_parked(&due, sent()).await, Settled::Gone);
}

pub(super) async fn a_duplicate_leaves_whatever_its_version(bench: Bench) {
    let (relay, mut due) = one_due(&bench).await;
    due.version += 5;
    assert_eq!(relay.settle_parked(&due, Then::Duplicate).await, Settled::Done);
    assert!(relay.due().await.is_empty());
    assert_eq!(relay.settle_parked(&due, Then::Duplicate).await, Settled::Gone);
}

pub(super) async fn a_row_is_split_over_destinations(bench: Bench) {
    let unrouted = Park {
        destination: None,
        ..refused("d", Duration::ZERO)
    };
    let (relay, _) = bench.parked(&[(event("a", "k"), unrouted)]).await;
    let due = relay.due().await.remove(0);
    let split = || Then::Split(vec![waiting("d"), waiting("e")]);
    assert_eq!(relay.settle_parked(&due, split()).await, Settled::Done);
    assert_eq!(relay.due_names().await, pairs(&[("a", "d"), ("a", "e")]));
    assert_eq!(relay.settle_parked(&due, split()).await, Settled::Gone);
    assert_eq!(relay.due_names().await.len(), 2, "nothing is doubled");
    let first = relay.due().await.remove(0);
    assert_eq!(first.row.key, due.row.key);
    let read = first.row.event.expect("the event goes with each of them");
    assert_eq!(read.payload, due.row.event.expect("an event").payload);
    // Routed to nowhere on purpose: it leaves.
    let rest = relay.due().await.remove(0);
    assert_eq!(
        relay.settle_parked(&rest, Then::Split(Vec::new())).await,
        Settled::Done
    );
    assert_eq!(relay.due_names().await.len(), 1);
}

/// Two of its destinations are gone, and both rows are routed anew: it goes to each of the new ones once.
pub(super) async fn two_rows_of_an_event_are_split_over_the_same_destinations_in_turn(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("a", "k")]).await;
    let parks = vec![refused("x", Duration::ZERO), refused("y", Duration::ZERO)];
    assert_eq!(relay.settle_one(parks_as(&rows[0], parks)).await, Settled::Done);
    let due = relay.due().await;
    assert_eq!(due.len(), 2);
    let split = || Then::Split(vec![waiting("d"), waiting("e")]);
    for row in &due {
        assert_eq!(relay.settle_parked(row, split()).await, Settled::Done);
    }
    assert_eq!(relay.due_names().await, pairs(&[("a", "d"), ("a", "e")]));
}

/// Each leads the next one, so that one redrive frees a key however long its line is.
pub(super) async fn a_row_that_is_routed_anew_leads_the_next_of_its_line(bench: Bench) {
    let events = [("a", "k"), ("b", "k"), ("c", "k"), ("other", "l")].map(|(id, key)| event(id, key));
    let parks = events.map(|event| (event, waiting("gone")));
    let (relay, _) = bench.parked(&parks).await;
    let redriven = async || {
        let due = relay.due().await;
        let redriven = due.iter().filter(|row| row.redriven);
        let redriven: Vec<_> = redriven.map(|row| row.row.event_id.to_string()).collect();
        redriven
    };
    assert_eq!(redriven().await, [] as [&str; 0]);
    for (id, next) in [("a", vec!["b"]), ("b", vec!["c"]), ("c", vec![])] {
        let due = relay.due().await;
        let row = due
            .iter()
            .find(|row| row.row.event_id.as_str() == id)
            .expect("it is due");
        let split = Then::Split(vec![waiting("new")]);
        assert_eq!(relay.settle_parked(row, split).await, Settled::Done);
        assert_eq!(redriven().await, next, "behind {id}");
    }
    let heads = pairs(&[("a", "new"), ("other", "gone")]);
    assert_eq!(
        relay.due_names().await,
        heads,
        "the others stand behind the first again"
    );
}

/// The next of the line has a row for another destination that is gone, which is routed anew by the same settle.
pub(super) async fn a_row_is_led_whatever_becomes_of_its_event_elsewhere(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("a", "k"), event("b", "k")]).await;
    for (row, names) in rows.iter().zip([vec!["x"], vec!["x", "y"]]) {
        let parks = names.into_iter().map(waiting).collect();
        assert_eq!(relay.settle_one(parks_as(row, parks)).await, Settled::Done);
    }
    let due = relay.due().await;
    assert_eq!(names(&due), pairs(&[("a", "x"), ("b", "y")]));
    let split = || Then::Split(vec![waiting("new")]);
    let both = due.iter().map(|row| goes_on(row, split())).collect();
    assert_eq!(relay.settle(Vec::new(), both).await, [Settled::Done; 2]);
    let due = relay.due().await;
    let next = due.iter().find(|row| row.destination == Some(to("x")));
    assert!(next.is_some_and(|row| row.redriven), "{due:?}");
}

/// For people to read: relays take it for what has not failed yet.
pub(super) async fn what_is_routed_anew_keeps_its_last_failure(bench: Bench) {
    let (relay, _) = bench
        .parked(&[(event("a", "k"), refused("gone", Duration::ZERO))])
        .await;
    let failures = async || {
        let record = bench.console().show("a".into()).await.expect("shown").remove(0);
        let failed = |moment: &&Moment| matches!(moment.what, What::FirstFailed | What::LastFailed);
        let told = record.timeline.iter().filter(failed);
        let mut told: Vec<_> = told
            .map(|moment| (moment.at, moment.destination.clone()))
            .collect();
        told.sort();
        told
    };
    let at = failures().await[0].0;
    let due = relay.due().await.remove(0);
    let split = Then::Split(vec![waiting("d"), waiting("e")]);
    assert_eq!(relay.settle_parked(&due, split).await, Settled::Done);
    let both = [(at, Some(to("d"))), (at, Some(to("e")))];
    for sent in ["d", "e"] {
        assert_eq!(failures().await, both, "before it was sent to {sent}");
        let due = relay.due().await.remove(0);
        assert_eq!((due.failed_ago, due.failing_for, due.failures), (None, None, 0));
        let record = bench.console().show("a".into()).await.expect("shown").remove(0);
        assert_eq!(record.status(), Status::Held, "it is not being refused");
        let then = Then::Sent(Receipt::default());
        assert_eq!(relay.settle_parked(&due, then).await, Settled::Done);
    }
    assert_eq!(failures().await, both, "when it has left");
    let record = bench.console().show("a".into()).await.expect("shown").remove(0);
    let told = record
        .timeline
        .iter()
        .find(|moment| moment.what == What::LastFailed);
    assert_eq!(told.expect("a failure").detail, "rejected: not wanted");
}

pub(super) async fn a_split_by_an_old_version_changes_nothing(bench: Bench) {
    let (relay, mut due) = one_due(&bench).await;
    due.version += 1;
    assert_eq!(
        relay.settle_parked(&due, Then::Split(vec![waiting("e")])).await,
        Settled::Gone
    );
    assert_eq!(relay.due_names().await, pairs(&[("a", "d")]));
}

pub(super) async fn failures_are_timed_by_the_database(bench: Bench) {
    let (relay, due) = one_due(&bench).await;
    assert_eq!((due.failed_ago, due.failing_for), (None, None), "it only waits");
    let failed = |failures| {
        Then::Again(Park {
            failures,
            failure: Some(Failure::new(ErrorKind::AddressNotFound, "no such exchange")),
            ..refused("d", Duration::ZERO)
        })
    };
    assert_eq!(relay.settle_parked(&due, failed(1)).await, Settled::Done);
    let wait = Duration::from_millis(150);
    let first = eventually("the failure grows older", async || {
        let row = relay.due().await.remove(0);
        (row.failing_for? >= wait).then_some(row)
    })
    .await;
    assert_eq!(relay.settle_parked(&first, failed(2)).await, Settled::Done);
    let second = relay.due().await.remove(0);
    let (ago, long) = (
        second.failed_ago.expect("it failed"),
        second.failing_for.expect("it failed"),
    );
    assert!(
        long >= wait,
        "it has been failing since the first failure: {long:?}"
    );
    assert!(
        ago + wait <= long,
        "the last failure is the newer one: {ago:?} of {long:?}"
    );
}

pub(super) async fn a_change_without_a_failure_keeps_the_error(bench: Bench) {
    let (relay, _) = bench
        .parked(&[(event("a", "k"), refused("d", Duration::ZERO))])
        .await;
    let due = relay.due().await.remove(0);
    let held = Park {
        failures: 1,
        ..waiting("d")
    };
    assert_eq!(relay.settle_parked(&due, Then::Again(held)).await, Settled::Done);
    let again = relay.due().await.remove(0);
    assert!(
        again.failed_ago.is_some() && again.failing_for.is_some(),
        "it has failed all the same"
    );
    assert!(again.failing_for >= due.failing_for);
}

/// A row that is parked for `d` and due.
async fn one_due(bench: &Bench) -> (Relay, ParkedRow) {
    let (relay, _) = bench.parked(&[(event("a", "k"), waiting("d"))]).await;
    let due = relay.due().await.remove(0);
    (relay, due)
}
