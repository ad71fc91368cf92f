//! Putting a relay together.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::RetryPolicy;
use postrider_memory::MemorySink;
use postrider_relay::{BuildError, Relay, Settings};
use postrider_testkit::MemoryStore;
use tokio_util::sync::CancellationToken;

use crate::support::*;

#[tokio::test]
async fn a_store_and_a_sink_are_enough() {
    let (store, sink) = (MemoryStore::new(4), MemorySink::new());
    commit(&store, &["a"], 3);
    let relay = Relay::builder()
        .store(Arc::new(store.clone()))
        .sink(Arc::new(sink.clone()))
        .build()
        .unwrap();
    assert_eq!(drained(&relay).await.published, 3);
    assert_exact(&sink, &["a"], 3);
}

#[test]
fn what_is_missing_is_named() {
    let store = || Relay::builder().store(Arc::new(MemoryStore::new(1)));
    let sink = || Arc::new(MemorySink::new());
    let error = Relay::builder().sink(sink()).build().unwrap_err();
    assert_eq!(error, BuildError::NoStore);
    assert_eq!(store().build().unwrap_err(), BuildError::NoSink);
    let two = store().sink_named("a", sink()).sink_named("b", sink());
    assert_eq!(two.build().unwrap_err(), BuildError::NoRouter);
    let unknown = store()
        .sink_named("a", sink())
        .router(all_to(vec![destination("b")]));
    let error = unknown.build().unwrap_err();
    let expected = BuildError::UnknownBroker {
        destination: "b".to_owned(),
        broker: "b".to_owned(),
    };
    assert_eq!(error, expected);
    assert!(error.to_string().contains(r#"sink_named("b", …)"#), "{error}");
}

#[test]
fn a_setting_out_of_bounds_is_named() {
    let fails = |field: &str, settings: Settings| {
        let store = Arc::new(MemoryStore::new(1));
        let builder = Relay::builder()
            .store(store)
            .sink(Arc::new(MemorySink::new()))
            .settings(settings);
        match builder.build() {
            Err(BuildError::Settings(error)) => {
                assert_eq!(error.field, field);
                assert!(error.to_string().starts_with(field), "{error}");
            }
            other => panic!("{field}: {other:?}"),
        }
    };
    let retry = |change: fn(&mut RetryPolicy)| {
        let mut settings = Settings::default();
        change(&mut settings.retry);
        settings
    };
    let base = Settings::default;
    #[rustfmt::skip]
    let all = [
        ("poll_interval", Settings { poll_interval: Duration::ZERO, ..base() }),
        ("lease", Settings { lease: Duration::from_millis(99), ..base() }),
        ("lease", Settings { lease: Duration::from_secs(61), ..base() }),
        ("publish_timeout", Settings { publish_timeout: Duration::ZERO, ..base() }),
        ("batch_size", Settings { batch_size: 0, ..base() }),
        ("window", Settings { window: 0, ..base() }),
        ("window_bytes", Settings { window_bytes: 0, ..base() }),
        ("retry.base", retry(|retry| retry.base = Duration::ZERO)),
        ("retry.max", retry(|retry| retry.max = Duration::from_millis(1))),
        ("retry.max_attempts", retry(|retry| retry.max_attempts = 0)),
        ("retry.jitter", retry(|retry| retry.jitter = 1.5)),
        ("retry.jitter", retry(|retry| retry.jitter = f64::NAN)),
        ("retry.multiplier", retry(|retry| retry.multiplier = 0.5)),
    ];
    for (field, settings) in all {
        fails(field, settings);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_relays_share_the_work_and_all_return_after_one_cancel() {
    let (store, sink) = (MemoryStore::new(64), MemorySink::new());
    let keys = many_keys(100);
    let relay = relay(&store, &sink);
    let token = CancellationToken::new();
    let running = [(); 3].map(|()| Running::with(&relay, token.clone()));
    // Everyone has shards before there is work, so that it is really shared.
    until("three owners", || {
        store.with_model(|model, _| {
            let mut owners: Vec<_> = model
                .owners()
                .filter_map(|(_, state)| state.owner.clone())
                .collect();
            let all = owners.len() == 64;
            owners.sort();
            owners.dedup();
            all && owners.len() == 3
        })
    })
    .await;
    commit(&store, &keys, 50);
    sink.wait_for(5_000, PATIENCE).await.unwrap();
    until("an empty outbox", || is_empty(&store)).await;
    token.cancel();
    for running in running {
        running.ended().await;
    }
    assert_eq!(relay.report().published, 5_000);
    assert_exact(&sink, &keys, 50);
    store.with_model(|model, _| assert!(model.owners().all(|(_, state)| state.owner.is_none())));
}

/// Fault C14. Most of them have nothing to do, and nothing is published twice because they are many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_relays_on_64_shards_get_in_nobodys_way() {
    let (store, sink) = (MemoryStore::new(64), MemorySink::new());
    let keys = many_keys(100);
    let relay = relay(&store, &sink);
    let token = CancellationToken::new();
    let running: Vec<_> = (0..100).map(|_| Running::with(&relay, token.clone())).collect();
    // A fair share is one shard: more than sixty relays have work, and the others stand by.
    until("many owners", || {
        store.with_model(|model, _| {
            let owners = model.owners().filter_map(|(_, state)| state.owner.clone());
            owners.collect::<BTreeSet<_>>().len() > 60
        })
    })
    .await;
    commit(&store, &keys, 10);
    sink.wait_for(1_000, PATIENCE).await.unwrap();
    until("an empty outbox", || is_empty(&store)).await;
    token.cancel();
    for running in running {
        running.ended().await;
    }
    assert_eq!(relay.report().published, 1_000);
    assert_exact(&sink, &keys, 10);
}

#[test]
fn circuit_settings_are_checked() {
    let mut settings = Settings::default();
    settings.circuit.base = Duration::ZERO;
    settings.circuit.max = Duration::ZERO;
    assert!(settings.validate().is_err());
}
