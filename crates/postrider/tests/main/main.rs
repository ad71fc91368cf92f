//! The parts together, as a service uses them.

use std::path::Path;
use std::sync::Arc;

use postrider::file::{FileOptions, FileSink};
use postrider::memory::MemorySink;
use postrider::sqlite::{Outbox, SqliteOptions, SqliteStore};
use postrider::{
    Condition, Console, DeadLetter, Destination, Envelope, ErrorKind, Event, Limits, Relay, RetryPolicy,
    Router, Schema, Template,
};

async fn store(path: &Path) -> SqliteStore {
    let store = SqliteStore::open(path, SqliteOptions::default()).expect("the database can be opened");
    store.up().await.expect("the tables can be made");
    store
}

fn enqueue(path: &Path, events: &[Event]) {
    let mut connection = rusqlite::Connection::open(path).expect("the database can be opened");
    let tx = connection.transaction().expect("a transaction begins");
    Outbox::default()
        .enqueue_all(&tx, events)
        .expect("the events are enqueued");
    tx.commit().expect("the transaction commits");
}

fn event(aggregate_type: &str, n: usize) -> Event {
    let builder = Event::builder("Numbered").aggregate(aggregate_type, 1);
    builder
        .json(format!("{{ \"n\": {n} }}"))
        .build()
        .expect("the event is valid")
}

fn to(broker: &str, path: &str) -> Destination {
    Destination {
        name: broker.into(),
        broker: broker.to_owned(),
        address: vec![(
            "path".to_owned(),
            Template::parse(path).expect("the template is valid"),
        )],
        message_key: None,
        envelope: Envelope::Raw,
        dead_letter: DeadLetter::Hold,
        retry: RetryPolicy::default(),
        limits: Limits::default(),
    }
}

#[tokio::test]
async fn events_are_routed_into_files_by_their_type() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("shop.db");
    let store = store(&database).await;
    let events: Vec<Event> = (0..200).map(|n| event(["ORDER", "CUSTOMER"][n % 2], n)).collect();
    enqueue(&database, &events);

    let router = Router::builder()
        .route(
            Condition::default(),
            vec![to("files", "{aggregate_type|lower}.jsonl")],
        )
        .unwrap()
        .build();
    let sink = FileSink::open(directory.path().join("other.jsonl"), FileOptions::default()).unwrap();
    let relay = Relay::builder()
        .store(Arc::new(store))
        .sink_named("files", Arc::new(sink))
        .router(router)
        .build()
        .unwrap();
    assert_eq!(relay.drain().await.published, 200);

    for (file, first) in [("order.jsonl", 0), ("customer.jsonl", 1)] {
        let text = std::fs::read_to_string(directory.path().join(file)).unwrap();
        let bodies: Vec<&str> = text
            .lines()
            .map(|line| line.split_once("\"body\":").unwrap().1)
            .collect();
        let expected: Vec<String> = (first..200)
            .step_by(2)
            .map(|n| format!("{{ \"n\": {n} }}}}"))
            .collect();
        assert_eq!(bodies, expected, "in order and byte for byte");
    }
}

#[tokio::test]
async fn a_path_that_leads_out_parks_its_event_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("shop.db");
    let store = store(&database).await;
    enqueue(
        &database,
        &[event("../ORDER", 1), event("../ORDER", 2), event("CUSTOMER", 3)],
    );
    let router = Router::all_to(to("files", "{aggregate_type}.jsonl"));
    let sink = FileSink::open(directory.path().join("other.jsonl"), FileOptions::default()).unwrap();
    let relay = Relay::builder()
        .store(Arc::new(store.clone()))
        .sink_named("files", Arc::new(sink))
        .router(router)
        .build()
        .unwrap();
    let report = relay.drain().await;
    assert_eq!((report.published, report.dead), (1, 1));
    assert!(!directory.path().parent().unwrap().join("ORDER.jsonl").exists());
    let groups = store.groups().await.unwrap();
    let refused = groups
        .iter()
        .find(|group| group.error_kind == ErrorKind::NotEncodable.as_str());
    assert!(refused.is_some_and(|group| group.count == 1), "{groups:?}");
}

/// Fault B2.
#[tokio::test]
async fn a_lost_answer_is_published_twice_and_never_lost() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("shop.db");
    let store = store(&database).await;
    enqueue(&database, &[event("ORDER", 1), event("ORDER", 2)]);
    let sink = MemorySink::new();
    sink.lose_next_answer();
    let relay = Relay::builder()
        .store(Arc::new(store))
        .sink(Arc::new(sink.clone()))
        .build()
        .unwrap();
    let token = postrider::CancellationToken::new();
    let running = tokio::spawn({
        let (relay, token) = (relay.clone(), token.clone());
        async move { relay.run(token).await }
    });
    let messages = sink
        .wait_for(3, std::time::Duration::from_secs(20))
        .await
        .unwrap();
    token.cancel();
    running.await.unwrap();
    let bodies: Vec<String> = messages
        .iter()
        .map(|message| String::from_utf8_lossy(&message.body).into_owned())
        .collect();
    assert!(
        bodies[0].contains("\"n\": 1") && bodies[1].contains("\"n\": 1") && bodies[2].contains("\"n\": 2")
    );
    assert_eq!(messages[1].header("postrider-maybe-duplicate"), Some("true"));
}
