//! A queue that is full and rejects what is published to it (B5).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lapin::types::AMQPValue;
use postrider_core::{ErrorKind, Event, Sink};
use postrider_rabbitmq::RabbitOptions;
use postrider_relay::engine::Note;
use postrider_relay::{Observer, Relay, Run};
use postrider_testkit::MemoryStore;
use postrider_testkit::servers::rabbitmq;
use postrider_testkit::wait;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::relayed::router;
use crate::support::{Client, confirm_all, kind, numbered, open, publish, queues, to};

/// How many messages the queue takes; a few more pass before it notices.
const ROOM: i32 = 20;
const KEYS: usize = 10;
const EVENTS: usize = 300;

async fn small_queue(client: &Client, queue: &str) {
    let arguments = [
        ("x-max-length", AMQPValue::LongInt(ROOM)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ];
    client.declare_with(queue, &arguments).await;
}

/// What the relay said of its destination.
#[derive(Default)]
struct Heard {
    opened: AtomicUsize,
    kinds: Mutex<BTreeMap<ErrorKind, usize>>,
    dead: AtomicUsize,
}

impl Observer for Heard {
    fn note(&self, _: Run<'_>, note: &Note) {
        match note {
            Note::CircuitOpened { failure, .. } => {
                self.opened.fetch_add(1, Ordering::Relaxed);
                let mut kinds = self.kinds.lock().expect("nobody panics with it");
                *kinds.entry(failure.kind).or_default() += 1;
            }
            Note::Dead { .. } => {
                self.dead.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

struct Running {
    store: MemoryStore,
    heard: Arc<Heard>,
    token: CancellationToken,
    task: JoinHandle<()>,
}

fn run(sink: Arc<dyn Sink>, template: &str) -> Running {
    let (store, heard, token) = (
        MemoryStore::new(4),
        Arc::new(Heard::default()),
        CancellationToken::new(),
    );
    let relay = Relay::builder()
        .store(Arc::new(store.clone()))
        .sink(sink)
        .router(router(template))
        .observer(heard.clone())
        .build()
        .expect("a relay");
    let ends = token.clone();
    let task = tokio::spawn(async move {
        relay.run(ends).await;
    });
    Running {
        store,
        heard,
        token,
        task,
    }
}

impl Running {
    fn left(&self) -> usize {
        self.store
            .with_model(|model, _| model.queued().count() + model.parked().count())
    }

    async fn stop(self) {
        self.token.cancel();
        self.task.await.expect("the relay ends");
    }
}

fn event(aggregate: &str, n: usize) -> Event {
    let event = Event::builder("Counted")
        .id(format!("{aggregate}-{n}"))
        .aggregate(aggregate, (n % KEYS).to_string())
        .json(n.to_string());
    event.build().expect("an event")
}

/// Fault B5. What a full queue rejects is nobody's fault: each message has its own answer, and may be sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_rejects_what_it_has_no_room_for() {
    let vhost = rabbitmq::shared().await;
    let (full, free) = (vhost.named("full"), vhost.named("free"));
    let client = Client::connect(&vhost.url()).await.expect("a client connects");
    small_queue(&client, &full).await;
    let sink = open(RabbitOptions::new(vhost.url()).declare(queues([free.as_str()])));
    let began = Instant::now();
    let mut fill = 0;
    while kind(&publish(&sink, &numbered(&format!("fill{fill}-"), 1, &to("", &full))).await[0]).is_none() {
        fill += 1;
        assert!(
            fill < 200 && began.elapsed() < Duration::from_secs(10),
            "it is not full"
        );
    }
    let mut batch = numbered("m", 20, &to("", &full));
    for message in batch.iter_mut().skip(1).step_by(2) {
        message.address = to("", &free);
    }
    for (message, answer) in batch.iter().zip(publish(&sink, &batch).await) {
        let rejected = message.address == to("", &full);
        let wanted = rejected.then_some(ErrorKind::Nacked);
        assert_eq!(kind(&answer), wanted, "{}: {answer:?}", message.event_id);
    }
    assert_eq!(
        client.take_ids(&free).await.len(),
        10,
        "its neighbours have arrived"
    );
    client.purge(&full).await;
    confirm_all(&sink, &numbered("after", 5, &to("", &full))).await;
    sink.close().await;
}

/// Fault B5. Through the relay: rejected, tried again with pauses, nothing charged and nothing dead; with room,
/// everything arrives in the order of its key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_holds_events_back_until_there_is_room() {
    let vhost = rabbitmq::shared().await;
    let queue = vhost.named("small");
    let client = Client::connect(&vhost.url()).await.expect("a client connects");
    small_queue(&client, &queue).await;
    let running = run(open(RabbitOptions::new(vhost.url())), &queue);
    for n in 0..EVENTS {
        running.store.enqueue(event("KEY", n)).expect("enqueued");
    }
    wait::until("it is full", || running.heard.opened.load(Ordering::Relaxed) > 0).await;
    // How often a full queue is tried in a while is what is looked at.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let opened = running.heard.opened.load(Ordering::Relaxed);
    assert!(opened <= 6, "tried {opened} times in three seconds");
    assert!(running.left() > EVENTS / 2, "most of them wait");

    let mut arrived: Vec<String> = Vec::new();
    wait::within(Duration::from_secs(90), "everything is settled", async || {
        arrived.extend(client.take_ids(&queue).await);
        (running.left() == 0).then_some(())
    })
    .await;
    arrived.extend(client.take_ids(&queue).await);
    let kinds = running.heard.kinds.lock().expect("nobody panics with it").clone();
    assert_eq!(kinds.into_keys().collect::<Vec<_>>(), [ErrorKind::Nacked]);
    assert_eq!(running.heard.dead.load(Ordering::Relaxed), 0);
    running.stop().await;
    let mut firsts: Vec<String> = Vec::new();
    for id in arrived {
        if !firsts.contains(&id) {
            firsts.push(id);
        }
    }
    assert_eq!(firsts.len(), EVENTS);
    let mut last = [None; KEYS];
    for id in &firsts {
        let n: usize = id
            .rsplit('-')
            .next()
            .expect("a number")
            .parse()
            .expect("a number");
        assert!(last[n % KEYS] < Some(n), "{id} came late: {firsts:?}");
        last[n % KEYS] = Some(n);
    }
}
