//! Faults that were found once and must not come back.
use crate::support::*;
use postrider_core::*;
use postrider_memory::MemorySink;
use postrider_relay::engine::Note;
use postrider_relay::*;
use postrider_testkit::MemoryStore;
use std::sync::Arc;
use std::time::Duration;

/// Two relays share all the shards.
pub(crate) fn two_owners(store: &MemoryStore, all: usize) -> bool {
    store.with_model(|model, _| {
        let mut owners: Vec<_> = model.owners().filter_map(|(_, s)| s.owner.clone()).collect();
        let n = owners.len();
        owners.sort();
        owners.dedup();
        n == all && owners.len() == 2
    })
}

#[tokio::test]
async fn a_drain_waits_for_what_a_dead_relay_held() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    let lease = Settings {
        lease: Duration::from_millis(1500),
        ..quick()
    };
    let relay = relay_with(&store, &sink, lease);
    let (a, b) = (Running::start(&relay), Running::start(&relay));
    until("two owners", || two_owners(&store, 8)).await;
    a.drop_now().await;
    b.stop().await;
    let keys: Vec<String> = (0..40).map(|n| format!("k{n}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    commit(&store, &keys, 1);
    drained(&relay).await;
    assert_eq!(
        store.with_model(|m, _| m.queued().count()),
        0,
        "queued after a drain"
    );
}

#[tokio::test]
async fn each_run_reports_its_own_work() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    let relay = relay(&store, &sink);
    let (a, b) = (Running::start(&relay), Running::start(&relay));
    until("two owners", || two_owners(&store, 8)).await;
    let keys: Vec<String> = (0..40).map(|n| format!("k{n}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    commit(&store, &keys, 1);
    until("empty", || is_empty(&store)).await;
    let (a, b) = (a.stop().await, b.stop().await);
    assert_eq!(a.published + b.published, 40);
}

/// Fault C7.
#[tokio::test]
async fn an_observer_that_panics_ends_nothing() {
    struct Bad;
    impl Observer for Bad {
        fn note(&self, _: &str, note: &Note) {
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
    #[expect(deprecated)]
    let r = relay.publish_direct(&event("a", 1)).await;
    assert_eq!(r.is_err(), left.messages().is_empty(), "{r:?}");
}

#[test]
fn circuit_settings_are_checked() {
    let mut s = Settings::default();
    s.circuit.base = Duration::ZERO;
    s.circuit.max = Duration::ZERO;
    assert!(s.validate().is_err());
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
        heard.count(|n| matches!(n, Note::LeaseWon { .. })),
        heard.count(|n| matches!(n, Note::LeaseLost { .. }))
    );
}

#[tokio::test]
async fn a_store_error_is_inert_in_the_log() {
    struct S;
    impl Store for S {
        fn heartbeat(&self, _: Heartbeat) -> BoxFuture<'_, std::result::Result<Standing, StoreError>> {
            Box::pin(async { Err(StoreError::new(StoreErrorKind::Other, "x\x1b[31m\ny")) })
        }
        fn read(&self, _: Read) -> BoxFuture<'_, std::result::Result<Page, StoreError>> {
            unreachable!()
        }
        fn settle(&self, _: Arc<Settle>) -> BoxFuture<'_, std::result::Result<Vec<Settled>, StoreError>> {
            unreachable!()
        }
    }
    let lines = crate::logs::Captured::begin();
    let relay = Relay::builder()
        .store(Arc::new(S))
        .sink(Arc::new(MemorySink::new()))
        .settings(quick())
        .build()
        .unwrap();
    let running = Running::start(&relay);
    until("the error is in the log", || {
        !lines.matching(|line| line.contains("31m")).is_empty()
    })
    .await;
    running.drop_now().await;
    let bad = lines.matching(|l| l.contains('\x1b') || l.contains('\n'));
    assert!(bad.is_empty(), "{bad:?}");
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

#[tokio::test]
async fn a_poison_event_alone_in_memory_does_not_stop_the_outbox() {
    let (store, sink, heard) = (MemoryStore::new(8), MemorySink::new(), Arc::new(Heard::default()));
    sink.refuse_when(|m| (m.event_id.as_str() == "poison-1").then_some(ErrorKind::ConnectionLost));
    store.enqueue(event("poison", 1)).unwrap();
    let relay = builder(&store)
        .sink(Arc::new(sink.clone()))
        .observer(heard.clone())
        .build()
        .unwrap();
    let _running = Running::start(&relay);
    until("open", || heard.openings() > 3).await;
    commit(&store, &["a", "b", "c"], 10);
    sink.wait_for(30, Duration::from_secs(5)).await.unwrap();
}

#[tokio::test]
async fn a_poison_event_among_steady_traffic_is_found() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    let bad = FnSink::before(&sink, |inner, batch| async move {
        if batch.iter().any(|m| m.event_id.as_str() == "poison-1") {
            std::future::pending().await
        }
        inner.publish(batch).await
    });
    store.enqueue(event("poison", 1)).unwrap();
    let relay = builder(&store)
        .sink(Arc::new(bad))
        .settings(Settings {
            publish_timeout: Duration::from_millis(60),
            ..quick()
        })
        .build()
        .unwrap();
    let _running = Running::start(&relay);
    let mut n = 0;
    until("poison found", || {
        n += 1;
        store.enqueue(event(&format!("k{n}"), 1)).unwrap();
        parked(&store).iter().any(|row| row.attempts > 0)
    })
    .await;
}

/// Rows that wait for a destination that is away did not end the relays that had them in memory.
#[tokio::test]
async fn relays_that_die_again_and_again_in_an_outage_find_nobody_guilty() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    sink.set_reachable(false);
    let keys: Vec<String> = (0..40).map(|n| format!("k{n}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    commit(&store, &keys, 3);
    let short = Settings {
        lease: Duration::from_millis(400),
        ..quick()
    };
    for _ in 0..10 {
        let heard = Arc::new(Heard::default());
        let relay = builder(&store)
            .settings(short.clone())
            .sink(Arc::new(sink.clone()))
            .observer(heard.clone())
            .build()
            .unwrap();
        let running = Running::start(&relay);
        until("it has tried a few times", || heard.openings() > 3).await;
        running.drop_now().await;
    }
    sink.set_reachable(true);
    let running = Running::start(&relay(&store, &sink));
    until("an empty outbox", || is_empty(&store)).await;
    running.stop().await;
    assert_clean(&sink, &keys, 3);
}
