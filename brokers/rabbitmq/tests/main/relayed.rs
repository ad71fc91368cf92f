//! The order of every key, through the relay, with the broker killed on the way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Condition, DeadLetter, Destination, DestinationName, Envelope, Event, Limits, RetryPolicy, Router, Sink,
    Source, Template, Verdict,
};
use postrider_rabbitmq::{RabbitOptions, RabbitSource};
use postrider_relay::Relay;
use postrider_testkit::MemoryStore;
use postrider_testkit::servers::rabbitmq;
use postrider_testkit::wait::within;
use tokio_util::sync::CancellationToken;

use crate::support::{confirm_all, message, open, queues, queues_are_on_disk, to};

const KEYS: usize = 50;
const EVENTS: usize = 3_000;

/// One route to a queue, or to the queue that a template names.
pub(crate) fn router(queue: &str) -> Router {
    let destination = Destination {
        name: DestinationName::new("rabbit"),
        broker: "default".to_owned(),
        address: vec![(
            "routing_key".to_owned(),
            Template::parse(queue).expect("a template"),
        )],
        message_key: None,
        envelope: Envelope::Raw,
        dead_letter: DeadLetter::Hold,
        retry: RetryPolicy::default(),
        limits: Limits::default(),
    };
    let router = Router::builder().route(Condition::default(), vec![destination]);
    router.expect("a route").build()
}

/// Faults B3, B12 and B29.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_order_of_every_key_survives_a_kill() {
    let vhost = rabbitmq::alone().await;
    let queue = "relayed";
    let options = RabbitOptions::new(vhost.url()).declare(queues([queue]));
    let sink = open(options.clone());
    confirm_all(&sink, &[message("warm", &to("", queue))]).await;
    queues_are_on_disk().await;

    let store = MemoryStore::new(4);
    let relay = Relay::builder()
        .store(Arc::new(store.clone()))
        .sink(sink.clone() as Arc<dyn Sink>)
        .router(router(queue))
        .build()
        .expect("a relay");
    let token = CancellationToken::new();
    let ends = token.clone();
    let running = tokio::spawn(async move { relay.run(ends).await });
    for n in 0..EVENTS {
        let event = Event::builder("Counted")
            .aggregate("KEY", (n % KEYS).to_string())
            .json(n.to_string());
        store
            .enqueue(event.build().expect("an event"))
            .expect("it can be enqueued");
        if n == EVENTS / 3 {
            tokio::task::block_in_place(|| {
                vhost.kill().expect("the server can be killed");
                vhost.start().expect("the server can be started");
            });
        }
    }
    within(Duration::from_secs(40), "an empty outbox", async || {
        store.with_model(|model, _| model.is_empty()).then_some(())
    })
    .await;
    token.cancel();
    running.await.expect("the relay ends");

    let source = RabbitSource::new(options, queue).expect("a source");
    let mut firsts: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut seen = 0;
    while seen < EVENTS {
        let received = tokio::time::timeout(Duration::from_secs(20), source.receive(500)).await;
        let received = received
            .expect("the rest arrives")
            .expect("the queue can be read");
        for incoming in &received {
            let Ok(n) = String::from_utf8_lossy(&incoming.message.body).parse::<usize>() else {
                continue;
            };
            let of_key = firsts.entry(incoming.message.message_key.clone()).or_default();
            if !of_key.contains(&n) {
                of_key.push(n);
                seen += 1;
            }
        }
        let done = received.iter().map(|it| (it.tag, Verdict::Done)).collect();
        source.settle(done).await.expect("verdicts are taken");
    }
    source.close().await;
    sink.close().await;
    assert_eq!(firsts.len(), KEYS);
    for (key, order) in firsts {
        assert!(order.is_sorted(), "the order of {key}: {order:?}");
    }
}
