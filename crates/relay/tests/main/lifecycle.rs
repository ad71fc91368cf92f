//! Events that need time or a person: the start of an attempt, replays, paused keys.

use std::sync::{Arc, Mutex};

use postrider_core::{
    Answer, Console, Control, ErrorKind, Filter, JobId, JobKind, JobState, NewJob, Replay, Scope, Sink,
    header,
};
use postrider_memory::MemorySink;
use postrider_testkit::MemoryStore;
use postrider_testkit::wait::{eventually, until};

use crate::support::{
    FnSink, Running, all_to, arrived, assert_exact, builder, commit, destination, drained, event, ids,
    is_empty, parked, relay,
};

/// Whoever finds the row after a crash must know that it may have been sent.
#[tokio::test]
async fn a_parked_row_says_that_it_may_have_been_sent_before_it_leaves() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    let seen: Arc<Mutex<Vec<Vec<bool>>>> = Arc::default();
    let looks = {
        let (store, seen) = (store.clone(), seen.clone());
        FnSink::before(&sink, move |inner, batch| {
            let (store, seen) = (store.clone(), seen.clone());
            async move {
                let says = parked(&store).iter().map(|row| row.maybe_sent).collect();
                let attempt = {
                    let mut seen = seen.lock().unwrap();
                    seen.push(says);
                    seen.len()
                };
                match attempt {
                    1 | 2 => vec![Answer::failed(ErrorKind::AddressNotFound, "no queue"); batch.len()],
                    _ => inner.publish(batch).await,
                }
            }
        })
    };
    commit(&store, &["a"], 1);
    let running = Running::start(&relay(&store, &looks));
    until("an empty outbox", || is_empty(&store)).await;
    running.stop().await;
    let seen = seen.lock().unwrap().clone();
    assert_eq!(
        seen,
        [vec![], vec![true], vec![true]],
        "queued, then parked twice"
    );
    let message = sink.messages().remove(0);
    let marked = message.header(header::MAYBE_DUPLICATE);
    assert_eq!(marked, None, "refusals said that it was not sent");
}

#[tokio::test]
async fn a_replay_sends_copies_that_say_so_in_order() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    commit(&store, &["a", "b"], 20);
    drained(&relay(&store, &sink)).await;
    assert_exact(&sink, &["a", "b"], 20);
    let job = NewJob {
        id: JobId::new(),
        kind: JobKind::Replay(Replay::default()),
        filter: Filter {
            key: vec!["Test/a".to_owned()],
            ..Filter::default()
        },
        actor: "test".to_owned(),
    };
    let job = Console::begin(&store, job).await.unwrap();
    let running = Running::start(&relay(&store, &sink));
    store.enqueue(event("a", 21)).unwrap();
    eventually("the replay is done", async || {
        let step = Console::step(&store, job.id.clone(), 7).await.unwrap();
        (step.job.state == JobState::Done).then_some(())
    })
    .await;
    until("an empty outbox", || is_empty(&store)).await;
    running.stop().await;
    let (copies, others): (Vec<_>, Vec<_>) = sink
        .messages()
        .into_iter()
        .partition(|message| message.header(header::REPLAY) == Some(job.id.as_str()));
    let wanted: Vec<_> = (1..=20).map(|n| format!("a-{n}")).collect();
    assert_eq!(ids(&copies), wanted, "in their own order");
    assert_eq!(others.len(), 41, "the live ones and nothing else");
    assert!(
        others
            .iter()
            .all(|message| message.header(header::REPLAY).is_none())
    );
}

#[tokio::test]
async fn a_paused_key_stands_still_and_no_other() {
    let (store, sink) = (MemoryStore::new(8), MemorySink::new());
    let key = || Scope::Key("Test/a".to_owned());
    store
        .control(Control::Pause(key()), "test".to_owned())
        .await
        .unwrap();
    let relay = builder(&store)
        .sink_named("one", Arc::new(sink.clone()))
        .router(all_to(vec![destination("one")]))
        .build()
        .unwrap();
    let running = Running::start(&relay);
    commit(&store, &["a", "b"], 10);
    until("the other key", || arrived(&sink, "b").len() == 10).await;
    until("what is paused is parked", || parked(&store).len() == 10).await;
    assert!(arrived(&sink, "a").is_empty());
    store
        .control(Control::Resume(key()), "test".to_owned())
        .await
        .unwrap();
    until("an empty outbox", || is_empty(&store)).await;
    running.stop().await;
    assert_exact(&sink, &["a", "b"], 10);
}
