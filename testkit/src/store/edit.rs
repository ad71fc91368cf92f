//! Payloads that people change.

use std::time::Duration;

use postrider_core::{
    Chunk, DestinationName, Edit, EventId, EventRecord, HistoryAsk, Leaves, Park, Payload, Receipt,
    RecordedRoute, Settled, Status, StoreErrorKind, Then, What,
};

use super::bench::Bench;
use super::job::ANN;
use super::keep::{everything, pages};
use super::words::{dead, event, event_with, names, pairs, parks_as, refused, sent, to, waiting};

const HOUR: Duration = Duration::from_secs(3_600);

pub(super) async fn an_edit_keeps_the_original_and_the_order(bench: Bench) {
    let parks = [
        (event("a", "k"), refused("d", Duration::ZERO)),
        (event("b", "k"), waiting("d")),
    ];
    let (relay, rows) = bench.parked(&parks).await;
    let seen = relay.due().await.remove(0);
    let first = rows[0].event.as_ref().expect("an event").payload.clone();
    for text in ["{\"n\": 1}", "{\"n\": 2}"] {
        assert_eq!(edit(&bench, "a", text).await.touched, 1);
        let mut read = relay.everything();
        read.parked.followers = 10;
        let due = relay.read(read).await.parked;
        assert_eq!(
            names(&due),
            pairs(&[("a", "d"), ("b", "d")]),
            "its key keeps its order"
        );
        assert!(due[0].redriven);
        assert_eq!(
            (due[0].attempts, due[0].failures),
            (0, 0),
            "with all its attempts"
        );
        let sent = due[0].row.event.as_ref().expect("an event");
        assert_eq!(sent.payload, Payload::Text(text.to_owned()), "byte for byte");
        let record = shown(&bench, "a").await;
        assert_eq!(record.event.as_ref().expect("an event").payload, first);
        assert_eq!(record.routes[0].payload.as_ref(), Some(&sent.payload));
        let original = record.original.expect("an original");
        assert_eq!((&original.payload, original.actor.as_str()), (&first, ANN));
    }
    // A relay that read the row before it was changed decides nothing about it.
    assert_eq!(
        relay.settle_parked(&seen, Then::Again(waiting("d"))).await,
        Settled::Gone
    );
    assert_eq!(shown(&bench, "b").await.original, None);
}

pub(super) async fn an_edited_row_stays_edited_when_it_is_sent(bench: Bench) {
    let (relay, _) = bench.parked(&[(event("a", "k"), dead(Some("d")))]).await;
    edit(&bench, "a", "{\"n\":1}").await;
    let due = relay.due().await.remove(0);
    assert_eq!(
        relay.settle_parked(&due, Then::Sent(Default::default())).await,
        Settled::Done
    );
    let record = shown(&bench, "a").await;
    assert_eq!(record.status(), Status::Published);
    let payload = record.routes[0].payload.clone();
    assert_eq!(payload, Some(Payload::Text("{\"n\":1}".to_owned())));
    assert!(
        record.original.is_some(),
        "what the producer wrote is still there"
    );
}

/// What was sent is on record as it was sent, and what a person wrote meanwhile is not lost with it.
pub(super) async fn an_edit_beside_an_attempt_is_sent_as_well(bench: Bench) {
    let parks = [(event("a", "k"), refused("d", Duration::ZERO))];
    let (relay, rows) = bench.parked(&parks).await;
    let mut wanted = vec![rows[0].event.as_ref().expect("an event").payload.clone()];
    for edits in [&["{\"n\":1}"][..], &["{\"n\":2}", "{\"n\":3}"]] {
        let seen = relay.due().await.remove(0);
        for text in edits {
            assert_eq!(edit(&bench, "a", text).await.touched, 1);
        }
        let last = Payload::Text(edits[edits.len() - 1].to_owned());
        assert_eq!(
            relay.settle_parked(&seen, Then::Sent(Default::default())).await,
            Settled::Done
        );
        assert_eq!(history(&bench).await, wanted, "what was read is what was sent");
        // The answer was lost.
        assert_eq!(
            relay.settle_parked(&seen, Then::Sent(Default::default())).await,
            Settled::Gone
        );
        assert_eq!(history(&bench).await, wanted, "once");
        let due = relay.due().await.remove(0);
        assert!(due.maybe_sent && due.redriven && due.version > seen.version);
        assert!(due.row.sent_before.is_empty(), "sent from its own place");
        assert_eq!(due.row.event.as_ref().expect("an event").payload, last);
        assert_eq!(shown(&bench, "a").await.status(), Status::Retrying);
        wanted.push(last);
    }
    let due = relay.due().await.remove(0);
    assert_eq!(
        relay.settle_parked(&due, Then::Sent(Default::default())).await,
        Settled::Done
    );
    assert_eq!(history(&bench).await, wanted);
    assert!(relay.due().await.is_empty());
    let stats = bench.console().stats().await.expect("stats");
    assert_eq!(stats.published, 3, "each was a delivery");
}

pub(super) async fn an_edited_row_is_no_duplicate_of_what_it_was(bench: Bench) {
    let parks = [(event("a", "k"), refused("d", Duration::ZERO))];
    let (relay, _) = bench.parked(&parks).await;
    let seen = relay.due().await.remove(0);
    assert_eq!(edit(&bench, "a", "{\"n\":1}").await.touched, 1);
    assert_eq!(relay.settle_parked(&seen, Then::Duplicate).await, Settled::Gone);
    let due = relay.due().await.remove(0);
    assert_eq!(relay.settle_parked(&due, Then::Duplicate).await, Settled::Done);
    assert!(relay.due().await.is_empty());
}

pub(super) async fn an_edit_may_be_for_one_destination(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("a", "k")]).await;
    let entry = parks_as(&rows[0], vec![dead(Some("d")), dead(Some("e"))]);
    assert_eq!(relay.settle_one(entry).await, Settled::Done);
    let one = Edit {
        destination: Some(to("e")),
        ..change("a", "{\"n\":1}")
    };
    assert_eq!(bench.console().edit(one).await.expect("edited").touched, 1);
    assert_eq!(relay.due_names().await, pairs(&[("a", "e")]));
    assert_eq!(edit(&bench, "a", "{\"n\":2}").await.touched, 2, "both of them");
    let due = relay.due().await;
    assert_eq!(due.len(), 2);
    for row in due {
        let payload = &row.row.event.as_ref().expect("an event").payload;
        assert_eq!(*payload, Payload::Text("{\"n\":2}".to_owned()));
    }
}

/// The type that a producer did not name follows from its payload, and an edit with bytes must not change it unsaid.
pub(super) async fn an_edit_keeps_the_content_type(bench: Bench) {
    let (relay, rows) = bench.parked(&[(event("a", "k"), dead(Some("d")))]).await;
    let before = rows[0].event.as_ref().expect("an event");
    assert_eq!(
        (&before.content_type, before.content_type()),
        (&None, "application/json")
    );
    let with = |payload: &'static [u8]| Edit {
        payload: Payload::Bytes(payload.into()),
        ..change("a", "")
    };
    let refused = bench.console().edit(with(b"\xff\xfe{}")).await;
    assert_eq!(refused.expect_err("no JSON").kind(), StoreErrorKind::Invalid);
    bench.console().edit(with(b"{\"n\":1}")).await.expect("edited");
    let due = relay.due().await.remove(0).row.event.expect("an event");
    assert_eq!(due.content_type(), "application/json");
    let named = Edit {
        content_type: Some("text/plain".to_owned()),
        ..change("a", "no JSON")
    };
    bench.console().edit(named).await.expect("edited");
    let due = relay.due().await.remove(0).row.event.expect("an event");
    assert_eq!(due.content_type(), "text/plain");
}

/// A person who looks must see what each destination got.
pub(super) async fn each_destination_shows_the_payload_that_goes_there(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("a", "k")]).await;
    let mut entry = parks_as(&rows[0], vec![dead(Some("e"))]);
    if let Leaves::Decided { sent, .. } = &mut entry.leaves {
        sent.push((to("d"), Receipt::default()));
    }
    assert_eq!(relay.settle_one(entry).await, Settled::Done);
    let first = rows[0].event.as_ref().expect("an event").payload.clone();
    assert_eq!(
        payloads(&bench, "a").await,
        (first.clone(), vec![(to("d"), None), (to("e"), None)])
    );
    edit(&bench, "a", "{\"n\":1}").await;
    let changed = Payload::Text("{\"n\":1}".to_owned());
    let wanted = (first, vec![(to("d"), None), (to("e"), Some(changed))]);
    assert_eq!(payloads(&bench, "a").await, wanted, "while it waits");
    let due = relay.due().await.remove(0);
    let settled = relay.settle_parked(&due, Then::Sent(Receipt::default())).await;
    assert_eq!(settled, Settled::Done);
    assert_eq!(payloads(&bench, "a").await, wanted, "when it was sent");
}

pub(super) async fn an_edit_is_told_of_the_event_that_was_edited(bench: Bench) {
    let relay = bench.relay("relay").await;
    for edited in [1, 0] {
        let id = format!("same-{edited}");
        for place in [0, 1] {
            bench.commit(&[event_with(&id, "k", &place.to_string())]).await;
            let row = relay.queued().await.remove(0);
            let entry = match place == edited {
                true => parks_as(&row, vec![dead(Some("d"))]),
                false => sent(&row, &["d"]),
            };
            assert_eq!(relay.settle_one(entry).await, Settled::Done);
        }
        assert_eq!(edit(&bench, &id, "{\"n\":1}").await.touched, 1);
        let mut shown = bench.console().show(id.as_str().into()).await.expect("shown");
        shown.sort_by_key(|record| record.seq);
        let is_edited =
            |record: &EventRecord| record.timeline.iter().any(|moment| moment.what == What::Edited);
        let told: Vec<_> = shown.iter().map(is_edited).collect();
        assert_eq!(told, [edited == 0, edited == 1]);
    }
}

pub(super) async fn an_edit_of_another_state_is_refused_with_it(bench: Bench) {
    let parks: [(_, Park); 3] = [
        (event("head", "k"), dead(Some("d"))),
        (event("waiting", "k"), waiting("d")),
        (event("held", "l"), waiting("d")),
    ];
    let (relay, _) = bench.parked(&parks).await;
    bench
        .commit(&[event("published", "m"), event("pending", "n")])
        .await;
    let rows = relay.queued().await;
    assert_eq!(relay.settle_one(sent(&rows[0], &["d"])).await, Settled::Done);
    let states = [
        ("waiting", Status::Waiting),
        ("held", Status::Held),
        ("published", Status::Published),
        ("pending", Status::Pending),
    ];
    for (id, status) in states {
        let before = shown(&bench, id).await;
        let chunk = edit(&bench, id, "{\"n\":1}").await;
        assert_eq!(
            (chunk.touched, chunk.refused),
            (0, vec![(EventId::from(id), status)]),
            "{id}"
        );
        assert_eq!(shown(&bench, id).await.event, before.event, "nothing changed");
    }
    let nobody = edit(&bench, "nobody", "{}").await;
    assert_eq!(nobody, Chunk::default());
}

pub(super) async fn an_edit_that_makes_no_event_changes_nothing(bench: Bench) {
    let parks = [(event("a", "k"), refused("d", HOUR))];
    let (relay, _) = bench.parked(&parks).await;
    let before = shown(&bench, "a").await;
    let wrong = change("a", "{ this is no JSON");
    for dry_run in [true, false] {
        let wrong = Edit {
            dry_run,
            ..wrong.clone()
        };
        let refused = bench.console().edit(wrong).await.expect_err("no event");
        assert_eq!(
            refused.kind(),
            StoreErrorKind::Invalid,
            "the one who asks is to blame"
        );
    }
    assert_eq!(shown(&bench, "a").await, before);
    assert!(relay.due().await.is_empty());
    let audited = bench
        .console()
        .audit(10, None)
        .await
        .expect("the audit")
        .entries
        .len();
    let tried = Edit {
        dry_run: true,
        ..change("a", "{}")
    };
    let chunk = bench.console().edit(tried).await.expect("tried");
    assert_eq!(chunk.touched, 1, "it would work");
    assert_eq!(
        shown(&bench, "a").await,
        before,
        "and nothing is changed by asking"
    );
    let entries = bench.console().audit(10, None).await.expect("the audit").entries;
    assert_eq!(entries.len(), audited);
}

pub(super) fn change(id: &str, json: &str) -> Edit {
    Edit {
        event_id: id.into(),
        destination: None,
        payload: Payload::Text(json.to_owned()),
        content_type: None,
        dry_run: false,
        actor: ANN.to_owned(),
    }
}

async fn edit(bench: &Bench, id: &str, json: &str) -> Chunk {
    bench.console().edit(change(id, json)).await.expect("an edit")
}

/// The payloads of the history, the oldest first. Pages are as small as can be: an archive of the history must have
/// every row of an event that was sent more than once.
pub(super) async fn history(bench: &Bench) -> Vec<Payload> {
    let ask = HistoryAsk {
        limit: 1,
        ..everything()
    };
    let mut rows = pages(bench, ask).await;
    rows.sort_by_key(|row| row.published_at);
    rows.into_iter().map(|row| row.payload).collect()
}

/// The payload of an event, and those of its destinations where they are others.
async fn payloads(bench: &Bench, id: &str) -> (Payload, Vec<(DestinationName, Option<Payload>)>) {
    let record = shown(bench, id).await;
    let own = |route: RecordedRoute| (route.destination.expect("a destination"), route.payload);
    let mut routes: Vec<_> = record.routes.into_iter().map(own).collect();
    routes.sort_by(|one, other| one.0.cmp(&other.0));
    (record.event.expect("an event").payload, routes)
}

pub(super) async fn shown(bench: &Bench, id: &str) -> EventRecord {
    let shown = bench.console().show(id.into()).await;
    shown.expect("shown").pop().expect("there is such an event")
}
