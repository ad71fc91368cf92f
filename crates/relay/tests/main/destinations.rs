//! Several destinations.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use postrider_core::{Condition, DestinationName, ErrorKind, Event, Router, Template};
use postrider_memory::MemorySink;
use postrider_relay::engine::Note;
use postrider_relay::{Relay, Settings};
use postrider_testkit::MemoryStore;
use postrider_testkit::wait::eventually;

use crate::support::*;

fn fan_out(store: &MemoryStore, left: &MemorySink, right: &MemorySink, settings: Settings) -> Relay {
    let builder = left_and_right(store, left, right).settings(settings);
    builder.build().unwrap()
}

#[tokio::test]
async fn an_event_goes_to_every_destination_of_its_route() {
    let (store, left, right) = (MemoryStore::new(8), MemorySink::new(), MemorySink::new());
    commit(&store, &["a", "b"], 50);
    let report = drained(&fan_out(&store, &left, &right, quick())).await;
    assert_eq!(report.published, 200, "one a destination");
    assert_exact(&left, &["a", "b"], 50);
    assert_exact(&right, &["a", "b"], 50);
    for name in ["left", "right"] {
        let sent = store.with_model(|model, _| model.sent_to(&DestinationName::new(name)).count());
        assert_eq!(sent, 100);
    }
}

#[tokio::test]
async fn a_route_may_drop_on_purpose() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    let noise = Condition {
        event_type: vec!["Noise".to_owned()],
        ..Condition::default()
    };
    let router = Router::builder()
        .route(noise, Vec::new())
        .unwrap()
        .route(Condition::default(), vec![destination("one")])
        .unwrap()
        .build();
    let mut noisy = event("a", 1);
    noisy.event_type = "Noise".to_owned();
    store.enqueue(noisy).unwrap();
    store.enqueue(event("a", 2)).unwrap();
    let relay = builder(&store)
        .sink_named("one", Arc::new(sink.clone()))
        .router(router)
        .build()
        .unwrap();
    let report = drained(&relay).await;
    assert_eq!((report.dropped, report.published), (1, 1));
    assert_eq!(arrived(&sink, "a"), ["a-2"]);
    assert!(is_empty(&store));
}

/// Fault B26.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_dead_destination_of_two_holds_up_nothing_and_is_drained_in_order_after_its_return() {
    let (store, left, right) = (MemoryStore::new(8), MemorySink::new(), MemorySink::new());
    right.set_reachable(false);
    let keys = many_keys(20);
    commit(&store, &keys, 50);
    // Far more events than the window holds.
    let small = Settings {
        window: 64,
        batch_size: 16,
        ..quick()
    };
    let running = Running::start(&fan_out(&store, &left, &right, small));
    left.wait_for(1_000, PATIENCE).await.unwrap();
    until("rows that wait for it", || parked(&store).len() > 900).await;
    assert!(right.messages().is_empty());
    assert!(parked(&store).iter().all(|row| {
        row.attempts == 0 && !row.dead && row.destination == Some(DestinationName::new("right"))
    }));
    right.set_reachable(true);
    right.wait_for(1_000, PATIENCE).await.unwrap();
    until("an empty outbox", || is_empty(&store)).await;
    running.stop().await;
    assert_exact(&left, &keys, 50);
    assert_exact(&right, &keys, 50);
}

/// What has arrived at one destination is written down although another is away, so that people see it and a relay that
/// dies repeats nothing.
#[tokio::test]
async fn what_arrived_elsewhere_does_not_wait_for_a_destination_that_is_away() {
    let (store, left, right) = (MemoryStore::new(8), MemorySink::new(), MemorySink::new());
    right.set_reachable(false);
    commit(&store, &["a", "b"], 3);
    let running = Running::start(&fan_out(&store, &left, &right, quick()));
    until("it is written down", || parked(&store).len() == 6).await;
    assert_exact(&left, &["a", "b"], 3);
    running.drop_now().await;
    right.set_reachable(true);
    let running = Running::start(&fan_out(&store, &left, &right, quick()));
    until("an empty outbox", || is_empty(&store)).await;
    running.stop().await;
    assert_exact(&left, &["a", "b"], 3);
    assert_exact(&right, &["a", "b"], 3);
}

/// A pause is answered by nobody, so nothing tells how long it lasts: what has arrived elsewhere is written down at
/// once.
#[tokio::test]
async fn what_arrived_elsewhere_does_not_wait_for_a_destination_that_is_paused() {
    let (store, left, right) = (MemoryStore::new(8), MemorySink::new(), MemorySink::new());
    let name = DestinationName::new("right");
    store.with_model(|model, _| model.pause(Some(&name), true));
    let running = Running::start(&fan_out(&store, &left, &right, quick()));
    commit(&store, &["a", "b"], 3);
    until("it is written down", || parked(&store).len() == 6).await;
    let sent = store.with_model(|model, _| model.sent_to(&DestinationName::new("left")).count());
    assert_eq!(sent, 6);
    running.drop_now().await;
    store.with_model(|model, _| model.pause(Some(&name), false));
    let running = Running::start(&fan_out(&store, &left, &right, quick()));
    until("an empty outbox", || is_empty(&store)).await;
    running.stop().await;
    assert_exact(&left, &["a", "b"], 3);
    assert_exact(&right, &["a", "b"], 3);
}

/// Fault B26.
#[tokio::test]
async fn a_refusal_at_one_destination_holds_the_key_there_only() {
    let (store, left, right) = (MemoryStore::new(8), MemorySink::new(), MemorySink::new());
    right.refuse_when(|message| (message.event_id.as_str() == "a-2").then_some(ErrorKind::AddressNotFound));
    commit(&store, &["a", "b"], 5);
    let running = Running::start(&fan_out(&store, &left, &right, quick()));
    left.wait_for(10, PATIENCE).await.unwrap();
    right.wait_for(6, PATIENCE).await.unwrap();
    until("the others to wait", || parked(&store).len() == 4).await;
    assert_eq!(arrived(&right, "a"), ["a-1"]);
    right.accept_everything();
    right.wait_for(10, PATIENCE).await.unwrap();
    until("an empty outbox", || is_empty(&store)).await;
    running.stop().await;
    assert_exact(&left, &["a", "b"], 5);
    assert_exact(&right, &["a", "b"], 5);
}

#[tokio::test]
async fn a_stop_between_two_destinations_repeats_nothing() {
    let (store, left, right) = (MemoryStore::new(8), MemorySink::new(), MemorySink::new());
    let heard = Arc::new(Heard::default());
    right.set_reachable(false);
    commit(&store, &["a", "b"], 5);
    let relay = left_and_right(&store, &left, &right)
        .observer(heard.clone())
        .build()
        .unwrap();
    let running = Running::start(&relay);
    left.wait_for(10, PATIENCE).await.unwrap();
    until("an outage", || heard.openings() > 1).await;
    running.stop().await;
    right.set_reachable(true);
    drained(&relay).await;
    assert!(is_empty(&store));
    assert_exact(&left, &["a", "b"], 5);
    assert_exact(&right, &["a", "b"], 5);
}

#[tokio::test]
async fn an_event_published_before_is_settled_as_a_duplicate_and_counted() {
    let (store, sink, heard) = (MemoryStore::new(8), MemorySink::new(), Arc::new(Heard::default()));
    let relay = builder(&store)
        .sink(Arc::new(sink.clone()))
        .observer(heard.clone())
        .build()
        .unwrap();
    commit(&store, &["a"], 1);
    drained(&relay).await;
    commit(&store, &["a"], 2);
    let report = drained(&relay).await;
    assert_eq!((report.duplicates, report.published), (1, 1));
    assert!(is_empty(&store));
    assert_exact(&sink, &["a"], 2);
    assert_eq!(store.with_model(|model, _| model.counters().duplicates), 1);
    let duplicate =
        |note: &Note| matches!(note, Note::Duplicate { event_id, .. } if event_id.as_str() == "a-1");
    assert_eq!(heard.count(duplicate), 1);
}

/// One event is sent, and another one with its id waits.
async fn reuse_id(store: &MemoryStore, relay: &Relay) {
    commit(store, &["a"], 1);
    drained(relay).await;
    let mut other = event("a", 1);
    other.payload = postrider_core::Payload::Text("{\"other\":true}".to_owned());
    store.enqueue(other).unwrap();
}

#[tokio::test]
async fn an_id_used_for_another_event_is_parked_for_a_person() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    let relay = relay(&store, &sink);
    reuse_id(&store, &relay).await;
    store.enqueue(event("b", 1)).unwrap();
    let report = drained(&relay).await;
    assert_eq!((report.dead, report.published), (1, 1));
    let rows = dead(&store);
    assert_eq!(rows[0].failure.as_ref().unwrap().kind, ErrorKind::IdReused);
    assert_exact(&sink, &["a", "b"], 1);
}

/// Whoever redrives it has looked at it and wants it sent: one refusal does not ask again.
#[tokio::test]
async fn a_reused_id_that_a_person_redrives_gets_all_its_attempts() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    let relay = relay(&store, &sink);
    reuse_id(&store, &relay).await;
    assert_eq!(drained(&relay).await.dead, 1);
    let refusals = AtomicU32::new(2);
    sink.refuse_when(move |_| {
        let left = refusals.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        left.is_ok().then_some(ErrorKind::Rejected)
    });
    store.with_model(|model, now| model.redrive(now, |row| row.dead));
    eventually("it is sent", async || {
        drained(&relay).await;
        is_empty(&store).then_some(())
    })
    .await;
    assert_eq!(sink.messages().len(), 2, "each content once");
}

/// One queue of many lost its binding: its events wait, the others go on as if nothing had happened.
#[tokio::test]
async fn an_address_that_is_gone_does_not_close_the_others() {
    one_address_of_two_refuses(ErrorKind::AddressNotFound).await;
}

/// Fault B5. One queue of many is full.
#[tokio::test]
async fn a_queue_that_is_full_does_not_close_the_others() {
    one_address_of_two_refuses(ErrorKind::Nacked).await;
}

async fn one_address_of_two_refuses(kind: ErrorKind) {
    let (store, sink, heard) = (MemoryStore::new(8), MemorySink::new(), Arc::new(Heard::default()));
    sink.refuse_when(move |message| {
        let gone = message.address.get("queue") == Some("gone");
        gone.then_some(kind)
    });
    let mut by_type = destination("one");
    by_type.address = vec![("queue".to_owned(), Template::parse("{event_type}").unwrap())];
    let mut tx = store.begin();
    for n in 1..=10 {
        for key in 0..40 {
            let queue = if key % 2 == 0 { "gone" } else { "there" };
            let event = Event::builder(queue)
                .id(format!("{queue}-{key}-{n}"))
                .aggregate("Test", format!("{key}"))
                .json("{}");
            tx.insert(event.build().unwrap()).unwrap();
        }
    }
    tx.commit();
    let relay = builder(&store)
        .sink_named("one", Arc::new(sink.clone()))
        .router(all_to(vec![by_type]))
        .observer(heard.clone())
        .build()
        .unwrap();
    let running = Running::start(&relay);
    until("the healthy address has everything", || {
        arrived(&sink, "there").len() == 200
    })
    .await;
    // Enough rounds of retries that the refusals in a row are many.
    let refused = |note: &Note| matches!(note, Note::WillRetry { .. });
    until("the others were tried often", || heard.count(refused) > 100).await;
    assert_eq!(heard.openings(), 0);
    sink.refuse_when(|_| None);
    until("everything has arrived", || is_empty(&store)).await;
    running.stop().await;
    assert_eq!(arrived(&sink, "gone").len(), 200);
}
