//! What operators do while a relay runs.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Condition, Console, ErrorKind, Failure, Leaves, Message, Park, Router, Settle, SettleQueued, Settled,
    header,
};
use postrider_memory::MemorySink;
use postrider_testkit::model::{Fate, Model};
use postrider_testkit::{MemoryStore, by_hand};

use crate::desk::{Desk, enqueue};
use crate::support::*;

#[tokio::test]
async fn a_redriven_event_goes_out_and_its_followers_behind_it() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    let mut small = FnSink::before(&sink, |inner, batch| async move {
        postrider_core::Sink::publish(&inner, batch).await
    });
    small.capabilities.max_message_bytes = Some(1);
    commit(&store, &["a"], 3);
    drained(&relay(&store, &small)).await;
    assert_eq!((dead(&store).len(), sink.messages().len()), (1, 0));
    // The limit was raised, and a person says so.
    let running = Running::start(&relay(&store, &sink));
    let touched = store.with_model(|model, now| model.redrive(now, |row| row.dead));
    assert_eq!(touched.len(), 1);
    until("an empty outbox", || is_empty(&store)).await;
    running.stop().await;
    assert_exact(&sink, &["a"], 3);
}

#[tokio::test]
async fn an_event_without_a_route_is_routed_anew_when_it_is_redriven() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    let none = Condition {
        event_type: vec!["Unheard".to_owned()],
        ..Condition::default()
    };
    let nowhere = Router::builder().route(none, vec![destination("one")]).unwrap();
    let relay = |router| {
        let builder = builder(&store).sink_named("one", Arc::new(sink.clone()));
        builder.router(router).build().unwrap()
    };
    commit(&store, &["a"], 3);
    let report = drained(&relay(nowhere.build())).await;
    assert_eq!((report.dead, report.published), (3, 0));
    store.with_model(|model, now| model.redrive(now, |_| true));
    let running = Running::start(&relay(all_to(vec![destination("one")])));
    until("an empty outbox", || is_empty(&store)).await;
    running.stop().await;
    assert_exact(&sink, &["a"], 3);
}

#[tokio::test]
async fn a_removed_destination_leaves_its_rows_dead_until_they_are_redriven() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    sink.refuse_when(|_| Some(ErrorKind::AddressNotFound));
    let relay = |name: &str| {
        let builder = builder(&store).sink_named(name, Arc::new(sink.clone()));
        builder.router(all_to(vec![destination(name)])).build().unwrap()
    };
    commit(&store, &["a"], 2);
    let running = Running::start(&relay("old"));
    until("parked rows", || parked(&store).len() == 2).await;
    running.stop().await;
    sink.accept_everything();
    let running = Running::start(&relay("new"));
    until("a dead head", || {
        dead(&store)
            .first()
            .is_some_and(|row| row.failure.as_ref().unwrap().kind == ErrorKind::RouteGone)
    })
    .await;
    until("all of them", || {
        store.with_model(|model, now| model.redrive(now, |row| row.dead));
        is_empty(&store)
    })
    .await;
    running.stop().await;
    assert_exact(&sink, &["a"], 2);
}

/// What has arrived at the destination that stays does not go there again, after its followers.
#[tokio::test]
async fn what_is_routed_anew_goes_only_where_it_has_not_been() {
    let (store, kept, other) = (MemoryStore::new(8), MemorySink::new(), MemorySink::new());
    other.refuse_when(|_| Some(ErrorKind::AddressNotFound));
    let relay = |name: &str| {
        let builder = builder(&store).sink_named("kept", Arc::new(kept.clone()));
        let builder = builder.sink_named(name, Arc::new(other.clone()));
        let router = all_to(vec![destination("kept"), destination(name)]);
        builder.router(router).build().unwrap()
    };
    commit(&store, &["a"], 3);
    let running = Running::start(&relay("old"));
    until("parked rows", || parked(&store).len() == 3).await;
    running.stop().await;
    other.accept_everything();
    let running = Running::start(&relay("new"));
    until("all of them", || {
        store.with_model(|model, now| model.redrive(now, |row| row.dead));
        is_empty(&store)
    })
    .await;
    running.stop().await;
    assert_exact(&kept, &["a"], 3);
    assert_exact(&other, &["a"], 3);
    // For longer than the history is asked, nobody knows where they have been.
    let marked = |message: &&Message| message.header(header::MAYBE_DUPLICATE).is_some();
    assert_eq!(other.messages().iter().filter(marked).count(), 3);
}

/// Two of its three destinations are gone. The model panics at a settle that routes both rows anew, or one beside the
/// start of the row that stays: a store cannot write a row twice.
#[test]
fn an_event_is_routed_anew_from_one_destination_at_a_time() {
    let (mut model, mut now) = (Model::new(1), Duration::ZERO);
    enqueue(&mut model, now, "k");
    let row = model.queued().next().unwrap().clone();
    let standing = model.heartbeat(now, &by_hand::heartbeat("before"));
    let refused = |name: &str| Park::dead(Some(name.into()), Failure::new(ErrorKind::Rejected, "no"));
    let parked = SettleQueued {
        shard: row.shard,
        seq: row.seq,
        event_id: row.event_id().clone(),
        key: row.key.clone(),
        leaves: Leaves::Decided {
            sent: Vec::new(),
            parked: ["d", "x", "y"].map(refused).to_vec(),
        },
    };
    let settle = Settle {
        fence: standing.leases.iter().map(|one| (one.shard, one.token)).collect(),
        queued: vec![parked],
        parked: Vec::new(),
    };
    assert_eq!(model.settle(now, &settle), [Settled::Done]);
    // The lease of the one before has ended.
    now += Duration::from_secs(120);
    assert_eq!(model.redrive(now, |_| true).len(), 3);
    let mut desk = Desk::open("one");
    for _ in 0..10 {
        now += Duration::from_millis(100);
        desk.tick(&mut model, now);
        for (call, _) in desk.publishing() {
            desk.confirm(now, call);
        }
    }
    assert_eq!((model.parked().count(), model.history().count()), (0, 1));
}

/// Routed like an event, a copy would go to destinations that its replay never named, and out of its order there.
#[tokio::test]
async fn a_copy_whose_destination_is_gone_goes_nowhere_else() {
    let (store, kept, other) = (MemoryStore::new(8), MemorySink::new(), MemorySink::new());
    let relay = |name: &str| {
        let builder = builder(&store).sink_named("kept", Arc::new(kept.clone()));
        let builder = builder.sink_named(name, Arc::new(other.clone()));
        let router = all_to(vec![destination("kept"), destination(name)]);
        builder.router(router).build().unwrap()
    };
    commit(&store, &["a"], 1);
    drained(&relay("old")).await;
    let job = Console::begin(&store, by_hand::replay_all()).await.unwrap();
    assert_eq!(store.step(job.id, 10).await.unwrap().job.touched, 2);
    let running = Running::start(&relay("new"));
    for said in ["no longer in the configuration", "a copy goes nowhere else"] {
        until(said, || {
            let dead = dead(&store);
            dead.iter()
                .any(|row| row.failure.as_ref().unwrap().text.contains(said))
        })
        .await;
        store.with_model(|model, now| model.redrive(now, |row| row.dead));
    }
    until("it is dead again", || dead(&store).len() == 1).await;
    running.stop().await;
    assert_eq!((kept.messages().len(), other.messages().len()), (2, 1));
}

#[tokio::test]
async fn a_discarded_event_lets_its_key_flow() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    let mut small = FnSink::before(&sink, |inner, batch| async move {
        postrider_core::Sink::publish(&inner, batch).await
    });
    small.capabilities.max_message_bytes = Some(2_000);
    let mut large = event("a", 1);
    large.payload = postrider_core::Payload::Text(format!("\"{}\"", "x".repeat(3_000)));
    store.enqueue(large).unwrap();
    let running = Running::start(&relay(&store, &small));
    until("a dead event", || dead(&store).len() == 1).await;
    for n in 2..=4 {
        store.enqueue(event("a", n)).unwrap();
    }
    store.enqueue(event("b", 1)).unwrap();
    until("another key", || arrived(&sink, "b").len() == 1).await;
    until("its followers to wait", || parked(&store).len() == 4).await;
    store.with_model(|model, now| model.discard(now, "not wanted", |row| row.dead));
    until("an empty outbox", || is_empty(&store)).await;
    running.stop().await;
    assert_eq!(arrived(&sink, "a"), ["a-2", "a-3", "a-4"]);
    store.with_model(|model, _| {
        let discarded = |fate: &Fate| matches!(fate, Fate::Discarded(reason) if reason == "not wanted");
        assert_eq!(
            model.history().filter(|record| discarded(&record.fate)).count(),
            1
        );
    });
}
