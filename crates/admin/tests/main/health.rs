//! What `/health/outbox` and `/stats` say of a relay, from one state to the next.

use std::sync::Arc;
use std::time::Duration;

use postrider_admin::Options;
use postrider_core::{Answer, BoxFuture, Capabilities, ErrorKind, Failure, Message, Sink, StoreErrorKind};
use postrider_memory::MemorySink;
use postrider_testkit::MemoryStore;
use postrider_testkit::faulty::{Fault, FaultyStore};
use tokio_util::sync::CancellationToken;

use crate::support::{event, served, until, watched};

/// Faults B1 and B27: an outage degrades, refused credentials fail, and readiness stays through both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_destination_that_is_away_degrades_and_one_that_refuses_us_fails() {
    let (admin, _serving, address) = served(Options::default());
    let (store, sink) = (MemoryStore::new(4), MemorySink::new());
    let relay = watched(
        &admin,
        Arc::new(store.clone()),
        &store,
        Arc::new(sink.clone()),
        None,
    );
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { relay.run(stop).await }
    });
    let path = "/health/outbox?outbox=orders";
    let answer = until(address, path, |answer| answer.code == 200).await;
    assert_eq!(answer.json()["status"], "healthy");
    assert_eq!(answer.json()["oldestUnpublished"], serde_json::Value::Null);
    assert_eq!(answer.json()["pid"], std::process::id());
    assert_eq!(answer.json()["lagMinutes"], 0.0);

    sink.set_reachable(false);
    store.enqueue(event("one", "Placed")).unwrap();
    let answer = until(address, path, |answer| answer.json()["status"] == "degraded").await;
    assert_eq!(
        (answer.code, &answer.json()["reasons"][0]["reason"]),
        (200, &"circuit_open".into())
    );
    until(address, path, |answer| answer.json()["unpublished"] == 1).await;
    until(address, "/health/ready", |answer| answer.code == 200).await;

    sink.set_reachable(true);
    sink.refuse_when(|_| Some(ErrorKind::Credentials));
    let answer = until(address, path, |answer| answer.code == 503).await;
    assert_eq!(answer.json()["status"], "failing");
    assert_eq!(answer.json()["reasons"][0]["reason"], "auth");
    until(address, "/health/ready", |answer| answer.code == 200).await;
    let stats = until(address, "/stats", |answer| answer.code == 200).await.json();
    let stats = &stats["outboxes"]["orders"];
    assert_eq!(stats["circuits"][0]["open"], true);
    assert_eq!(stats["circuits"][0]["kind"], "credentials");
    assert_eq!(
        (&stats["shards"]["total"], &stats["shards"]["owned"]),
        (&4.into(), &4.into())
    );
    assert_eq!(stats["relays"].as_array().unwrap().len(), 1);

    sink.refuse_when(|_| None);
    let answer = until(address, path, |answer| {
        answer.json()["status"] == "healthy" && answer.json()["published"] == 1
    })
    .await;
    assert_eq!(answer.json()["reasons"].as_array().unwrap().len(), 0);

    sink.refuse_when(|_| Some(ErrorKind::TooLarge));
    store.enqueue(event("dead", "Placed")).unwrap();
    let answer = until(address, path, |answer| answer.json()["failed"] == 1).await;
    assert_eq!(
        (answer.code, &answer.json()["reasons"][0]["reason"]),
        (200, &"dead".into())
    );
    assert_eq!(answer.json()["unpublished"], 0, "the dead are not unpublished");
    assert_eq!(answer.json()["lagMinutes"], 0.0, "nor do they lag");
    stop.cancel();
    running.await.unwrap();
}

/// Faults A9 and A19: no connection is not no work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_away_shows_in_health_and_not_in_readiness() {
    let (admin, _serving, address) = served(Options::default());
    let (memory, sink) = (MemoryStore::new(1), MemorySink::new());
    let store = FaultyStore::new(Arc::new(memory.clone()));
    for call in 1..200 {
        store.reads().on(call, Fault::Reject(StoreErrorKind::Unreachable));
    }
    let relay = watched(&admin, Arc::new(store), &memory, Arc::new(sink), None);
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { relay.run(stop).await }
    });
    let failed = "postrider_database_errors_total{outbox=\"orders\"";
    until(address, "/metrics", move |answer| answer.body.contains(failed)).await;
    until(address, "/health/ready", |answer| answer.code == 200).await;
    until(address, "/health/live", |answer| answer.code == 200).await;
    stop.cancel();
    let _ = tokio::time::timeout(Duration::from_secs(20), running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_outbox_is_named_as_such() {
    let (admin, _serving, address) = served(Options::default());
    let store = MemoryStore::new(1);
    let _relay = watched(
        &admin,
        Arc::new(store.clone()),
        &store,
        Arc::new(MemorySink::new()),
        None,
    );
    for path in ["/health/outbox?outbox=nobody", "/stats?outbox=nobody", "/nowhere"] {
        until(address, path, |answer| answer.code == 404).await;
    }
    let answer = until(address, "/health/outbox", |answer| answer.code == 200).await;
    assert_eq!(answer.json()["outboxes"]["orders"]["status"], "healthy");
}

/// A broker that refused the login before there was an event to send.
struct Refused(MemorySink);

impl Sink for Refused {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn trouble(&self) -> Option<Failure> {
        Some(Failure::new(ErrorKind::Credentials, "ACCESS_REFUSED"))
    }

    fn publish(&self, batch: Arc<[Message]>) -> BoxFuture<'_, Vec<Answer>> {
        self.0.publish(batch)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.close()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_relay_that_is_refused_is_not_healthy() {
    let (admin, _serving, address) = served(Options::default());
    let store = MemoryStore::new(1);
    let sink = Arc::new(Refused(MemorySink::new()));
    let _relay = watched(&admin, Arc::new(store.clone()), &store, sink, None);
    let answer = until(address, "/health/outbox", |answer| answer.code == 503).await;
    let reason = &answer.json()["reasons"][0];
    assert_eq!(reason["reason"], "auth");
    let text = reason["text"].as_str().unwrap();
    assert!(
        text.contains("cannot be connected to (credentials: ACCESS_REFUSED)"),
        "{text}"
    );
}
