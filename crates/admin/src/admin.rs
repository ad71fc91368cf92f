//! What is watched, and what is asked about it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use postrider_core::{Console, Effects, Secret};
use postrider_listener::Listener;
use postrider_relay::{Observer, Relay};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::health::{FailingCall, Health, OpenCircuit, Thresholds, judge};
use crate::metrics::Metrics;
use crate::notified::Notified;
use crate::sample::{Sample, Sampler, WAIT_TIME};

/// How many types of events have counters of their own; a producer that makes a type per event must not fill the
/// memory.
const MAX_TYPES: usize = 100;

/// How health is judged and who may ask.
#[derive(Clone, Debug)]
pub struct Options {
    /// From when on something counts as trouble.
    pub thresholds: Thresholds,
    /// What `Authorization: Bearer` must say for everything but `/health/live` and `/health/ready`; none: anybody may
    /// ask.
    pub token: Option<Secret>,
    /// How many types of events have counters of their own; the others are counted under `other`.
    pub max_types: usize,
    /// Log lines that were dropped because nobody took them, where somebody counts that.
    pub log_lines_dropped: Option<Arc<AtomicU64>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            thresholds: Thresholds::default(),
            token: None,
            max_types: MAX_TYPES,
            log_lines_dropped: None,
        }
    }
}

/// Watches relays and answers for them. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Admin {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) metrics: Arc<Metrics>,
    outboxes: RwLock<Vec<Arc<Watched>>>,
    stopping: AtomicBool,
}

/// One outbox that is watched.
pub(crate) struct Watched {
    pub(crate) name: String,
    pub(crate) relay: Relay,
    sampler: Sampler,
}

/// One outbox at one moment.
pub(crate) struct Picture {
    pub(crate) name: String,
    pub(crate) sample: Sample,
    pub(crate) circuits: Vec<OpenCircuit>,
    pub(crate) health: Health,
    /// The names of its destinations.
    pub(crate) routes: Vec<String>,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin")
            .field("options", &self.inner.options)
            .finish_non_exhaustive()
    }
}

impl Admin {
    /// Watches nothing yet.
    pub fn new(options: Options) -> Self {
        Self {
            inner: Arc::new(Inner {
                metrics: Arc::new(Metrics::new(options.max_types)),
                options,
                outboxes: RwLock::default(),
                stopping: AtomicBool::new(false),
            }),
        }
    }

    /// What a relay must be built with in order to be watched.
    pub fn observer(&self) -> Arc<dyn Observer> {
        self.inner.metrics.clone()
    }

    /// What a listener must be built with in order to be counted.
    pub fn listener_observer(&self) -> Arc<dyn postrider_listener::Observer> {
        Arc::new(self.inner.metrics.listeners.clone())
    }

    /// Watches a listener: `/health/listener` says how it is.
    pub fn watch_listener<E: Effects>(&self, listener: &Listener<E>) {
        self.inner.metrics.listening.watch(listener);
    }

    /// Has what notifications are counted by in the metrics; this is asked when somebody asks for them, and must not
    /// block.
    pub fn watch_notifications(&self, ask: impl Fn() -> Notified + Send + Sync + 'static) {
        self.inner.metrics.notifications.watch(Arc::new(ask));
    }

    /// Watches a relay, whose outbox is asked through this console.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime: the one that it is called on is the one on which the database is asked.
    pub fn watch(&self, relay: &Relay, console: Arc<dyn Console>) {
        let name = relay.name().to_owned();
        let destinations = relay.router().destinations();
        self.inner
            .metrics
            .expect(&name, destinations.iter().map(|one| one.name.as_str()));
        let watched = Arc::new(Watched {
            sampler: Sampler::new(
                console,
                self.inner.options.thresholds.stalled_after,
                Handle::current(),
            ),
            relay: relay.clone(),
            name,
        });
        let mut outboxes = self
            .inner
            .outboxes
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        outboxes.push(watched);
    }

    /// From now on `/health/ready` says that the process is stopping, so that nobody new is sent to it.
    pub fn stopping(&self) {
        self.inner.stopping.store(true, Ordering::Relaxed);
    }
}

impl Watched {
    fn routes(&self) -> Vec<String> {
        let destinations = self.relay.router().destinations().iter();
        destinations.map(|one| one.name.to_string()).collect()
    }

    /// Everything that takes nothing. A circuit says since when; without one there was nothing to send yet.
    fn away(&self, circuits: &[OpenCircuit]) -> Vec<OpenCircuit> {
        let is_open = |name: &str| circuits.iter().any(|circuit| circuit.destination == name);
        let untried = self.relay.trouble().into_iter();
        let untried = untried.filter(|(name, _)| !is_open(name.as_str()));
        let untried = untried.map(|(destination, failure)| OpenCircuit {
            destination: destination.to_string(),
            kind: failure.kind,
            text: failure.text,
            open_for: Duration::ZERO,
        });
        circuits.iter().cloned().chain(untried).collect()
    }
}

impl Inner {
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn outboxes(&self) -> Vec<Arc<Watched>> {
        self.outboxes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// By how much the latest loop is late.
    pub(crate) fn late(&self) -> Duration {
        let outboxes = self.outboxes();
        outboxes
            .iter()
            .map(|one| one.relay.late())
            .max()
            .unwrap_or_default()
    }

    /// How all outboxes are, or the one that is named. All are asked before the first has answered, and all have the
    /// same time to answer in: one that hangs makes nobody wait longer than it does alone.
    pub(crate) async fn pictures(&self, wanted: Option<&str>) -> Vec<Picture> {
        let deadline = Instant::now() + WAIT_TIME;
        let outboxes = self.outboxes().into_iter();
        let asked: Vec<_> = outboxes
            .filter(|outbox| wanted.is_none_or(|wanted| wanted == outbox.name))
            .map(|outbox| (outbox.sampler.ask(), outbox))
            .collect();
        let mut pictures = Vec::new();
        for (coming, outbox) in asked {
            pictures.push(self.picture(&outbox, coming.by(deadline).await));
        }
        pictures
    }

    fn picture(&self, outbox: &Watched, sample: Sample) -> Picture {
        let circuits = self.metrics.circuits.of(&outbox.name).into_iter();
        let circuits: Vec<OpenCircuit> = circuits
            .map(|(destination, failure, open_for)| OpenCircuit {
                destination,
                kind: failure.kind,
                text: failure.text,
                open_for,
            })
            .collect();
        let calls = self.metrics.calls.of(&outbox.name).into_iter();
        let calls: Vec<FailingCall> = calls
            .map(|(doing, error, failing_for)| FailingCall {
                doing,
                error,
                failing_for,
            })
            .collect();
        let away = outbox.away(&circuits);
        Picture {
            health: judge(sample.seen.as_ref(), &away, &calls, &self.options.thresholds),
            name: outbox.name.clone(),
            routes: outbox.routes(),
            sample,
            circuits,
        }
    }
}
