//! Putting a listener together.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider_core::{Effects, Envelope, RetryPolicy, Source};
use tokio_util::sync::CancellationToken;

use crate::keep::Keep;
use crate::letter::DeadLetters;
use crate::note::{self, Counts};
use crate::shift::Shift;
use crate::{Health, Note, Observer, Report};

/// Applies the messages of one queue, each once.
///
/// It needs a source, effects, the name of the consumer, a handler and a place for dead letters; everything else has a
/// default. Cheap to clone. Several listeners, in one process or in many, may share a queue: each event takes effect
/// once. Whether the order of a key survives that is up to the broker; RabbitMQ needs a single active consumer.
pub struct Listener<E: Effects> {
    pub(crate) inner: Arc<Inner<E>>,
}

pub(crate) struct Inner<E: Effects> {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) effects: Arc<E>,
    pub(crate) consumer: Arc<str>,
    pub(crate) handler: Arc<E::Handler>,
    pub(crate) dead_letters: DeadLetters,
    pub(crate) settings: Settings,
    keep: Option<Keep>,
    observers: Vec<Arc<dyn Observer>>,
    counts: Counts,
    health: Mutex<Health>,
}

/// What has a default.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) concurrency: usize,
    pub(crate) prefetch: usize,
    pub(crate) batch: usize,
    pub(crate) order: Order,
    pub(crate) retry: RetryPolicy,
    pub(crate) redelivery_limit: u32,
    pub(crate) replays: Replays,
    pub(crate) envelope: Envelope,
    pub(crate) drain: Duration,
}

/// Which events wait for each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Those of one key, in the order in which the broker delivers them: one that fails holds back its followers.
    #[default]
    PerKey,
    /// None.
    None,
}

/// What becomes of an event that is delivered again because somebody replayed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replays {
    /// It is a duplicate like any other.
    #[default]
    Ignore,
    /// It takes effect again, once a replay.
    Apply,
}

/// A listener cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No consumer was named.
    #[error("name the consumer with `consumer`: the inbox tells consumers apart by it")]
    Consumer,
    /// There is no handler.
    #[error("give the listener something to do with `handler`")]
    Handler,
    /// There is no place for dead letters.
    #[error(
        "say with `dead_letters` where messages go that cannot take effect: without a place they would be lost"
    )]
    DeadLetters,
    /// The inbox forgets before the broker does.
    #[error("{0}")]
    Retention(String),
    /// A number must not be zero.
    #[error("`{0}` must be at least 1")]
    Zero(&'static str),
}

/// Puts a [`Listener`] together; made by [`Listener::builder`].
pub struct ListenerBuilder<E: Effects> {
    source: Arc<dyn Source>,
    effects: E,
    consumer: String,
    handler: Option<Arc<E::Handler>>,
    dead_letters: Option<DeadLetters>,
    settings: Settings,
    keep: Option<Keep>,
    observers: Vec<Arc<dyn Observer>>,
}

impl<E: Effects> Listener<E> {
    /// Starts putting a listener together.
    pub fn builder(source: Arc<dyn Source>, effects: E) -> ListenerBuilder<E> {
        ListenerBuilder {
            source,
            effects,
            consumer: String::new(),
            handler: None,
            dead_letters: None,
            settings: Settings::default(),
            keep: None,
            observers: Vec::new(),
        }
    }

    /// Applies messages until the token is cancelled or the source is closed. It then receives nothing more, finishes
    /// what runs within the time to drain, acknowledges it and closes the source.
    ///
    /// Dropping the future stops at once. Nothing is lost by that: what is not acknowledged is delivered again.
    pub async fn run(&self, token: CancellationToken) -> Report {
        self.inner.health().running = true;
        let running = Running(&self.inner);
        let upkeep = async {
            match &self.inner.keep {
                Some(keep) => keep.run(&self.inner.consumer).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = Shift::new(&self.inner).run(token) => {}
            () = upkeep => {}
        }
        drop(running);
        self.report()
    }

    /// What every run of this listener has done so far.
    pub fn report(&self) -> Report {
        self.inner.counts.report()
    }

    /// How it is.
    pub fn health(&self) -> Health {
        self.inner.health().clone()
    }

    /// The name of the consumer.
    pub fn consumer(&self) -> &str {
        &self.inner.consumer
    }
}

impl<E: Effects> ListenerBuilder<E> {
    /// The name under which the inbox records what took effect. It must stay the same over the life of the consumer:
    /// under another name every event that is delivered again takes effect again.
    pub fn consumer(mut self, name: impl Into<String>) -> Self {
        self.consumer = name.into();
        self
    }

    /// What is done with each event, within the transaction of its effect. The type belongs to the database.
    pub fn handler(mut self, handler: Arc<E::Handler>) -> Self {
        self.handler = Some(handler);
        self
    }

    /// Where messages go that cannot take effect.
    pub fn dead_letters(mut self, place: DeadLetters) -> Self {
        self.dead_letters = Some(place);
        self
    }

    /// How many transactions run at a time; 8 by default. The database needs as many connections.
    pub fn concurrency(mut self, transactions: usize) -> Self {
        self.settings.concurrency = transactions;
        self
    }

    /// How many messages are held without being acknowledged; 200 by default. Followers of an event that is tried again
    /// are among them, so this also bounds how much of one key waits here. What the source itself fetches ahead should
    /// not be less.
    pub fn prefetch(mut self, messages: usize) -> Self {
        self.settings.prefetch = messages;
        self
    }

    /// How many events share one transaction when there are many; 50 by default. When one of them fails, all are done
    /// over, each in a transaction of its own. 1 gives every event its own from the start. Effects that take fewer at a
    /// time ([`Effects::most`]) are never given more.
    pub fn batch(mut self, events: usize) -> Self {
        self.settings.batch = events;
        self
    }

    /// Which events wait for each other; those of one key by default.
    pub fn order(mut self, order: Order) -> Self {
        self.settings.order = order;
        self
    }

    /// When a failed event is tried again, and after how many failures it goes to the dead letters. By default after
    /// 0.2 s, doubling up to 30 s, and 10 failures. All pauses together must be shorter than the broker lets a consumer
    /// hold a message: 30 minutes at RabbitMQ.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.settings.retry = policy;
        self
    }

    /// How often the broker may have delivered a message before; 15 by default. A message that ends every process which
    /// works on it stops doing so after as many. Its neighbours come as often as it does: from this number on, events
    /// run one at a time, so that those before it are done, and then the first that comes once more is given up.
    /// RabbitMQ 4 has a limit of its own, 20 by default, and drops what exceeds it unless its queue has a dead-letter
    /// exchange: this one should be lower. Queues other than quorum queues do not count.
    pub fn redelivery_limit(mut self, deliveries: u32) -> Self {
        self.settings.redelivery_limit = deliveries;
        self
    }

    /// Whether replayed events take effect again; by default they do not.
    pub fn replays(mut self, replays: Replays) -> Self {
        self.settings.replays = replays;
        self
    }

    /// The form of the messages; flat by default, as it is for those who publish.
    pub fn envelope(mut self, envelope: Envelope) -> Self {
        self.settings.envelope = envelope;
        self
    }

    /// How long a stop waits for what runs; 20 s by default.
    pub fn drain(mut self, time: Duration) -> Self {
        self.settings.drain = time;
        self
    }

    /// Compares how long the inbox keeps its records with how late the broker may deliver, and has the listener remove
    /// old ones every hour. Without it somebody else has to: a relay, or `postrider inbox purge`.
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = Some(keep);
        self
    }

    /// Has somebody hear every note.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Checks what was given. Nothing is connected to yet.
    pub fn build(self) -> Result<Listener<E>, BuildError> {
        if self.consumer.is_empty() {
            return Err(BuildError::Consumer);
        }
        for (name, number) in [
            ("concurrency", self.settings.concurrency),
            ("prefetch", self.settings.prefetch),
            ("batch", self.settings.batch),
        ] {
            if number == 0 {
                return Err(BuildError::Zero(name));
            }
        }
        if let Some(keep) = &self.keep {
            keep.check()?;
        }
        Ok(Listener {
            inner: Arc::new(Inner {
                source: self.source,
                effects: Arc::new(self.effects),
                consumer: self.consumer.into(),
                handler: self.handler.ok_or(BuildError::Handler)?,
                dead_letters: self.dead_letters.ok_or(BuildError::DeadLetters)?,
                settings: self.settings,
                keep: self.keep,
                observers: self.observers,
                counts: Counts::default(),
                health: Mutex::default(),
            }),
        })
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            concurrency: 8,
            prefetch: 200,
            batch: 50,
            order: Order::PerKey,
            retry: RetryPolicy {
                base: Duration::from_millis(200),
                max: Duration::from_secs(30),
                ..RetryPolicy::default()
            },
            redelivery_limit: 15,
            replays: Replays::Ignore,
            envelope: Envelope::Flat,
            drain: Duration::from_secs(20),
        }
    }
}

impl<E: Effects> Inner<E> {
    pub(crate) fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tell(&self, note: &Note) {
        self.counts.count(note);
        note::log(&self.consumer, note);
        for observer in &self.observers {
            observer.note(&self.consumer, note);
        }
    }
}

/// However a run ends, it does not run after it.
struct Running<'a, E: Effects>(&'a Inner<E>);

impl<E: Effects> Drop for Running<'_, E> {
    fn drop(&mut self) {
        *self.0.health() = Health::default();
    }
}

impl<E: Effects> Clone for Listener<E> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<E: Effects> fmt::Debug for Listener<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("consumer", &self.inner.consumer)
            .field("settings", &self.inner.settings)
            .finish_non_exhaustive()
    }
}

impl<E: Effects> fmt::Debug for ListenerBuilder<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerBuilder")
            .field("consumer", &self.consumer)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
