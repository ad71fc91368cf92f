//! Publishing without an outbox: deprecated, loud, counted.

use std::sync::Arc;

use postrider_core::{Answer, Condition, ErrorKind, Event, Failure, Router, Template};
use postrider_memory::MemorySink;
use postrider_relay::Relay;
use postrider_testkit::MemoryStore;

use crate::logs::Captured;
use crate::support::*;

#[expect(
    deprecated,
    reason = "the warning is what is tested elsewhere; this is what it does"
)]
async fn publish(
    relay: &Relay,
    event: &Event,
) -> Result<Vec<(postrider_core::DestinationName, Answer)>, Failure> {
    relay.publish_direct(event).await
}

#[tokio::test]
async fn every_direct_publish_warns_and_counts() {
    let lines = Captured::begin();
    let (store, sink) = (MemoryStore::new(1), MemorySink::new());
    let relay = relay(&store, &sink);
    for n in 1..=3 {
        let answers = publish(&relay, &event("a", n)).await.unwrap();
        assert!(matches!(&answers[..], [(_, Answer::Confirmed(_))]), "{answers:?}");
        assert_eq!(relay.published_direct(), n);
    }
    sink.set_reachable(false);
    let answers = publish(&relay, &event("a", 4)).await.unwrap();
    assert!(matches!(&answers[..], [(_, Answer::Failed(failure))] if failure.kind == ErrorKind::Unreachable));
    assert_eq!(relay.published_direct(), 4, "a failed one counts too");
    let warnings = lines.matching(|line| line.contains("WARN") && line.contains("without the outbox"));
    assert_eq!(warnings.len(), 4, "{warnings:?}");
    assert!(warnings[1].contains("a-2"), "{}", warnings[1]);
    assert_eq!(ids(&sink.messages()), ["a-1", "a-2", "a-3"]);
    assert!(is_empty(&store), "the outbox is not touched");
}

#[tokio::test]
async fn a_direct_publish_takes_the_routes() {
    let (store, left, right) = (MemoryStore::new(1), MemorySink::new(), MemorySink::new());
    let of_type = |name: &str| Condition {
        event_type: vec![name.to_owned()],
        ..Condition::default()
    };
    let router = Router::builder()
        .route(of_type("Both"), vec![destination("left"), destination("right")])
        .unwrap()
        .route(of_type("Left"), vec![destination("left")])
        .unwrap()
        .route(of_type("None"), Vec::new())
        .unwrap()
        .build();
    let relay = builder(&store)
        .sink_named("left", Arc::new(left.clone()))
        .sink_named("right", Arc::new(right.clone()))
        .router(router)
        .build()
        .unwrap();
    let typed = |name: &str, n| Event {
        event_type: name.to_owned(),
        ..event("a", n)
    };
    let names = |answers: Vec<(postrider_core::DestinationName, Answer)>| {
        answers
            .into_iter()
            .map(|(name, _)| name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(publish(&relay, &typed("Both", 1)).await.unwrap()),
        ["left", "right"]
    );
    assert_eq!(names(publish(&relay, &typed("Left", 2)).await.unwrap()), ["left"]);
    assert!(publish(&relay, &typed("None", 3)).await.unwrap().is_empty());
    let nowhere = publish(&relay, &typed("Unheard", 4)).await.unwrap_err();
    assert_eq!(nowhere.kind, ErrorKind::NoRoute);
    assert_eq!(ids(&left.messages()), ["a-1", "a-2"]);
    assert_eq!(ids(&right.messages()), ["a-1"]);
    assert_eq!(relay.published_direct(), 4);
}

#[tokio::test]
async fn publish_direct_renders_everything_first() {
    let (store, left, right) = (MemoryStore::new(8), MemorySink::new(), MemorySink::new());
    let mut bad = destination("right");
    bad.message_key = Some(Template::parse("{header.none}").unwrap());
    let relay = builder(&store)
        .sink_named("left", Arc::new(left.clone()))
        .sink_named("right", Arc::new(right))
        .router(all_to(vec![destination("left"), bad]))
        .build()
        .unwrap();
    let answers = publish(&relay, &event("a", 1)).await;
    assert!(answers.is_err(), "{answers:?}");
    assert!(left.messages().is_empty(), "nothing leaves unless everything can");
}
