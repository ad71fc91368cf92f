//! A scripted fault happens at its call, and at no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider_core::{
    Address, Answer, BoxFuture, Capabilities, ErrorKind, Event, Heartbeat, Message, Read, Receipt, RelayId,
    Settle, Sink, Store, StoreErrorKind,
};

use super::{Fault, FaultySink, FaultyStore, Gate};
use crate::MemoryStore;

#[derive(Default)]
struct Counting(AtomicUsize);

impl Sink for Counting {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn publish(&self, batch: Arc<[Message]>) -> BoxFuture<'_, Vec<Answer>> {
        self.0.fetch_add(batch.len(), Ordering::SeqCst);
        Box::pin(async move {
            batch
                .iter()
                .map(|_| Answer::Confirmed(Receipt::default()))
                .collect()
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

fn batch() -> Arc<[Message]> {
    Arc::new([Message {
        event_id: "e".into(),
        order_key: "k".into(),
        message_key: "k".into(),
        address: Address::default(),
        content_type: "application/json".into(),
        headers: Vec::new(),
        body: "{}".into(),
    }])
}

fn failure(answers: &[Answer]) -> (ErrorKind, bool) {
    match answers {
        [Answer::Failed(failure)] => (failure.kind, failure.maybe_sent),
        other => panic!("not one failure: {other:?}"),
    }
}

#[tokio::test]
async fn a_refused_publish_does_nothing_and_a_lost_answer_does_everything() {
    let inner = Arc::new(Counting::default());
    let sink = FaultySink::new(inner.clone());
    sink.publishes().on(1, Fault::Reject(ErrorKind::Throttled));
    sink.publishes()
        .on(2, Fault::FailAfterWrite(ErrorKind::ConnectionLost));
    assert_eq!(
        failure(&sink.publish(batch()).await),
        (ErrorKind::Throttled, false)
    );
    assert_eq!(inner.0.load(Ordering::SeqCst), 0);
    assert_eq!(
        failure(&sink.publish(batch()).await),
        (ErrorKind::ConnectionLost, true)
    );
    assert_eq!(inner.0.load(Ordering::SeqCst), 1, "it did happen");
    assert!(matches!(sink.publish(batch()).await[..], [Answer::Confirmed(_)]));
    let passed = sink.passed();
    assert_eq!(
        passed.iter().map(|p| p.answered.is_some()).collect::<Vec<_>>(),
        [false, true, true]
    );
    assert!(passed.iter().all(|p| p.told.is_some()));
}

#[tokio::test]
async fn a_held_call_waits_for_its_gate() {
    let inner = Arc::new(Counting::default());
    let sink = FaultySink::new(inner.clone());
    let (before, after) = (Gate::new(), Gate::new());
    sink.publishes().next(Fault::Hold(before.clone()));
    sink.publishes().next(Fault::HoldAnswer(after.clone()));
    let [first, second] =
        [sink.clone(), sink.clone()].map(|sink| tokio::spawn(async move { sink.publish(batch()).await }));
    before.reached(1).await;
    after.reached(1).await;
    assert_eq!(
        inner.0.load(Ordering::SeqCst),
        1,
        "one is not begun, the other done but not answered"
    );
    assert!(!first.is_finished() && !second.is_finished());
    before.open();
    after.open();
    assert!(matches!(first.await.unwrap()[..], [Answer::Confirmed(_)]));
    assert!(matches!(second.await.unwrap()[..], [Answer::Confirmed(_)]));
}

#[tokio::test(start_paused = true)]
async fn a_slow_call_takes_its_time() {
    let sink = FaultySink::new(Arc::new(Counting::default()));
    sink.publishes().from(1, Fault::Slow(Duration::from_secs(5)));
    let begun = tokio::time::Instant::now();
    sink.publish(batch()).await;
    sink.publish(batch()).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(10));
    sink.publishes().clear();
    sink.publish(batch()).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(10));
    assert_eq!(sink.publishes().calls(), 3);
}

#[tokio::test]
async fn a_store_may_commit_what_it_reports_as_failed() {
    let memory = MemoryStore::new(1);
    memory
        .enqueue(
            Event::builder("Tested")
                .aggregate("T", 1)
                .json("{}")
                .build()
                .unwrap(),
        )
        .unwrap();
    let store = FaultyStore::new(Arc::new(memory.clone()));
    store
        .heartbeats()
        .on(1, Fault::FailAfterWrite(StoreErrorKind::Unreachable));
    let beat = Heartbeat {
        relay: RelayId("r".into()),
        term: Duration::from_secs(10),
        held: Vec::new(),
        release: Vec::new(),
        claim: true,
        window: 1,
        suspects: Vec::new(),
    };
    let lost = store.heartbeat(beat).await.unwrap_err();
    assert_eq!(lost.kind(), StoreErrorKind::Unreachable);
    assert!(memory.with_model(|model, _| model.owners().all(|(_, state)| state.owner.is_some())));
    store.settles().next(Fault::Reject(StoreErrorKind::Busy));
    assert!(store.settle(Arc::new(Settle::default())).await.is_err());
    assert!(store.settled().is_empty());
    assert!(store.settle(Arc::new(Settle::default())).await.is_ok());
    assert_eq!(store.settled().len(), 1);
    assert!(store.read(Read::default()).await.is_ok());
}
