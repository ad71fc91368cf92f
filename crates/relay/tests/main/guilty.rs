//! An event that harms the call which carries it is found, and nobody else is blamed.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Answer, ErrorKind, Sink};
use postrider_memory::MemorySink;
use postrider_relay::Settings;
use postrider_testkit::MemoryStore;

use crate::answers::flowing;
use crate::support::*;

/// A sink in which one event does something terrible to the call that carries it.
fn poisoned(sink: &MemorySink, harm: impl Fn() -> Harm + Send + Sync + 'static) -> FnSink {
    FnSink::before(sink, move |inner, batch| {
        let poison = batch
            .iter()
            .any(|message| message.event_id.as_str() == "poison-1");
        let harm = harm();
        async move {
            match harm {
                _ if !poison => inner.publish(batch).await,
                Harm::Silence => std::future::pending().await,
                Harm::Panic => panic!("what the sink does with this event"),
                Harm::Loss => {
                    vec![Answer::failed(ErrorKind::ConnectionLost, "the channel is closed"); batch.len()]
                }
            }
        }
    })
}

#[derive(Clone, Copy)]
enum Harm {
    Silence,
    Panic,
    Loss,
}

/// The event is found and dead, while everything else arrives in order. One call of one event at a time, so that what
/// is lost is always alone.
async fn found_guilty(harm: Harm) {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    let keys = ["a", "b", "c"];
    commit(&store, &keys, 10);
    store.enqueue(event("poison", 1)).unwrap();
    let mut bad = poisoned(&sink, move || harm);
    bad.capabilities.concurrent_batches = 1;
    let settings = Settings {
        batch_size: 1,
        publish_timeout: Duration::from_millis(60),
        retry: postrider_core::RetryPolicy {
            max_attempts: 2,
            ..quick().retry
        },
        ..quick()
    };
    let relay = relay_with(&store, &bad, settings);
    let running = Running::start(&relay);
    flowing(&store, || !dead(&store).is_empty()).await;
    until("everything else", || parked(&store).len() == 1).await;
    assert_eq!(dead(&store)[0].row.event_id().as_str(), "poison-1");
    assert!(dead(&store)[0].attempts == 2);
    until("an empty queue", || {
        store.with_model(|model, _| model.queued().count() == 0)
    })
    .await;
    running.stop().await;
    for key in keys {
        let mut first = arrived(&sink, &format!("{key}-"));
        let mut seen = std::collections::BTreeSet::new();
        first.retain(|id| seen.insert(id.clone()));
        let expected: Vec<String> = (1..=10).map(|n| format!("{key}-{n}")).collect();
        assert_eq!(first, expected);
    }
}

#[tokio::test]
async fn an_event_that_always_times_out_is_found_while_others_flow() {
    found_guilty(Harm::Silence).await;
}

/// Fault B10.
#[tokio::test]
async fn an_event_that_always_breaks_the_connection_is_found_while_others_flow() {
    found_guilty(Harm::Loss).await;
}

/// Fault C7.
#[tokio::test]
async fn an_event_that_makes_the_sink_panic_is_found_while_others_flow() {
    found_guilty(Harm::Panic).await;
}

#[tokio::test]
async fn an_event_alone_with_an_outage_is_not_found_guilty() {
    let (store, sink, heard) = (MemoryStore::new(8), MemorySink::new(), Arc::new(Heard::default()));
    store.enqueue(event("poison", 1)).unwrap();
    let relay = builder(&store)
        .sink(Arc::new(poisoned(&sink, || Harm::Loss)))
        .observer(heard.clone())
        .build()
        .unwrap();
    let running = Running::start(&relay);
    until("many losses", || heard.openings() > 8).await;
    assert!(
        parked(&store).is_empty(),
        "nothing passed between: nobody is to blame"
    );
    running.stop().await;
}

#[tokio::test]
async fn a_poison_event_alone_in_memory_does_not_stop_the_outbox() {
    let (store, sink, heard) = (MemoryStore::new(8), MemorySink::new(), Arc::new(Heard::default()));
    sink.refuse_when(|message| {
        (message.event_id.as_str() == "poison-1").then_some(ErrorKind::ConnectionLost)
    });
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
    let keys = many_keys(40);
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
