//! What can become of a publish: four answers, never confused.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Condition, DeadLetter, ErrorKind, Router, Sink, StoreErrorKind, Template};
use postrider_memory::MemorySink;
use postrider_relay::Settings;
use postrider_relay::engine::Note;
use postrider_testkit::MemoryStore;
use postrider_testkit::faulty::{Fault, FaultyStore};
use postrider_testkit::model::NewRow;
use tokio::time::Instant;

use crate::support::*;

/// Refuses the events of one aggregate.
fn refuse(sink: &MemorySink, id: &'static str, kind: ErrorKind) {
    sink.refuse_when(move |message| (message.message_key == id).then_some(kind));
}

/// Commits events of other keys until a condition holds: they flow meanwhile. Gives how many there were.
pub(crate) async fn flowing(store: &MemoryStore, mut holds: impl FnMut() -> bool) -> u64 {
    let mut n = 0;
    until("while others flow", || {
        for _ in 0..3 {
            n += 1;
            store.enqueue(event(&format!("flow{n}"), 1)).unwrap();
        }
        holds()
    })
    .await;
    n
}

/// Fault B1.
#[tokio::test]
async fn an_outage_charges_nothing_and_ends_by_itself() {
    let (store, sink, heard) = (MemoryStore::new(8), MemorySink::new(), Arc::new(Heard::default()));
    sink.set_reachable(false);
    commit(&store, &["a", "b", "c"], 20);
    let relay = builder(&store)
        .sink(Arc::new(sink.clone()))
        .observer(heard.clone())
        .build()
        .unwrap();
    let running = Running::start(&relay);
    // More failed probes than an event has attempts.
    until("a long outage", || heard.openings() > 10).await;
    assert!(parked(&store).iter().all(|row| row.attempts == 0 && !row.dead));
    sink.set_reachable(true);
    sink.wait_for(60, PATIENCE).await.unwrap();
    until("an empty outbox", || is_empty(&store)).await;
    let report = running.stop().await;
    assert_eq!((report.published, report.dead), (60, 0));
    assert_eq!(heard.count(|note| matches!(note, Note::CircuitClosed { .. })), 1);
    assert_exact(&sink, &["a", "b", "c"], 20);
}

/// Fault B1.
#[tokio::test]
async fn publishing_resumes_within_five_seconds_with_the_default_settings() {
    let (store, sink, heard) = (MemoryStore::new(8), MemorySink::new(), Arc::new(Heard::default()));
    sink.set_reachable(false);
    commit(&store, &["a"], 5);
    let relay = builder(&store)
        .settings(Settings::default())
        .sink(Arc::new(sink.clone()))
        .observer(heard.clone())
        .build()
        .unwrap();
    let running = Running::start(&relay);
    until("back-off that has grown", || heard.openings() >= 4).await;
    sink.set_reachable(true);
    let healed = Instant::now();
    sink.wait_for(5, PATIENCE).await.unwrap();
    assert!(
        healed.elapsed() < Duration::from_secs(5),
        "{:?}",
        healed.elapsed()
    );
    running.stop().await;
}

#[tokio::test]
async fn a_misaddressed_event_is_never_charged_and_goes_when_its_address_is_mended() {
    for kind in [ErrorKind::AddressNotFound, ErrorKind::AddressRefused] {
        let (store, sink) = (MemoryStore::new(8), MemorySink::new());
        refuse(&sink, "a", kind);
        commit(&store, &["a"], 3);
        let running = Running::start(&relay(&store, &sink));
        flowing(&store, || {
            parked(&store).first().is_some_and(|row| row.failures > 6)
        })
        .await;
        for row in parked(&store) {
            assert_eq!((row.attempts, row.dead), (0, false), "{row:?}");
        }
        sink.accept_everything();
        until("an empty outbox", || is_empty(&store)).await;
        running.stop().await;
        assert_eq!(arrived(&sink, "a-"), ["a-1", "a-2", "a-3"]);
    }
}

#[tokio::test]
async fn a_rejected_event_is_charged_and_dead_after_its_attempts_while_others_flow() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    refuse(&sink, "a", ErrorKind::Rejected);
    commit(&store, &["a"], 1);
    let running = Running::start(&relay(&store, &sink));
    let flow = flowing(&store, || !dead(&store).is_empty()).await;
    let rows = parked(&store);
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].attempts, rows[0].failures >= 3), (3, true));
    until("the others", || arrived(&sink, "flow").len() as u64 == flow).await;
    assert_eq!(rows[0].failure.as_ref().unwrap().kind, ErrorKind::Rejected);
    let report = running.stop().await;
    assert_eq!(report.dead, 1);
    assert!(arrived(&sink, "a-").is_empty());
}

#[tokio::test]
async fn a_destination_that_confirms_nothing_else_kills_nothing() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    sink.refuse_when(|_| Some(ErrorKind::Rejected));
    commit(&store, &["a"], 1);
    let running = Running::start(&relay(&store, &sink));
    until("many rejections", || {
        parked(&store).first().is_some_and(|row| row.failures > 8)
    })
    .await;
    let rows = parked(&store);
    assert_eq!((rows[0].attempts, rows[0].dead), (1, false));
    sink.accept_everything();
    until("an empty outbox", || is_empty(&store)).await;
    running.stop().await;
}

/// One event that is dead, two behind it.
async fn with_dead_letter(dead_letter: DeadLetter) -> (MemoryStore, MemorySink) {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    sink.refuse_when(|message| (message.event_id.as_str() == "a-1").then_some(ErrorKind::Rejected));
    let one = postrider_core::Destination {
        dead_letter,
        ..destination("one")
    };
    let relay = builder(&store)
        .sink_named("one", Arc::new(sink.clone()))
        .router(all_to(vec![one]))
        .build()
        .unwrap();
    commit(&store, &["a"], 3);
    let running = Running::start(&relay);
    flowing(&store, || !dead(&store).is_empty()).await;
    store.enqueue(event("a", 4)).unwrap();
    store.enqueue(event("b", 1)).unwrap();
    until("another key", || arrived(&sink, "b-").len() == 1).await;
    if dead_letter == DeadLetter::Skip {
        until("its followers", || arrived(&sink, "a-").len() == 3).await;
    }
    running.stop().await;
    (store, sink)
}

#[tokio::test]
async fn hold_keeps_the_key_of_a_dead_event() {
    let (store, sink) = with_dead_letter(DeadLetter::Hold).await;
    assert!(arrived(&sink, "a-").is_empty());
    assert_eq!(dead(&store).len(), 1);
}

#[tokio::test]
async fn skip_lets_the_key_of_a_dead_event_pass() {
    let (store, sink) = with_dead_letter(DeadLetter::Skip).await;
    assert_eq!(arrived(&sink, "a-"), ["a-2", "a-3", "a-4"]);
    assert_eq!(parked(&store).len(), 1);
}

/// Fault B9.
#[tokio::test]
async fn what_can_never_be_sent_is_dead_at_once_with_its_reason() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    let mut small = FnSink::before(&sink, |inner, batch| async move { inner.publish(batch).await });
    small.capabilities.max_message_bytes = Some(2_000);
    let mut tenant = destination("small");
    tenant.address = vec![(
        "topic".to_owned(),
        Template::parse("orders.{header.tenant}").unwrap(),
    )];
    tenant.name = "tenant".into();
    let of_type = |name: &str| Condition {
        event_type: vec![name.to_owned()],
        ..Condition::default()
    };
    let router = Router::builder()
        .route(of_type("Tested"), vec![destination("small")])
        .unwrap()
        .route(of_type("Tenanted"), vec![tenant])
        .unwrap()
        .build();
    let mut large = event("large", 1);
    large.payload = postrider_core::Payload::Text(format!("\"{}\"", "x".repeat(3_000)));
    let mut tenantless = event("tenantless", 1);
    tenantless.event_type = "Tenanted".to_owned();
    let mut routeless = event("routeless", 1);
    routeless.event_type = "Unheard".to_owned();
    let broken = NewRow {
        bad: Some(postrider_core::Failure::new(
            ErrorKind::BadRow,
            "headers are not JSON",
        )),
        ..event("broken", 1).into()
    };
    let mut tx = store.begin();
    for row in [large, tenantless, routeless] {
        tx.insert(row).unwrap();
    }
    tx.insert(broken).unwrap();
    for key in ["large", "tenantless", "routeless", "broken"] {
        tx.insert(event(key, 2)).unwrap();
    }
    tx.insert(event("fine", 1)).unwrap();
    tx.commit();
    let relay = builder(&store)
        .sink_named("small", Arc::new(small))
        .router(router)
        .build()
        .unwrap();
    let report = drained(&relay).await;
    assert_eq!(report.dead, 4);
    let mut reasons: Vec<(String, ErrorKind, Option<String>)> = dead(&store)
        .into_iter()
        .map(|row| {
            let destination = row.destination.map(|name| name.to_string());
            (
                row.row.event_id().to_string(),
                row.failure.unwrap().kind,
                destination,
            )
        })
        .collect();
    reasons.sort();
    let reason = |id: &str, kind, at: Option<&str>| (id.to_owned(), kind, at.map(str::to_owned));
    assert_eq!(
        reasons,
        [
            reason("broken-1", ErrorKind::BadRow, None),
            reason("large-1", ErrorKind::TooLarge, Some("small")),
            reason("routeless-1", ErrorKind::NoRoute, None),
            reason("tenantless-1", ErrorKind::TemplateValueMissing, Some("tenant")),
        ]
    );
    // What has a destination blocks its key there; the second `tenantless` goes elsewhere.
    let messages = sink.messages();
    let mut passed = ids(&messages);
    passed.sort_unstable();
    assert_eq!(passed, ["fine-1", "tenantless-2"]);
}

#[tokio::test]
async fn twenty_refusals_open_the_circuit_instead_of_parking_more() {
    let (store, sink, heard) = (MemoryStore::new(8), MemorySink::new(), Arc::new(Heard::default()));
    sink.refuse_when(|_| Some(ErrorKind::Rejected));
    let keys = many_keys(100);
    commit(&store, &keys, 2);
    let relay = builder(&store)
        .sink(Arc::new(sink.clone()))
        .observer(heard.clone())
        .build()
        .unwrap();
    let running = Running::start(&relay);
    until("refused probes", || heard.openings() > 8).await;
    let rows = parked(&store);
    let failed = rows.iter().filter(|row| row.failure.is_some()).count();
    assert_eq!(failed, 19, "the twentieth opens the circuit");
    assert!(rows.iter().all(|row| !row.dead && row.attempts <= 1));
    sink.accept_everything();
    until("an empty outbox", || is_empty(&store)).await;
    running.stop().await;
    assert_exact(&sink, &keys, 2);
}

/// Fault B2.
#[tokio::test]
async fn a_confirm_that_was_lost_sends_the_event_again_marked() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    sink.lose_next_answer();
    commit(&store, &["a"], 5);
    drained(&relay(&store, &sink)).await;
    assert_eq!(sink.messages().len(), 6);
    assert_clean(&sink, &["a"], 5);
}

#[tokio::test]
async fn an_outage_of_the_database_while_parking_repeats_no_charge() {
    let (memory, sink) = (MemoryStore::new(8), MemorySink::new());
    let store = FaultyStore::new(Arc::new(memory.clone()));
    for _ in 0..3 {
        store
            .settles()
            .next(Fault::FailAfterWrite(StoreErrorKind::Unreachable));
    }
    sink.fail_next(ErrorKind::Rejected);
    commit(&memory, &["a"], 2);
    let settings = Settings {
        retry: postrider_core::RetryPolicy {
            base: Duration::from_secs(600),
            max: Duration::from_secs(600),
            ..quick().retry
        },
        ..quick()
    };
    let relay = relay_with(&store, &sink, settings);
    drained(&relay).await;
    let rows = parked(&memory);
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0].attempts, rows[0].failures), (1, 1));
    assert_eq!(
        (rows[1].attempts, rows[1].failures),
        (0, 0),
        "its follower only waits"
    );
}
