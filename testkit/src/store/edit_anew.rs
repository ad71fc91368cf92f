//! Payloads that people change of rows that are routed anew then.

use std::time::Duration;

use postrider_core::{Edit, Payload, Settled, Then};

use super::bench::{Bench, Relay};
use super::edit::{change, history, shown};
use super::job::ANN;
use super::words::{event, names, pairs, parks_as, refused, to, waiting};

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
    let seen = relay
        .due()
        .await
        .into_iter()
        .find(|row| row.destination == Some(to("d")));
    let seen = seen.expect("the row that stays");
    let edited = edit_for(&bench, "x", 1).await;
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
    edit_for(&bench, "x", 1).await;
    let meant = edit_for(&bench, "d", 2).await;
    route_anew(&relay, "x").await;
    let due = relay.due().await;
    assert_eq!(names(&due), pairs(&[("a", "d")]));
    let event = due.into_iter().next().and_then(|row| row.row.event.ok());
    assert_eq!(event.expect("an event").payload, meant);
}

/// Edited, routed anew, refused there and edited again: the first of the edits tells, whatever the names of the
/// destinations are.
pub(super) async fn the_original_is_what_the_producer_wrote(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("a", "k")]).await;
    let parks = vec![refused("x", Duration::ZERO)];
    assert_eq!(relay.settle_one(parks_as(&rows[0], parks)).await, Settled::Done);
    let first = rows[0].event.as_ref().expect("an event").payload.clone();
    edit_for(&bench, "x", 1).await;
    route_anew(&relay, "x").await;
    let due = relay.due().await.remove(0);
    let again = Then::Again(refused("d", Duration::ZERO));
    assert_eq!(relay.settle_parked(&due, again).await, Settled::Done);
    edit_for(&bench, "d", 2).await;
    let original = shown(&bench, "a").await.original.expect("an original");
    assert_eq!(original.payload, first);
}

/// An event that was refused at `d` and at `x`, and its payload.
async fn parked_for_two(bench: &Bench) -> (Relay, Payload) {
    let (relay, rows) = bench.queued(&[event("a", "k")]).await;
    let parks = vec![refused("d", Duration::ZERO), refused("x", Duration::ZERO)];
    assert_eq!(relay.settle_one(parks_as(&rows[0], parks)).await, Settled::Done);
    let first = rows[0].event.as_ref().expect("an event").payload.clone();
    (relay, first)
}

async fn edit_for(bench: &Bench, destination: &str, n: u32) -> Payload {
    let json = format!("{{\"n\":{n}}}");
    let one = Edit {
        destination: Some(to(destination)),
        ..change("a", &json)
    };
    assert_eq!(bench.console().edit(one).await.expect("edited").touched, 1);
    Payload::Text(json)
}

/// Routes the row for a destination to `d`, where the event is parked already.
async fn route_anew(relay: &Relay, destination: &str) {
    let row = relay
        .due()
        .await
        .into_iter()
        .find(|row| row.destination == Some(to(destination)));
    let split = Then::Split(vec![waiting("d")]);
    let settled = relay.settle_parked(&row.expect("the row that goes"), split).await;
    assert_eq!(settled, Settled::Done);
}
