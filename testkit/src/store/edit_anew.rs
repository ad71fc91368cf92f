//! Payloads that people change of rows that are routed anew then.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Edit, ParkedRow, Payload, SentBefore, Settle, Settled, Then};

use super::bench::{Bench, Relay};
use super::edit::{change, history, shown};
use super::faults::abandon;
use super::job::ANN;
use super::words::{event, goes_on, names, pairs, parks_as, refused, to, waiting};

/// Two of its destinations are gone, and it was edited for one of them: what a person wrote is what goes to the new
/// one, whichever is routed first.
pub(super) async fn it_goes_along(bench: Bench) {
    let events = [event("a", "k"), event("b", "l")];
    let (relay, rows) = bench.queued(&events).await;
    let json = "{\"n\":1}";
    for (row, id) in rows.iter().zip(["a", "b"]) {
        let parks = vec![refused("x", Duration::ZERO), refused("y", Duration::ZERO)];
        assert_eq!(relay.settle_one(parks_as(row, parks)).await, Settled::Done);
        let one = Edit {
            destination: Some(to("y")),
            ..change(id, json)
        };
        assert_eq!(bench.console().edit(one).await.expect("edited").touched, 1);
    }
    let mut due = relay.due().await;
    assert_eq!(due.len(), 4);
    due.sort_by_key(|row| (row.row.event_id.clone(), row.destination.clone()));
    // Of the one the edited row is the last to be routed, of the other the first.
    due.swap(2, 3);
    for row in &due {
        let split = Then::Split(vec![waiting("d")]);
        assert_eq!(relay.settle_parked(row, split).await, Settled::Done);
    }
    let due = relay.due().await;
    assert_eq!(names(&due), pairs(&[("a", "d"), ("b", "d")]));
    for row in due {
        let event = row.row.event.expect("an event");
        assert_eq!(event.payload, Payload::Text(json.to_owned()), "{}", event.id);
    }
}

/// A relay sends the row that stays while another one is routed to it. What it sent is on record, and what a person
/// wrote is sent as well.
pub(super) async fn it_goes_along_beside_an_attempt(bench: Bench) {
    let (relay, first) = parked_for_two(&bench).await;
    let seen = due_for(&relay, "a", "d").await;
    let edited = edit_for(&bench, "a", "x", 1).await;
    route_anew(&relay, "x").await;
    for settled in [Settled::Done, Settled::Gone] {
        let again = relay.settle_parked(&seen, Then::Sent(Default::default())).await;
        assert_eq!(again, settled, "a repeat changes nothing");
        assert_eq!(
            history(&bench).await,
            std::slice::from_ref(&first),
            "as it was read"
        );
    }
    let due = relay.due().await.remove(0);
    assert!(due.maybe_sent);
    let settled = relay.settle_parked(&due, Then::Sent(Default::default())).await;
    assert_eq!(settled, Settled::Done);
    assert_eq!(history(&bench).await, [first.clone(), edited]);
    assert_eq!(bench.console().stats().await.expect("stats").published, 2);
    let original = shown(&bench, "a").await.original.expect("an original");
    assert_eq!((original.payload, original.actor.as_str()), (first, ANN));
}

/// What a person wrote for the row that stays is not overwritten by what somebody wrote for another one.
pub(super) async fn it_does_not_replace_an_edit(bench: Bench) {
    let (relay, _) = parked_for_two(&bench).await;
    edit_for(&bench, "a", "x", 1).await;
    let meant = edit_for(&bench, "a", "d", 2).await;
    route_anew(&relay, "x").await;
    let due = relay.due().await;
    assert_eq!(names(&due), pairs(&[("a", "d")]));
    let event = due.into_iter().next().and_then(|row| row.row.event.ok());
    assert_eq!(event.expect("an event").payload, meant);
}

/// Whoever is first, what a person writes for the row that stays holds: also between what a settle has read of that row
/// and its write.
pub(super) async fn it_does_not_replace_an_edit_made_meanwhile(bench: Bench) {
    let names: Vec<_> = (0..30).map(|n| format!("e{n:02}")).collect();
    let relay = bench.relay("one").await;
    for name in &names {
        park_for_two(&bench, &relay, name).await;
        edit_for(&bench, name, "x", 1).await;
        let row = due_for(&relay, name, "x").await;
        let split = relay.settle_parked(&row, Then::Split(vec![waiting("d")]));
        let (settled, meant) = tokio::join!(split, edit_for(&bench, name, "d", 2));
        assert_eq!(settled, Settled::Done, "{name}");
        let event = due_for(&relay, name, "d").await.row.event.expect("an event");
        assert_eq!(event.payload, meant, "{name}");
    }
}

/// Fault A18. The row is routed anew once, and what goes along is written once, whether the answer was lost behind the
/// commit or the call was dropped before.
pub(super) async fn it_goes_along_once(bench: Bench) {
    let relay = bench.relay("one").await;
    let mut versions = Vec::new();
    for polls in 0..12 {
        let name = format!("e{polls:02}");
        let first = park_for_two(&bench, &relay, &name).await;
        let edited = edit_for(&bench, &name, "x", 1).await;
        let row = due_for(&relay, &name, "x").await;
        let settle = Arc::new(Settle {
            fence: relay.fence(),
            queued: Vec::new(),
            parked: vec![goes_on(&row, Then::Split(vec![waiting("d")]))],
        });
        abandon(relay.store.settle(settle.clone()), polls).await;
        let answer = relay.store.settle(settle.clone()).await.expect("repeated");
        assert!(
            matches!(answer[..], [Settled::Done | Settled::Gone]),
            "{answer:?}"
        );
        let answer = relay.store.settle(settle).await.expect("repeated");
        assert_eq!(answer, [Settled::Gone]);
        let row = due_for(&relay, &name, "d").await;
        assert_eq!(row.row.event.expect("an event").payload, edited);
        let original = shown(&bench, &name).await.original.expect("an original");
        assert_eq!(original.payload, first);
        versions.push(row.version);
    }
    assert!(
        versions.iter().all(|version| *version == versions[0]),
        "{versions:?}"
    );
    assert_eq!(relay.due().await.len(), versions.len(), "none stays for x");
}

/// What a person wrote for one of two destinations has gone to the one that is in the place of both: what it replaced
/// would take it back there, behind later events of its key.
pub(super) async fn what_it_replaces_does_not_follow_it(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("a", "k")]).await;
    let parks = vec![refused("x", Duration::ZERO), refused("y", Duration::ZERO)];
    assert_eq!(relay.settle_one(parks_as(&rows[0], parks)).await, Settled::Done);
    edit_for(&bench, "a", "x", 1).await;
    route_anew(&relay, "x").await;
    let edited = due_for(&relay, "a", "d").await;
    assert_eq!(edited.row.sent_before, []);
    let sent = Then::Sent(Default::default());
    assert_eq!(relay.settle_parked(&edited, sent).await, Settled::Done);
    let known = |same_content| SentBefore {
        destination: to("d"),
        same_content,
    };
    assert_eq!(due_for(&relay, "a", "y").await.row.sent_before, [known(true)]);
    route_anew(&relay, "y").await;
    assert_eq!(due_for(&relay, "a", "d").await.row.sent_before, [known(true)]);
    // What a person writes for that one is meant to go there as well.
    let due = due_for(&relay, "a", "d").await;
    let again = Then::Again(refused("d", Duration::ZERO));
    assert_eq!(relay.settle_parked(&due, again).await, Settled::Done);
    edit_for(&bench, "a", "d", 2).await;
    assert_eq!(due_for(&relay, "a", "d").await.row.sent_before, []);
}

/// Edited, routed anew, refused there and edited again: the first of the edits tells, whatever the names of the
/// destinations are.
pub(super) async fn the_original_is_what_the_producer_wrote(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("a", "k")]).await;
    let parks = vec![refused("x", Duration::ZERO)];
    assert_eq!(relay.settle_one(parks_as(&rows[0], parks)).await, Settled::Done);
    let first = rows[0].event.as_ref().expect("an event").payload.clone();
    edit_for(&bench, "a", "x", 1).await;
    route_anew(&relay, "x").await;
    let due = relay.due().await.remove(0);
    let again = Then::Again(refused("d", Duration::ZERO));
    assert_eq!(relay.settle_parked(&due, again).await, Settled::Done);
    edit_for(&bench, "a", "d", 2).await;
    let original = shown(&bench, "a").await.original.expect("an original");
    assert_eq!(original.payload, first);
}

/// An event that was refused at `d` and at `x`, and its payload.
async fn parked_for_two(bench: &Bench) -> (Relay, Payload) {
    let relay = bench.relay("one").await;
    let first = park_for_two(bench, &relay, "a").await;
    (relay, first)
}

async fn park_for_two(bench: &Bench, relay: &Relay, id: &str) -> Payload {
    bench.commit(&[event(id, id)]).await;
    let row = relay.queued().await.remove(0);
    let parks = vec![refused("d", Duration::ZERO), refused("x", Duration::ZERO)];
    assert_eq!(relay.settle_one(parks_as(&row, parks)).await, Settled::Done);
    row.event.as_ref().expect("an event").payload.clone()
}

async fn edit_for(bench: &Bench, id: &str, destination: &str, n: u32) -> Payload {
    let json = format!("{{\"n\":{n}}}");
    let one = Edit {
        destination: Some(to(destination)),
        ..change(id, &json)
    };
    assert_eq!(bench.console().edit(one).await.expect("edited").touched, 1);
    Payload::Text(json)
}

async fn due_for(relay: &Relay, id: &str, destination: &str) -> ParkedRow {
    let mut due = relay.due().await.into_iter();
    let row = due.find(|row| row.row.event_id == id.into() && row.destination == Some(to(destination)));
    row.expect("a row that is due")
}

/// Routes the row of `a` for a destination to `d`, where the event is parked already.
async fn route_anew(relay: &Relay, destination: &str) {
    let row = due_for(relay, "a", destination).await;
    let split = Then::Split(vec![waiting("d")]);
    assert_eq!(relay.settle_parked(&row, split).await, Settled::Done);
}
