//! What people have decided and begun is seen in `/stats` and in the metrics.

use std::sync::Arc;

use postrider_admin::Options;
use postrider_core::{Console, Control, ErrorKind, Filter, JobId, JobKind, JobVerb, NewJob, Scope, Verb};
use postrider_memory::MemorySink;
use postrider_testkit::MemoryStore;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::support::{event, served, until, watched};

/// What an answer says of the one outbox.
fn of(body: &str) -> Value {
    serde_json::from_str::<Value>(body).unwrap()["outboxes"]["orders"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pauses_jobs_and_groups_are_told() {
    let (admin, _serving, address) = served(Options::default());
    let (store, sink) = (MemoryStore::new(4), MemorySink::new());
    sink.refuse_when(|_| Some(ErrorKind::TooLarge));
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
    store.enqueue(event("one", "Placed")).unwrap();
    let stats = until(address, "/stats", |answer| of(&answer.body)["dead"] == 1).await;
    let stats = of(&stats.body);
    assert_eq!(
        (&stats["groups"][0]["error_kind"], &stats["groups"][0]["dead"]),
        (&"too_large".into(), &1.into()),
        "{stats}"
    );
    assert_eq!(stats["controls"], serde_json::json!([]));

    let key = Control::Pause(Scope::Key("ORDER/two".to_owned()));
    store.control(key, "cli:ann".to_owned()).await.unwrap();
    let job = NewJob {
        id: JobId::new(),
        kind: JobKind::Act(Verb::Redrive),
        filter: Filter::default(),
        actor: "cli:ann".to_owned(),
    };
    let job = Console::begin(&store, job).await.unwrap();
    store
        .steer(job.id.clone(), JobVerb::Pause, "cli:ann".to_owned())
        .await
        .unwrap();
    let stats = until(address, "/stats", |answer| {
        of(&answer.body)["jobs"][0]["state"] == "paused"
    })
    .await;
    let stats = of(&stats.body);
    assert_eq!(stats["jobs"][0]["job"], job.id.as_str());
    assert_eq!(
        (&stats["controls"][0]["what"], &stats["controls"][0]["actor"]),
        (&"key".into(), &"cli:ann".into()),
        "{stats}"
    );
    let metrics = until(address, "/metrics", |answer| answer.code == 200).await.body;
    for line in [
        "postrider_paused{outbox=\"orders\",what=\"key\"} 1",
        "postrider_paused{outbox=\"orders\",what=\"outbox\"} 0",
        "postrider_jobs{outbox=\"orders\",state=\"paused\"} 1",
        "postrider_jobs{outbox=\"orders\",state=\"running\"} 0",
    ] {
        assert!(metrics.contains(line), "no {line} in {metrics}");
    }
    stop.cancel();
    running.await.unwrap();
}
