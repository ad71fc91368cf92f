//! What a relay tells its observers, and counts.

use std::sync::Arc;

use postrider_core::{Condition, ErrorKind, EventId, Router};
use postrider_memory::MemorySink;
use postrider_relay::engine::Note;
use postrider_relay::{Observer, Run};
use postrider_testkit::MemoryStore;

use crate::support::*;

#[tokio::test]
async fn an_observer_hears_what_happens_with_the_name_of_the_outbox() {
    let (store, sink, heard) = (MemoryStore::new(2), MemorySink::new(), Arc::new(Heard::default()));
    commit(&store, &["a"], 2);
    sink.fail_next(ErrorKind::Rejected);
    let relay = builder(&store)
        .name("orders")
        .sink(Arc::new(sink.clone()))
        .observer(heard.clone())
        .build()
        .unwrap();
    let running = Running::start(&relay);
    until("an empty outbox", || is_empty(&store)).await;
    running.stop().await;
    assert!(heard.notes().iter().all(|(outbox, _)| outbox == "orders"));
    assert_eq!(heard.count(|note| matches!(note, Note::LeaseWon { .. })), 2);
    let is_first = |id: &EventId| id.as_str() == "a-1";
    let retry =
        |note: &Note| matches!(note, Note::WillRetry { event_id, attempts: 1, .. } if is_first(event_id));
    assert_eq!(heard.count(retry), 1);
    let published: Vec<String> = heard
        .notes()
        .into_iter()
        .filter_map(|(_, note)| match note {
            Note::Published { events, .. } => Some(events),
            _ => None,
        })
        .flatten()
        .map(|event| format!("{} {}", event.event_id, event.event_type))
        .collect();
    assert_eq!(published, ["a-1 Tested", "a-2 Tested"]);
}

/// Fault C7.
#[tokio::test]
async fn an_observer_that_panics_ends_nothing() {
    struct Bad;
    impl Observer for Bad {
        fn note(&self, _: Run<'_>, note: &Note) {
            if matches!(note, Note::Published { .. }) {
                panic!("a user's hook")
            }
        }
    }
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    commit(&store, &["a"], 3);
    let relay = builder(&store)
        .sink(Arc::new(sink.clone()))
        .observer(Arc::new(Bad))
        .build()
        .unwrap();
    let running = Running::start(&relay);
    until("empty", || is_empty(&store)).await;
    running.stop().await;
}

#[tokio::test]
async fn released_leases_are_noted() {
    let (store, sink, heard) = (MemoryStore::new(8), MemorySink::new(), Arc::new(Heard::default()));
    let relay = builder(&store)
        .sink(Arc::new(sink.clone()))
        .observer(heard.clone())
        .build()
        .unwrap();
    drained(&relay).await;
    assert_eq!(
        heard.count(|note| matches!(note, Note::LeaseWon { .. })),
        heard.count(|note| matches!(note, Note::LeaseLost { .. }))
    );
}

#[tokio::test]
async fn rows_parked_without_a_destination_are_counted() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    let none = Condition {
        event_type: vec!["No".into()],
        ..Condition::default()
    };
    let router = Router::builder()
        .route(none, vec![destination("one")])
        .unwrap()
        .build();
    commit(&store, &["a"], 3);
    let relay = builder(&store)
        .sink_named("one", Arc::new(sink))
        .router(router)
        .build()
        .unwrap();
    let report = drained(&relay).await;
    assert_eq!((report.dead, report.parked), (3, 3));
}
