//! What operators see and do beside running relays.

use std::time::Duration;

use postrider_core::{Act, Event, EventRecord, Filter, Kept, Leaves, List, Purge, Settled, Status, Verb};

use super::bench::Bench;
use super::words::{dead, decided, event, event_with, parks_as, refused, sent, to, waiting};
use crate::wait::eventually;

const HOUR: Duration = Duration::from_secs(3_600);

pub(super) async fn stats_count_what_there_is(bench: Bench) {
    let parks = [
        (event("dead", "a"), dead(Some("d"))),
        (event("retrying", "b"), refused("d", HOUR)),
        (event("waiting", "b"), waiting("d")),
    ];
    let (relay, _) = bench.parked(&parks).await;
    bench
        .commit(&[event("sent", "c"), event("double", "c"), event("queued", "c")])
        .await;
    let rows = relay.queued().await;
    let double = decided(&rows[1], Leaves::Duplicate);
    relay
        .settle(vec![sent(&rows[0], &["d", "e"]), double], Vec::new())
        .await;
    let stats = bench.console().stats().await.expect("stats");
    assert_eq!(stats.queued, 1);
    assert_eq!(stats.dead, 1);
    assert_eq!(stats.parked.values().sum::<u64>(), 2, "{:?}", stats.parked);
    assert_eq!(stats.published, 2, "once per destination");
    assert_eq!(stats.duplicates, 1);
    assert!(stats.oldest.is_some_and(|age| age < HOUR));
    let again = bench.console().stats().await.expect("the numbers").oldest_at;
    assert!(
        stats.oldest_at.is_some() && stats.oldest_at == again,
        "it is stored, not worked out"
    );
}

pub(super) async fn a_listing_pages_through_everything_once(bench: Bench) {
    let events: Vec<_> = (0..7)
        .map(|n| event(&format!("e{n}"), &format!("k{n}")))
        .collect();
    bench.commit(&events).await;
    let console = bench.console();
    let (mut seen, mut from) = (Vec::new(), None);
    for _ in 0..=events.len() {
        let page = console
            .list(List {
                from,
                ..List::first(3, Filter::default())
            })
            .await
            .expect("a listing");
        assert!(page.events.len() <= 3);
        seen.extend(page.events.iter().map(|record| record.event_id.to_string()));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(
        seen,
        ["e0", "e1", "e2", "e3", "e4", "e5", "e6"],
        "oldest first, each once"
    );
}

pub(super) async fn a_listing_shows_the_worst_state(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("mixed", "k"), event("queued", "k")]).await;
    let mut entry = sent(&rows[0], &["d"]);
    if let Leaves::Decided { parked, .. } = &mut entry.leaves {
        parked.push(dead(Some("e")));
    }
    assert_eq!(relay.settle_one(entry).await, Settled::Done);
    let mixed = listed(&bench, Filter::default()).await.remove(0);
    assert_eq!(mixed.status(), Status::DeadLetter);
    assert_eq!(mixed.routes.len(), 2);
    assert_eq!(mixed.routes[0].error_kind.as_deref(), Some("rejected"));
    assert!(mixed.routes.iter().any(|route| route.status == Status::Published));
    let by_status = |status| Filter {
        status: vec![status],
        ..Filter::default()
    };
    assert_eq!(
        names(&listed(&bench, by_status(Status::DeadLetter)).await),
        ["mixed"]
    );
    assert_eq!(
        names(&listed(&bench, by_status(Status::Pending)).await),
        ["queued"]
    );
}

pub(super) async fn a_reused_id_shows_every_record(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("same", "k")]).await;
    relay.settle_one(sent(&rows[0], &["d"])).await;
    bench.commit(&[event_with("same", "k", "{\"other\":1}")]).await;
    let shown = bench.console().show("same".into()).await.expect("shown");
    assert_eq!(shown.len(), 2);
    let payloads: Vec<_> = shown
        .iter()
        .map(|record| record.event.as_ref().expect("an event").payload.clone())
        .collect();
    assert_ne!(payloads[0], payloads[1]);
    assert!(
        bench
            .console()
            .show("nobody".into())
            .await
            .expect("shown")
            .is_empty()
    );
}

pub(super) async fn a_bad_row_shows_its_payload(bench: Bench) {
    let bad = event_with("bad", "k", "{\"n\": 1 }");
    let mut tx = bench.begin().await;
    tx.insert_bad(&bad).await.expect("inserted as a bad row");
    tx.insert(&event("good", "l")).await.expect("inserted");
    tx.commit().await;
    let payload = async |id: &str| {
        let shown = bench.console().show(id.into()).await.expect("shown").remove(0);
        assert_eq!(
            shown.event.is_err(),
            shown.bad_payload.is_some(),
            "one of the two has it"
        );
        shown.bad_payload
    };
    assert_eq!(
        payload("bad").await.as_ref(),
        Some(&bad.payload),
        "while it is queued"
    );
    assert_eq!(payload("good").await, None);
    let relay = bench.relay("one").await;
    let rows = relay.queued().await;
    relay.settle_one(parks_as(&rows[0], vec![dead(None)])).await;
    assert_eq!(
        payload("bad").await.as_ref(),
        Some(&bad.payload),
        "while it is dead"
    );
}

pub(super) async fn what_was_sent_is_enough_for_its_address(bench: Bench) {
    let plain = event("plain", "k");
    let full = Event {
        key: Some("K".to_owned()),
        headers: [("tenant".to_owned(), "it's \"é\"".to_owned())].into(),
        ..event("full", "l")
    };
    let (relay, rows) = bench.queued(&[plain.clone(), full.clone()]).await;
    for row in &rows {
        relay.settle_one(sent(row, &["d"])).await;
    }
    let page = bench.console().sent(None, 10, None).await.expect("the history");
    for (sent, event) in page.events.iter().zip([plain, full]) {
        let known = sent.without_payload();
        assert_eq!(known.key_text(), event.key_text());
        let with_payload = Event {
            key: event.key.clone(),
            payload: event.payload.clone(),
            content_type: event.content_type.clone(),
            ..known
        };
        assert_eq!(with_payload, event);
    }
    assert_eq!(page.events.len(), 2);
}

pub(super) async fn failures_are_grouped_by_destination_and_kind(bench: Bench) {
    let parks = [
        (event("a", "a"), dead(Some("d"))),
        (event("b", "b"), refused("d", HOUR)),
        (event("c", "c"), dead(None)),
        (event("w", "w"), waiting("d")),
    ];
    bench.parked(&parks).await;
    let groups = bench.console().groups().await.expect("groups");
    let counts: Vec<_> = groups
        .iter()
        .map(|group| (group.destination.clone(), group.count))
        .collect();
    assert_eq!(counts, [(Some(to("d")), 2), (None, 1)], "the most frequent first");
    assert_eq!(groups[0].error_kind, "rejected");
}

async fn purge(bench: &Bench, older_than: Duration, limit: u32) -> u64 {
    let old = Purge::of(Kept::History, older_than, limit);
    bench.upkeep().purge(old).await.expect("purged").rows
}

pub(super) async fn a_purge_keeps_the_count_of_published(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("a", "k"), event("b", "k")]).await;
    let entries = rows.iter().map(|row| sent(row, &["d"])).collect();
    relay.settle(entries, Vec::new()).await;
    let console = bench.console();
    assert_eq!(purge(&bench, HOUR, 100).await, 0, "nothing is that old");
    // History becomes older than nothing as soon as the clock moves.
    eventually("history is purged", async || {
        let gone = purge(&bench, Duration::ZERO, 1).await;
        assert!(gone <= 1, "a limit is a limit");
        let left = console.show("b".into()).await.expect("shown");
        left.is_empty().then_some(())
    })
    .await;
    assert_eq!(console.stats().await.expect("stats").published, 2);
}

pub(super) async fn the_history_is_read_from_its_end_and_followed(bench: Bench) {
    let ids: Vec<String> = (0..5).map(|n| format!("e{n}")).collect();
    let events: Vec<_> = ids.iter().map(|id| event(id, "k")).collect();
    let (relay, rows) = bench.queued(&events).await;
    let console = bench.console();
    let sent_ids = async |limit, after| {
        let page = console.sent(None, limit, after).await.expect("the history");
        let ids: Vec<String> = page
            .events
            .iter()
            .map(|event| event.event_id.to_string())
            .collect();
        (ids, page.next)
    };
    let (none, start) = sent_ids(10, None).await;
    assert!(none.is_empty(), "nothing was sent yet");
    for row in &rows[..3] {
        relay.settle_one(sent(row, &["d"])).await;
    }
    assert_eq!(sent_ids(2, None).await.0, ["e1", "e2"], "the last, newest last");
    let (first, next) = sent_ids(2, Some(start)).await;
    assert_eq!(first, ["e0", "e1"], "the first behind the cursor");
    let (rest, next) = sent_ids(2, Some(next)).await;
    assert_eq!(rest, ["e2"]);
    let (nothing, next) = sent_ids(2, Some(next)).await;
    assert!(nothing.is_empty(), "each is given once");
    let (none, end) = sent_ids(0, None).await;
    assert!(none.is_empty(), "only the cursor was asked for");
    relay.settle_one(sent(&rows[3], &["d", "e"])).await;
    for cursor in [next, end] {
        let page = console.sent(None, 10, Some(cursor)).await.expect("the history");
        let went: Vec<_> = page
            .events
            .iter()
            .map(|event| event.destination.clone())
            .collect();
        assert_eq!(went, [Some(to("d")), Some(to("e"))], "one entry a destination");
        assert_eq!(page.events[0].event_id.as_str(), "e3");
        assert_eq!(page.events[0].event_type, "Tested");
    }
}

pub(super) async fn the_history_is_read_by_type(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("a", "k"), event("b", "k")]).await;
    let entries = rows.iter().map(|row| sent(row, &["d"])).collect();
    relay.settle(entries, Vec::new()).await;
    let console = bench.console();
    let of = async |event_type: &str| {
        let page = console.sent(Some(event_type.to_owned()), 10, None).await;
        page.expect("the history")
    };
    assert_eq!(of("Tested").await.events.len(), 2);
    let nobody = of("Nobody").await;
    assert!(nobody.events.is_empty());
    let behind = console
        .sent(None, 10, Some(nobody.next))
        .await
        .expect("the history");
    assert!(
        behind.events.is_empty(),
        "what was passed over is not looked at again"
    );
    let wrong = postrider_core::Cursor("nonsense".to_owned());
    assert!(console.sent(None, 10, Some(wrong)).await.is_err());
}

pub(super) async fn stats_tell_who_is_alive_with_what(bench: Bench) {
    let before = bench.console().stats().await.expect("stats");
    assert!(before.relays.is_empty());
    let relay = bench.relay("alive").await;
    let stats = bench.console().stats().await.expect("stats");
    assert_eq!(stats.relays.len(), 1, "{:?}", stats.relays);
    assert_eq!(stats.relays[0].relay, relay.heartbeat().relay);
    assert_eq!(stats.relays[0].shards.len(), usize::from(stats.shards));
    assert!(stats.relays[0].expires_in > Duration::ZERO);
}

pub(super) async fn what_fails_for_long_is_found(bench: Bench) {
    let parks = [
        (event("failing", "a"), refused("d", HOUR)),
        (event("waiting", "a"), waiting("d")),
        (event("dead", "b"), dead(Some("d"))),
    ];
    bench.parked(&parks).await;
    bench.commit(&[event("queued", "c")]).await;
    let failing = |least| Filter {
        status: vec![Status::Retrying],
        failing_for: Some(least),
        ..Filter::default()
    };
    assert_eq!(names(&listed(&bench, failing(Duration::ZERO)).await), ["failing"]);
    assert!(listed(&bench, failing(HOUR)).await.is_empty());
    let again = async |least: Duration, dry_run: bool| {
        let again = Act {
            verb: Verb::Redrive,
            filter: failing(least),
            dry_run,
            actor: "ann".to_owned(),
            limit: 10,
            from: None,
        };
        bench.console().act(again).await.expect("redriven").touched
    };
    assert_eq!(again(HOUR, true).await, 0);
    assert_eq!(again(Duration::ZERO, false).await, 1);
    assert!(
        listed(&bench, failing(Duration::ZERO)).await.is_empty(),
        "it has not failed since"
    );
    eventually("nobody comes to it for long", async || {
        let untried = listed(&bench, failing(Duration::from_millis(2))).await;
        (names(&untried) == ["failing"]).then_some(())
    })
    .await;
    assert_eq!(again(Duration::ZERO, true).await, 0, "as the listing has it");
    assert_eq!(
        again(Duration::from_millis(2), true).await,
        1,
        "a verb finds what the listing shows"
    );
}

async fn listed(bench: &Bench, filter: Filter) -> Vec<EventRecord> {
    bench
        .console()
        .list(List::first(100, filter))
        .await
        .expect("a listing")
        .events
}

fn names(records: &[EventRecord]) -> Vec<&str> {
    records.iter().map(|record| record.event_id.as_str()).collect()
}
