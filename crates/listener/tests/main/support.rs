//! A queue, a database, a place for dead letters, and a listener between them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_core::{
    Address, Answer, BoxFuture, Envelope, Event, HandlerError, Incoming, Message, Received, RetryPolicy,
    Sink, Source, SourceError, SourceErrorKind, Verdict, encode,
};
use postrider_listener::{DeadLetters, Health, Listener, ListenerBuilder, Note, Observer, Report};
use postrider_memory::{MemorySink, MemorySource};
use postrider_testkit::effects::{MemoryEffects, MemoryHandler, Work};
use postrider_testkit::wait::until;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) type Builder = ListenerBuilder<MemoryEffects>;

/// Soon enough that no test waits for it.
pub(crate) const SOON: RetryPolicy = RetryPolicy {
    base: Duration::from_millis(1),
    multiplier: 1.0,
    max: Duration::from_millis(5),
    jitter: 0.0,
    max_attempts: 3,
};

#[derive(Default)]
pub(crate) struct Stage {
    pub(crate) queue: MemorySink,
    pub(crate) dead: MemorySink,
    pub(crate) effects: MemoryEffects,
    pub(crate) notes: Arc<Notes>,
}

/// A listener that runs.
pub(crate) struct Play {
    pub(crate) listener: Listener<MemoryEffects>,
    token: CancellationToken,
    running: JoinHandle<Report>,
}

impl Stage {
    /// A queue that forgets what is acknowledged, so that what is left in it can be seen.
    pub(crate) fn new() -> Self {
        Self {
            queue: MemorySink::queue(10_000),
            ..Self::default()
        }
    }

    pub(crate) async fn put(&self, messages: impl IntoIterator<Item = Message>) {
        let messages: Arc<[Message]> = messages.into_iter().collect();
        let answers = self.queue.publish(messages).await;
        assert!(
            answers
                .iter()
                .all(|answer| matches!(answer, Answer::Confirmed(_)))
        );
    }

    pub(crate) fn play(&self, handler: Arc<MemoryHandler>) -> Play {
        self.play_with(handler, |builder| builder)
    }

    pub(crate) fn play_with(
        &self,
        handler: Arc<MemoryHandler>,
        change: impl FnOnce(Builder) -> Builder,
    ) -> Play {
        self.play_on(Arc::new(self.queue.source()), handler, change)
    }

    pub(crate) fn play_on(
        &self,
        source: Arc<dyn Source>,
        handler: Arc<MemoryHandler>,
        change: impl FnOnce(Builder) -> Builder,
    ) -> Play {
        let builder = Listener::builder(source, self.effects.clone())
            .consumer("test")
            .handler(handler)
            .retry(SOON)
            .observer(Arc::clone(&self.notes) as Arc<dyn Observer>)
            .dead_letters(DeadLetters::to(Arc::new(self.dead.clone()), dead_address()));
        let listener = change(builder).build().expect("everything is given");
        let token = CancellationToken::new();
        let running = tokio::spawn({
            let (listener, token) = (listener.clone(), token.clone());
            async move { listener.run(token).await }
        });
        Play {
            listener,
            token,
            running,
        }
    }

    /// Waits until this many effects are there.
    pub(crate) async fn rows(&self, count: usize) -> Vec<String> {
        until(&format!("{count} rows"), || self.effects.rows().len() >= count).await;
        self.effects.rows()
    }

    /// Waits until nothing is left in the queue: everything is acknowledged.
    pub(crate) async fn empty(&self) {
        until("the queue is empty", || self.queue.messages().is_empty()).await;
    }

    /// Waits for dead letters: id, cause and reason.
    pub(crate) async fn letters(&self, count: usize) -> Vec<(String, String, String)> {
        until(&format!("{count} letters"), || {
            self.dead.messages().len() >= count
        })
        .await;
        let text = |message: &Message, name| message.header(name).unwrap_or_default().to_owned();
        let letter = |message: &Message| {
            (
                message.event_id.to_string(),
                text(message, "postrider-dead-cause"),
                text(message, "postrider-dead-reason"),
            )
        };
        self.dead.messages().iter().map(letter).collect()
    }
}

impl Play {
    /// Stops it and waits for its end.
    pub(crate) async fn stop(self) -> Report {
        self.token.cancel();
        self.running.await.expect("a listener does not panic")
    }

    /// Ends it as a crash would: nothing is finished and nothing acknowledged.
    pub(crate) async fn kill(self) {
        self.running.abort();
        let _ = self.running.await;
    }

    pub(crate) async fn health(&self, what: &str, holds: impl Fn(&Health) -> bool) {
        until(what, || holds(&self.listener.health())).await;
    }
}

/// A source whose connection is lost on request: what it held comes again, and its tags are void.
pub(crate) struct Cut {
    queue: Mutex<MemorySink>,
    inner: Mutex<Arc<MemorySource>>,
    lost: Notify,
}

impl Cut {
    pub(crate) fn new(queue: &MemorySink) -> Self {
        Self {
            queue: Mutex::new(queue.clone()),
            inner: Mutex::new(Arc::new(queue.source())),
            lost: Notify::new(),
        }
    }

    pub(crate) fn cut(&self) {
        self.lost.notify_one();
    }

    /// The same; what was held goes to somebody else, and what comes from now on is in this queue.
    pub(crate) fn cut_over_to(&self, queue: &MemorySink) {
        *self.queue.lock().unwrap() = queue.clone();
        self.cut();
    }

    fn inner(&self) -> Arc<MemorySource> {
        Arc::clone(&self.inner.lock().unwrap())
    }
}

impl Source for Cut {
    fn receive(&self, max: usize) -> BoxFuture<'_, Result<Vec<Incoming>, SourceError>> {
        Box::pin(async move {
            let inner = self.inner();
            tokio::select! {
                biased;
                () = self.lost.notified() => {
                    inner.close().await;
                    *self.inner.lock().unwrap() = Arc::new(self.queue.lock().unwrap().source());
                    Err(SourceError { kind: SourceErrorKind::Unreachable, text: "cut".into() })
                }
                received = inner.receive(max) => received,
            }
        })
    }

    fn settle(&self, verdicts: Vec<(u64, Verdict)>) -> BoxFuture<'_, Result<(), SourceError>> {
        Box::pin(async move { self.inner().settle(verdicts).await })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.inner().close().await })
    }
}

/// What was noted, as text.
#[derive(Default)]
pub(crate) struct Notes(Mutex<Vec<String>>);

impl Notes {
    pub(crate) fn count(&self, beginning: &str) -> usize {
        let notes = self.0.lock().unwrap();
        notes.iter().filter(|note| note.starts_with(beginning)).count()
    }
}

impl Observer for Notes {
    fn note(&self, consumer: &str, note: &Note) {
        assert_eq!(consumer, "test");
        self.0.lock().unwrap().push(format!("{note:?}"));
    }
}

pub(crate) fn dead_address() -> Address {
    Address(vec![("queue".to_owned(), "dead".to_owned())])
}

/// An event of a key.
pub(crate) fn message(id: &str, key: &str) -> Message {
    message_with(id, key, "{}")
}

pub(crate) fn message_with(id: &str, key: &str, payload: &str) -> Message {
    let event = Event::builder("Tested")
        .id(id)
        .key(key)
        .json(payload)
        .build()
        .unwrap();
    let order_key = event.order_key();
    encode(
        Envelope::Flat,
        &event,
        &order_key,
        Address::default(),
        key.to_owned(),
    )
    .unwrap()
}

/// A handler that writes the event's id, once `check` lets it pass.
pub(crate) fn writes(
    check: impl Fn(&Received) -> Result<(), HandlerError> + Send + Sync + 'static,
) -> Arc<MemoryHandler> {
    let check = Arc::new(check);
    Arc::new(move |event: Received, work: Work| {
        let check = Arc::clone(&check);
        Box::pin(async move {
            work.write(event.event_id());
            check(&event)
        }) as BoxFuture<'static, _>
    })
}

/// A handler that waits until the gate is open.
pub(crate) fn gated(gate: tokio::sync::watch::Receiver<bool>) -> Arc<MemoryHandler> {
    Arc::new(move |event: Received, work: Work| {
        let mut gate = gate.clone();
        Box::pin(async move {
            let _ = gate.wait_for(|open| *open).await;
            work.write(event.event_id());
            Ok(())
        }) as BoxFuture<'static, _>
    })
}
