//! Deliveries, and a relay that carries them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use postrider_core::{Address, Answer, Failure, Message, OrderKey, RetryPolicy, Router, Sink};
use postrider_notify::deliver::{EmailOptions, EmailSink, Security, route};
use postrider_notify::{Channel, Dispatch};
use postrider_relay::engine::Note;
use postrider_relay::{Observer, Relay, Report, Run, Settings};
use postrider_testkit::MemoryStore;
use postrider_testkit::servers::smtp::{Door, Smtp};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The sender of all mail.
pub(crate) const FROM: &str = "Shop <noreply@shop.example>";

pub(crate) fn dispatch(id: i64, channel: Channel, to: &str) -> Dispatch {
    Dispatch {
        notification_id: id,
        user_id: format!("user-of-{to}"),
        name: "Ann".to_owned(),
        channel,
        to: to.to_owned(),
        title: format!("Title {id}"),
        body: format!("Text {id}"),
        html: None,
        category: "orders".to_owned(),
        event_id: format!("e-{id}"),
        event_type: "OrderPlaced".to_owned(),
    }
}

/// A delivery as a relay hands it to a sink.
pub(crate) fn message(dispatch: &Dispatch) -> Message {
    let id = Dispatch::id_of(dispatch.notification_id, dispatch.channel);
    Message {
        event_id: id.as_str().into(),
        order_key: OrderKey::new(id.as_str()),
        message_key: id,
        address: Address(vec![("recipient".to_owned(), dispatch.user_id.clone())]),
        content_type: "application/json".to_owned(),
        headers: Vec::new(),
        body: Bytes::from(serde_json::to_vec(dispatch).unwrap()),
    }
}

/// Publishes deliveries in one batch.
pub(crate) async fn publish(sink: &dyn Sink, dispatches: &[Dispatch]) -> Vec<Answer> {
    let batch: Vec<Message> = dispatches.iter().map(message).collect();
    let answers = sink.publish(batch.into()).await;
    assert_eq!(answers.len(), dispatches.len());
    answers
}

/// Publishes one delivery that fails.
pub(crate) async fn failure(sink: &dyn Sink, dispatch: Dispatch) -> Failure {
    match publish(sink, &[dispatch]).await.remove(0) {
        Answer::Failed(failure) => failure,
        Answer::Confirmed(receipt) => panic!("it was taken: {receipt:?}"),
    }
}

pub(crate) fn is_confirmed(answer: &Answer) -> bool {
    matches!(answer, Answer::Confirmed(_))
}

/// A mail server of one test. It starts on a thread that may wait.
pub(crate) async fn mail_server(door: Door) -> Arc<Smtp> {
    let started = tokio::task::spawn_blocking(move || Smtp::start(door))
        .await
        .unwrap();
    Arc::new(started.unwrap_or_else(|error| panic!("the mail server cannot be started: {error}")))
}

/// Does something that waits with a mail server.
pub(crate) async fn with<T: Send + 'static>(
    server: &Arc<Smtp>,
    act: impl FnOnce(&Smtp) -> std::io::Result<T> + Send + 'static,
) -> T {
    let server = Arc::clone(server);
    tokio::task::spawn_blocking(move || act(&server))
        .await
        .unwrap()
        .unwrap()
}

/// The options for a server without a login, in the clear.
pub(crate) fn plain(port: u16) -> EmailOptions {
    EmailOptions::new("127.0.0.1", FROM)
        .port(port)
        .security(Security::None)
}

pub(crate) fn email(options: EmailOptions) -> EmailSink {
    EmailSink::new(options).unwrap()
}

/// Retries that do not make a test wait.
pub(crate) const FAST: RetryPolicy = RetryPolicy {
    base: Duration::from_millis(50),
    multiplier: 1.5,
    max: Duration::from_millis(500),
    jitter: 0.1,
    max_attempts: 5,
};

/// Counts what is told about the circuit.
#[derive(Default)]
pub(crate) struct Heard {
    openings: AtomicUsize,
}

impl Heard {
    pub(crate) fn openings(&self) -> usize {
        self.openings.load(Ordering::SeqCst)
    }
}

impl Observer for Heard {
    fn note(&self, _: Run<'_>, note: &Note) {
        if matches!(note, Note::CircuitOpened { .. }) {
            self.openings.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A relay at work on an outbox of deliveries.
pub(crate) struct Carried {
    pub(crate) store: MemoryStore,
    pub(crate) heard: Arc<Heard>,
    stop: CancellationToken,
    running: JoinHandle<Report>,
}

impl Carried {
    pub(crate) fn by(channel: Channel, sink: Arc<dyn Sink>) -> Carried {
        let (store, heard) = (MemoryStore::new(4), Arc::new(Heard::default()));
        let router = route(Router::builder(), channel, FAST).unwrap();
        let relay = Relay::builder()
            .store(Arc::new(store.clone()))
            .sink_named(channel.as_str(), sink)
            .router(router.build())
            .observer(heard.clone())
            .settings(Settings {
                poll_interval: Duration::from_millis(50),
                ..Settings::default()
            })
            .build()
            .unwrap();
        let stop = CancellationToken::new();
        let token = stop.clone();
        let running = tokio::spawn(async move { relay.run(token).await });
        Carried {
            store,
            heard,
            stop,
            running,
        }
    }

    pub(crate) fn enqueue(&self, dispatch: &Dispatch) {
        let event = dispatch.event().unwrap().unwrap();
        self.store.enqueue(event).unwrap();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.store
            .with_model(|model, _| model.queued().next().is_none() && model.parked().next().is_none())
    }

    pub(crate) async fn stop(self) -> Report {
        self.stop.cancel();
        self.running.await.unwrap()
    }
}
