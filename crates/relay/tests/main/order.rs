//! Order, lanes, time and limits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use postrider_core::{Event, Limits, Sink};
use postrider_memory::MemorySink;
use postrider_relay::Settings;
use postrider_testkit::MemoryStore;
use postrider_testkit::faulty::FaultyStore;
use tokio::time::Instant;

use crate::bench::bench;
use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_is_kept_per_key_while_many_write_and_two_relays_share() {
    let (store, sink) = (MemoryStore::new(16), MemorySink::new());
    let relay = relay(&store, &sink);
    let running = [Running::start(&relay), Running::start(&relay)];
    let keys: Vec<String> = (0..8).map(|n| format!("k{n}")).collect();
    let writers = keys.iter().cloned().map(|key| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 1..=250 {
                store.enqueue(event(&key, n)).unwrap();
                if n % 10 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    sink.wait_for(2_000, PATIENCE).await.unwrap();
    for running in running {
        running.stop().await;
    }
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    assert_exact(&sink, &keys, 250);
}

/// Fault G11.
#[tokio::test]
async fn a_hot_key_stays_in_order_and_leaves_room_for_others() {
    let (store, sink) = (MemoryStore::new(64), MemorySink::new());
    commit(&store, &["hot"], 3_000);
    commit(&store, &["cold"], 1);
    let slow = FnSink::slow(&sink, Duration::from_millis(1));
    drained(&relay(&store, &slow)).await;
    let in_order: Vec<String> = (1..=3_000).map(|n| format!("hot-{n}")).collect();
    assert_eq!(arrived(&sink, "hot"), in_order);
    let messages = sink.messages();
    let cold = ids(&messages).iter().position(|id| *id == "cold-1").unwrap();
    assert!(cold < 500, "the last to be committed was number {cold} to arrive");
}

/// Fault B29.
#[tokio::test]
async fn a_sink_that_may_reorder_gets_one_event_of_a_key_at_a_time() {
    let (store, sink) = (MemoryStore::new(4), MemorySink::new());
    commit(&store, &["a", "b", "c"], 60);
    let under_way = Arc::new(Mutex::new(Vec::<String>::new()));
    let mut unordered = FnSink::before(&sink, move |inner, batch| {
        let under_way = under_way.clone();
        async move {
            for message in batch.iter() {
                let key = message.order_key.as_str().to_owned();
                let mut keys = under_way.lock().unwrap();
                assert!(!keys.contains(&key), "two of {key} at a time");
                keys.push(key);
            }
            tokio::task::yield_now().await;
            let answers = inner.publish(batch.clone()).await;
            let mut keys = under_way.lock().unwrap();
            keys.retain(|key| !batch.iter().any(|message| message.order_key.as_str() == key));
            answers
        }
    });
    unordered.capabilities.ordered_batches = false;
    drained(&relay(&store, &unordered)).await;
    assert_exact(&sink, &["a", "b", "c"], 60);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_high_event_overtakes_a_backlog_and_a_low_one_does_not_starve() {
    let (store, sink) = (MemoryStore::new(4), MemorySink::new());
    let keys = many_keys(50);
    commit(&store, &keys, 60);
    let with_priority = |id: &str, priority: i32| {
        let event = Event::builder("Tested").id(id).aggregate("Test", id);
        event.json("{}").priority(priority).build().unwrap()
    };
    store.enqueue(with_priority("low", -1)).unwrap();
    let mut slow = FnSink::slow(&sink, Duration::from_millis(2));
    slow.capabilities.concurrent_batches = 1;
    let settings = Settings {
        batch_size: 10,
        ..quick()
    };
    let relay = relay_with(&store, &slow, settings);
    let running = Running::start(&relay);
    sink.wait_for(200, PATIENCE).await.unwrap();
    store.enqueue(with_priority("high", 1)).unwrap();
    let before = sink.messages().len();
    sink.wait_for(3_002, PATIENCE).await.unwrap();
    running.stop().await;
    let messages = sink.messages();
    let place = |id: &str| ids(&messages).iter().position(|known| *known == id).unwrap();
    assert!(place("high") < before + 1_000, "{} after {before}", place("high"));
    assert!(place("low") < 2_000, "{}", place("low"));
}

/// Whatever a call carries, and while high events pass the pace that is kept for their sake.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn low_events_leave_by_their_weight_beside_high_ones_without_end() {
    for (batch_size, concurrent_batches, time) in [(1, 1, 0), (10, 8, 30)] {
        let (store, sink) = (MemoryStore::new(4), MemorySink::new());
        let (high, low) = (3_000, 300);
        for (lane, priority, count) in [("high", 1, high), ("low", -1, low)] {
            for n in 0..count {
                let event = Event::builder("Tested").id(format!("{lane}-{n}"));
                let event = event.aggregate("Test", format!("{lane}-{n}"));
                let event = event.json("{}").priority(priority).build().unwrap();
                store.enqueue(event).unwrap();
            }
        }
        let mut slow = FnSink::slow(&sink, Duration::from_millis(time));
        slow.capabilities.concurrent_batches = concurrent_batches;
        let settings = Settings {
            batch_size,
            ..quick()
        };
        drained(&relay_with(&store, &slow, settings)).await;
        let messages = sink.messages();
        let order = ids(&messages);
        let last_high = order.iter().rposition(|id| id.starts_with("high")).unwrap();
        let beside = order[..last_high]
            .iter()
            .filter(|id| id.starts_with("low"))
            .count();
        // One in five is due to them; there is one in eleven of them.
        assert!(
            beside * 10 >= low * 9,
            "{beside} of {low} with {batch_size} in a call"
        );
    }
}

#[tokio::test]
async fn a_scheduled_event_leaves_at_its_time_and_makes_nobody_wait() {
    let (store, sink) = (MemoryStore::new(4), MemorySink::new());
    // Within a second would count as now; the rest is for a busy machine.
    let due = SystemTime::now() + Duration::from_secs(3);
    let mut later = event("a", 1);
    later.available_at = Some(due.into());
    store.enqueue(later).unwrap();
    store.enqueue(event("a", 2)).unwrap();
    let running = Running::start(&relay(&store, &sink));
    sink.wait_for(1, PATIENCE).await.unwrap();
    assert!(SystemTime::now() < due, "its follower goes before it");
    let begun = Instant::now();
    sink.wait_for(2, PATIENCE).await.unwrap();
    assert!(SystemTime::now() >= due - Duration::from_millis(5));
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "it left by itself, soon after its time"
    );
    running.stop().await;
    assert_eq!(arrived(&sink, "a"), ["a-2", "a-1"]);
    assert!(is_empty(&store));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_are_in_flight_than_the_destination_allows() {
    at_most_seven_are_in_flight(&MemoryStore::new(16)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_limits_the_rate_leaves_the_other_limit_alone() {
    let store = MemoryStore::new(16);
    let quick = Limits {
        max_rate: Some(1_000_000),
        ..Limits::default()
    };
    store.with_model(|model, _| model.limit("limited".into(), Some(quick)));
    at_most_seven_are_in_flight(&store).await;
}

/// As the destination is configured.
async fn at_most_seven_are_in_flight(store: &MemoryStore) {
    let sink = MemorySink::new();
    let keys = many_keys(40);
    commit(store, &keys, 5);
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counting = FnSink::before(&sink, {
        let (now, most) = (now.clone(), most.clone());
        move |inner, batch| {
            let (now, most) = (now.clone(), most.clone());
            async move {
                let count = now.fetch_add(batch.len(), Ordering::SeqCst) + batch.len();
                most.fetch_max(count, Ordering::SeqCst);
                // A broker takes its time: without that, no two calls would ever be under way together.
                tokio::time::sleep(Duration::from_millis(1)).await;
                now.fetch_sub(batch.len(), Ordering::SeqCst);
                inner.publish(batch).await
            }
        }
    });
    let mut limited = destination("limited");
    limited.limits.max_in_flight = Some(7);
    let relay = builder(store)
        .sink_named("limited", Arc::new(counting))
        .router(all_to(vec![limited]));
    drained(&relay.build().unwrap()).await;
    assert_exact(&sink, &keys, 5);
    assert!(most.load(Ordering::SeqCst) <= 7, "{most:?}");
}

#[tokio::test]
async fn no_more_leave_in_a_second_than_the_destination_allows() {
    let (store, sink) = (MemoryStore::new(4), MemorySink::new());
    commit(&store, &["a", "b"], 40);
    let mut limited = destination("limited");
    limited.limits.max_rate = Some(100);
    let relay = builder(&store)
        .sink_named("limited", Arc::new(sink.clone()))
        .router(all_to(vec![limited]));
    let begun = Instant::now();
    drained(&relay.build().unwrap()).await;
    // A tenth of a second's worth may be saved up: 70 events are left for the rate to hold back.
    assert!(
        begun.elapsed() >= Duration::from_millis(690),
        "{:?}",
        begun.elapsed()
    );
    assert_exact(&sink, &["a", "b"], 40);
}

/// Fault C15.
#[tokio::test]
async fn limits_and_pauses_change_while_the_relay_runs() {
    let (store, sink) = (MemoryStore::new(4), MemorySink::new());
    let faulty = FaultyStore::new(Arc::new(store.clone()));
    let name = postrider_core::DestinationName::new("default");
    let settings = Settings {
        lease: Duration::from_millis(300),
        ..quick()
    };
    let relay = relay_with(&faulty, &sink, settings);
    store.with_model(|model, _| model.pause(Some(&name), true));
    let running = Running::start(&relay);
    commit(&store, &["a"], 30);
    until("reads and renewals", || {
        faulty.reads().calls() > 1 && faulty.heartbeats().calls() > 2
    })
    .await;
    assert_eq!(sink.messages().len(), 0);
    store.with_model(|model, _| {
        let slow = Limits {
            max_rate: Some(50),
            ..Limits::default()
        };
        model.limit(name.clone(), Some(slow));
        model.pause(Some(&name), false);
    });
    let begun = Instant::now();
    sink.wait_for(30, PATIENCE).await.unwrap();
    assert!(
        begun.elapsed() >= Duration::from_millis(450),
        "{:?}",
        begun.elapsed()
    );
    running.stop().await;
    assert_exact(&sink, &["a"], 30);
}

/// Fault A6.
#[tokio::test]
async fn a_transaction_that_stays_open_holds_its_own_place_only() {
    let bench = bench(1);
    let running = Running::start(&bench.relay);
    let mut open = bench.memory.begin();
    open.insert(event("a", 1)).unwrap();
    bench.memory.enqueue(event("b", 1)).unwrap();
    bench.sink.wait_for(1, PATIENCE).await.unwrap();
    let mut rolled_back = bench.memory.begin();
    rolled_back.insert(event("c", 1)).unwrap();
    rolled_back.rollback();
    open.commit();
    bench.sink.wait_for(2, PATIENCE).await.unwrap();
    until("an empty outbox", || is_empty(&bench.memory)).await;
    running.stop().await;
    assert_eq!(ids(&bench.sink.messages()), ["b-1", "a-1"]);
}
