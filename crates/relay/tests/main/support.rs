//! What the tests share.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use postrider_core::{
    Answer, BoxFuture, Capabilities, Condition, DeadLetter, Destination, DestinationName, Doorbell, Envelope,
    Event, Heartbeat, Limits, Message, Page, Read, RetryPolicy, Router, Settle, Settled, Sink, Standing,
    Store, StoreError, header,
};
use postrider_memory::MemorySink;
use postrider_relay::engine::Note;
use postrider_relay::{Observer, Relay, RelayBuilder, Report, Run, Settings};
use postrider_testkit::MemoryStore;
use postrider_testkit::ledger::{self, Arrived, Committed, Ledger};
use postrider_testkit::model::Parked;
pub(crate) use postrider_testkit::wait::{PATIENCE, until};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Short delays everywhere, no jitter, three attempts.
pub(crate) fn quick() -> Settings {
    let retry = RetryPolicy {
        base: Duration::from_millis(10),
        max: Duration::from_millis(40),
        jitter: 0.0,
        max_attempts: 3,
        ..RetryPolicy::default()
    };
    Settings {
        poll_interval: Duration::from_millis(50),
        retry,
        circuit: retry,
        ..Settings::default()
    }
}

/// A relay that is otherwise as short of patience as [`quick`].
pub(crate) fn builder(store: &(impl Store + Clone + 'static)) -> RelayBuilder {
    Relay::builder().store(Arc::new(store.clone())).settings(quick())
}

/// A relay with a store and a sink.
pub(crate) fn relay(store: &(impl Store + Clone + 'static), sink: &(impl Sink + Clone + 'static)) -> Relay {
    builder(store).sink(Arc::new(sink.clone())).build().unwrap()
}

/// The same, with settings of its own.
pub(crate) fn relay_with(
    store: &(impl Store + Clone + 'static),
    sink: &(impl Sink + Clone + 'static),
    settings: Settings,
) -> Relay {
    let builder = builder(store).sink(Arc::new(sink.clone())).settings(settings);
    builder.build().unwrap()
}

/// The `n`-th event of a key. Its id tells both.
pub(crate) fn event(key: &str, n: u64) -> Event {
    Event::builder("Tested")
        .id(format!("{key}-{n}"))
        .aggregate("Test", key)
        .json(format!("{{\"n\":{n}}}"))
        .build()
        .unwrap()
}

/// The names of so many keys.
pub(crate) fn many_keys(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("k{n}")).collect()
}

/// Commits events `1..=each` of every key, in turns.
pub(crate) fn commit(store: &MemoryStore, keys: &[impl AsRef<str>], each: u64) {
    let mut tx = store.begin();
    for n in 1..=each {
        for key in keys {
            tx.insert(event(key.as_ref(), n)).unwrap();
        }
    }
    tx.commit();
}

pub(crate) fn ids(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.event_id.as_str()).collect()
}

/// The ids at a sink that begin with `prefix`, in the order of arrival.
pub(crate) fn arrived(sink: &MemorySink, prefix: &str) -> Vec<String> {
    let messages = sink.messages();
    let all = messages
        .iter()
        .map(|message| message.event_id.as_str().to_owned());
    all.filter(|id| id.starts_with(prefix)).collect()
}

/// The account of events `1..=each` of every key against what arrived at one sink.
pub(crate) fn account(sink: &MemorySink, keys: &[impl AsRef<str>], each: u64) -> ledger::Report {
    let mut ledger = Ledger::new();
    for key in keys {
        for n in 1..=each {
            let event = event(key.as_ref(), n);
            let committed = Committed::new(event.id.as_str(), event.order_key().as_str(), n);
            ledger.commit(&committed).unwrap();
        }
    }
    for message in sink.messages() {
        let (id, key) = (message.event_id.as_str(), message.order_key.as_str());
        ledger.arrive(&Arrived::new(id, key, "sink"));
    }
    ledger.report()
}

/// Everything arrived, once and in order.
pub(crate) fn assert_exact(sink: &MemorySink, keys: &[impl AsRef<str>], each: u64) {
    let report = account(sink, keys, each);
    assert!(report.is_clean() && report.duplicates == 0, "{report}");
}

/// Everything arrived in order, and whatever arrived again says so.
pub(crate) fn assert_clean(sink: &MemorySink, keys: &[impl AsRef<str>], each: u64) {
    let report = account(sink, keys, each);
    assert!(report.is_clean(), "{report}");
    let mut seen = BTreeSet::new();
    for message in sink.messages() {
        let again = !seen.insert(message.event_id.clone());
        let marked = message.header(header::MAYBE_DUPLICATE) == Some("true");
        assert!(!again || marked, "{} came again unmarked", message.event_id);
    }
}

/// Parked rows, copied.
pub(crate) fn parked(store: &MemoryStore) -> Vec<Parked> {
    store.with_model(|model, _| model.parked().cloned().collect())
}

pub(crate) fn dead(store: &MemoryStore) -> Vec<Parked> {
    parked(store).into_iter().filter(|row| row.dead).collect()
}

pub(crate) fn is_empty(store: &MemoryStore) -> bool {
    store.with_model(|model, _| model.is_empty())
}

/// Whether all shards have owners, and two of them.
pub(crate) fn two_owners(store: &MemoryStore) -> bool {
    store.with_model(|model, _| {
        let owners: Vec<_> = model.owners().map(|(_, state)| state.owner.clone()).collect();
        let different: BTreeSet<_> = owners.iter().flatten().collect();
        owners.iter().all(Option::is_some) && different.len() == 2
    })
}

/// Gives a future so long and no longer.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("never ended: {what}"),
    }
}

/// Drains, but not for ever.
pub(crate) async fn drained(relay: &Relay) -> Report {
    within("a drain", relay.drain()).await
}

/// A relay at work.
pub(crate) struct Running {
    pub(crate) token: CancellationToken,
    task: JoinHandle<Report>,
    polls: Arc<AtomicU64>,
}

impl Running {
    pub(crate) fn start(relay: &Relay) -> Self {
        Self::with(relay, CancellationToken::new())
    }

    pub(crate) fn with(relay: &Relay, token: CancellationToken) -> Self {
        let (relay, stop, polls) = (relay.clone(), token.clone(), Arc::new(AtomicU64::new(0)));
        let count = polls.clone();
        let task = tokio::spawn(async move {
            let inner = Box::pin(relay.run(stop));
            Polled { inner, count }.await
        });
        Self { token, task, polls }
    }

    /// How often the relay was woken so far: one that waits for something is not.
    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(Ordering::SeqCst)
    }

    /// How often the relay is woken in this time. The time is what is measured: nothing tells that a relay goes on
    /// resting.
    pub(crate) async fn woken_in(&self, time: Duration) -> u64 {
        let before = self.polls();
        tokio::time::sleep(time).await;
        self.polls() - before
    }

    /// Stops as a service does, and waits for the end.
    pub(crate) async fn stop(self) -> Report {
        self.token.cancel();
        within("a stopped relay", self.task).await.unwrap()
    }

    /// Waits for the end of a relay that was stopped by its token.
    pub(crate) async fn ended(self) -> Report {
        within("a stopped relay", self.task).await.unwrap()
    }

    /// Drops the run in the middle of whatever it does.
    pub(crate) async fn drop_now(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

struct Polled<F> {
    inner: Pin<Box<F>>,
    count: Arc<AtomicU64>,
}

impl<F: Future> Future for Polled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.inner.as_mut().poll(cx)
    }
}

/// An observer that remembers.
#[derive(Default)]
pub(crate) struct Heard(Mutex<Vec<(String, Note)>>);

impl Observer for Heard {
    fn note(&self, run: Run<'_>, note: &Note) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push((run.outbox.to_owned(), note.clone()));
    }
}

impl Heard {
    pub(crate) fn notes(&self) -> Vec<(String, Note)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn count(&self, wanted: impl Fn(&Note) -> bool) -> usize {
        self.notes().iter().filter(|(_, note)| wanted(note)).count()
    }

    pub(crate) fn openings(&self) -> usize {
        self.count(|note| matches!(note, Note::CircuitOpened { .. }))
    }
}

/// A destination with the retry policy of [`quick`]; its broker has its name.
pub(crate) fn destination(name: &str) -> Destination {
    Destination {
        name: DestinationName::new(name),
        broker: name.to_owned(),
        address: Vec::new(),
        message_key: None,
        envelope: Envelope::Flat,
        dead_letter: DeadLetter::Hold,
        retry: quick().retry,
        limits: Limits::default(),
    }
}

/// Everything goes to all of these.
pub(crate) fn all_to(destinations: Vec<Destination>) -> Router {
    let router = Router::builder().route(Condition::default(), destinations);
    router.unwrap().build()
}

/// A relay that sends everything to `left` and to `right`.
pub(crate) fn left_and_right(
    store: &(impl Store + Clone + 'static),
    left: &(impl Sink + Clone + 'static),
    right: &(impl Sink + Clone + 'static),
) -> RelayBuilder {
    builder(store)
        .sink_named("left", Arc::new(left.clone()))
        .sink_named("right", Arc::new(right.clone()))
        .router(all_to(vec![destination("left"), destination("right")]))
}

type Publish = dyn Fn(Arc<[Message]>) -> BoxFuture<'static, Vec<Answer>> + Send + Sync;

/// A sink that does what a closure says.
#[derive(Clone)]
pub(crate) struct FnSink {
    pub(crate) capabilities: Capabilities,
    publish: Arc<Publish>,
}

impl FnSink {
    /// In front of a sink: the closure gets the batch and that sink.
    pub(crate) fn before<F>(
        inner: &MemorySink,
        publish: impl Fn(MemorySink, Arc<[Message]>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Vec<Answer>> + Send + 'static,
    {
        let sink = inner.clone();
        Self {
            capabilities: inner.capabilities(),
            publish: Arc::new(move |batch| Box::pin(publish(sink.clone(), batch))),
        }
    }

    /// A sink that takes its time for every call.
    pub(crate) fn slow(inner: &MemorySink, time: Duration) -> Self {
        Self::before(inner, move |inner, batch| async move {
            // The slowness itself, which is what the tests ask for.
            tokio::time::sleep(time).await;
            inner.publish(batch).await
        })
    }
}

impl Sink for FnSink {
    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn publish(&self, batch: Arc<[Message]>) -> BoxFuture<'_, Vec<Answer>> {
        (self.publish)(batch)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// A store with another doorbell, or none.
#[derive(Clone)]
pub(crate) struct Rewired {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) bell: Option<Arc<dyn Doorbell>>,
}

impl Store for Rewired {
    fn heartbeat(&self, beat: Heartbeat) -> BoxFuture<'_, Result<Standing, StoreError>> {
        self.inner.heartbeat(beat)
    }

    fn read(&self, read: Read) -> BoxFuture<'_, Result<Page, StoreError>> {
        self.inner.read(read)
    }

    fn settle(&self, settle: Arc<Settle>) -> BoxFuture<'_, Result<Vec<Settled>, StoreError>> {
        self.inner.settle(settle)
    }

    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        self.bell.clone()
    }
}
