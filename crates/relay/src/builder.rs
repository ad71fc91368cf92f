//! Putting a relay together, and running it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use postrider_core::{
    Answer, Destination, DestinationName, Envelope, Event, Failure, Limits, RelayId, Routed, Router, Sink,
    Store,
};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::driver::{Driver, Until};
use crate::engine::{Engine, Identity, Outgoing};
use crate::notes::Counts;
use crate::pulse::Pulses;
use crate::{Observer, Report, Settings, SettingsError, publish};

/// How often everything below the floors is looked through once more.
const SWEEP_EVERY: Duration = Duration::from_secs(600);
/// The name of a sink that was given without one.
const ONLY_SINK: &str = "default";

/// Carries the events of one outbox to their destinations.
///
/// A relay needs a store and a sink; everything else has a default. Cheap to clone; every run of it is a relay of its
/// own to the database, so several may run at once and share the work.
#[derive(Clone)]
pub struct Relay {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) name: String,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) sinks: Vec<Arc<dyn Sink>>,
    pub(crate) router: Arc<Router>,
    pub(crate) settings: Settings,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    pub(crate) nudge: watch::Sender<u64>,
    pub(crate) counts: Counts,
    pub(crate) pulses: Pulses,
    direct: AtomicU64,
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay")
            .field("name", &self.inner.name)
            .finish_non_exhaustive()
    }
}

/// Wakes a relay of this process after a commit, sooner than a doorbell could.
#[derive(Clone, Debug)]
pub struct Nudge(watch::Sender<u64>);

impl Nudge {
    /// Something was committed.
    pub fn nudge(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl Relay {
    /// Starts putting a relay together.
    pub fn builder() -> RelayBuilder {
        RelayBuilder::default()
    }

    /// Publishes until the token is cancelled; returns after the drain and the release of the leases.
    ///
    /// Dropping the future stops at once. Nothing is lost by that: what was under way is found again after the lease.
    pub async fn run(&self, token: CancellationToken) -> Report {
        self.drive(token, Until::Cancelled).await
    }

    /// Publishes until nothing is queued and no parked event is due, then returns as [`Relay::run`] does. Events that
    /// wait for a later attempt, a time or a person stay parked. For tests, and for jobs that empty an outbox and
    /// end.
    ///
    /// It waits while another relay is alive and holds a part of the outbox, while the destination of what is queued is
    /// down, and while the outbox is paused; [`Relay::drain_until`] can be ended. What one of several destinations does
    /// not take is parked, and not waited for.
    pub async fn drain(&self) -> Report {
        self.drive(CancellationToken::new(), Until::Empty).await
    }

    /// As [`Relay::drain`], but a cancelled token ends it early.
    pub async fn drain_until(&self, token: CancellationToken) -> Report {
        self.drive(token, Until::Empty).await
    }

    /// A handle that wakes this relay after a commit.
    pub fn nudger(&self) -> Nudge {
        Nudge(self.inner.nudge.clone())
    }

    /// Wakes this relay after a commit.
    pub fn nudge(&self) {
        self.nudger().nudge();
    }

    /// What every run of this relay has done so far.
    pub fn report(&self) -> Report {
        self.inner.counts.report()
    }

    /// The outbox's name, as routes and logs know it.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Where its events go.
    pub fn router(&self) -> &Router {
        &self.inner.router
    }

    /// The destinations whose sink has no connection at the moment, and why. A circuit opens with the first event that
    /// finds no way; this is known before there is one.
    pub fn trouble(&self) -> Vec<(DestinationName, Failure)> {
        let destinations = self.inner.router.destinations().iter();
        destinations
            .zip(&self.inner.sinks)
            .filter_map(|(destination, sink)| Some((destination.name.clone(), sink.trouble()?)))
            .collect()
    }

    /// By how much a run of this relay is behind the time at which its loop had to turn; zero while all is well. A loop
    /// turns several times per lease, so one that is late by more than a few seconds is stuck.
    pub fn late(&self) -> Duration {
        self.inner.pulses.late()
    }

    /// Publishes an event at once, without an outbox.
    ///
    /// Every call warns and counts: if the process dies between the business commit and this call, or the destination
    /// is down, the event is lost; if the business transaction rolls back after it, the event is a lie.
    #[deprecated = "an event published without the outbox can be lost or untrue; use the store's enqueue instead"]
    pub async fn publish_direct(&self, event: &Event) -> Result<Vec<(DestinationName, Answer)>, Failure> {
        let count = self.inner.direct.fetch_add(1, Ordering::Relaxed) + 1;
        tracing::warn!(outbox = self.inner.name, event_id = %event.id, count, "published directly, without the outbox");
        let deliveries = match self.inner.router.route(&self.inner.name, event) {
            Routed::To(deliveries) => deliveries,
            Routed::Dropped => return Ok(Vec::new()),
            Routed::Nowhere(failure) => return Err(failure),
        };
        let event = Arc::new(event.clone());
        // All or nothing, as far as that can be known beforehand.
        let rendered: Result<Vec<_>, Failure> = deliveries
            .into_iter()
            .map(|one| Ok((one.destination, one.rendered?)))
            .collect();
        let mut answers = Vec::new();
        for (id, (address, message_key)) in rendered? {
            let destination = self.inner.router.destinations()[id.0].clone();
            let outgoing = Outgoing {
                event: event.clone(),
                order_key: event.order_key(),
                address,
                message_key,
                maybe_sent: false,
                replay: None,
                shard: postrider_core::Shard(0),
            };
            let sink = self.inner.sinks[id.0].clone();
            let name = destination.name.clone();
            let timeout = self.inner.settings.publish_timeout;
            let answer = publish::publish(sink, destination, vec![outgoing], timeout)
                .await
                .pop();
            answers.extend(answer.map(|answer| (name, answer)));
        }
        Ok(answers)
    }

    /// How often [`Relay::publish_direct`] was called.
    pub fn published_direct(&self) -> u64 {
        self.inner.direct.load(Ordering::Relaxed)
    }

    async fn drive(&self, token: CancellationToken, until: Until) -> Report {
        let relay = RelayId(Uuid::now_v7().to_string().into());
        let outbox = &self.inner.name;
        tracing::info!(outbox, relay = &*relay.0, "relay started");
        let identity = Identity {
            seed: Uuid::new_v4().as_u64_pair().0,
            relay: relay.clone(),
            outbox: outbox.clone(),
            doorbell: self.inner.store.doorbell().is_some(),
            sweep_every: SWEEP_EVERY,
            plant: None,
        };
        let capabilities = self.inner.sinks.iter().map(|sink| sink.capabilities()).collect();
        let engine = Engine::new(
            identity,
            self.inner.settings.clone(),
            self.inner.router.clone(),
            capabilities,
        );
        // Beside the work, and no longer than it: a destination that is away must not keep it waiting.
        let mut connecting = JoinSet::new();
        for sink in &self.inner.sinks {
            let sink = Arc::clone(sink);
            connecting.spawn(async move { sink.connect().await });
        }
        let report = Box::pin(Driver::new(self.inner.clone(), relay.clone(), engine).run(token, until)).await;
        let Report {
            published,
            duplicates,
            dropped,
            parked,
            dead,
        } = report;
        let relay = &*relay.0;
        tracing::info!(
            outbox,
            relay,
            published,
            duplicates,
            dropped,
            parked,
            dead,
            "relay stopped"
        );
        report
    }
}

/// Puts a [`Relay`] together. A store and one sink are enough.
#[derive(Default)]
#[must_use = "a builder does nothing until build() is called"]
pub struct RelayBuilder {
    name: Option<String>,
    store: Option<Arc<dyn Store>>,
    sinks: BTreeMap<String, Arc<dyn Sink>>,
    router: Option<Router>,
    settings: Settings,
    observers: Vec<Arc<dyn Observer>>,
}

impl RelayBuilder {
    /// The outbox's name, as routes and logs know it. Default: `outbox`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The outbox to empty.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// The sink that everything goes to, unless a router says otherwise.
    pub fn sink(self, sink: Arc<dyn Sink>) -> Self {
        self.sink_named(ONLY_SINK, sink)
    }

    /// A sink under the name by which destinations ask for it.
    pub fn sink_named(mut self, broker: impl Into<String>, sink: Arc<dyn Sink>) -> Self {
        self.sinks.insert(broker.into(), sink);
        self
    }

    /// Where events go. Default: everything to the only sink, in the flat envelope.
    pub fn router(mut self, router: Router) -> Self {
        self.router = Some(router);
        self
    }

    /// Everything else that can be set.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Hears every note; for metrics and tests.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Checks that everything fits together.
    pub fn build(self) -> Result<Relay, BuildError> {
        self.settings.validate()?;
        let store = self.store.ok_or(BuildError::NoStore)?;
        let lease = self.settings.lease;
        if let Some(call) = store
            .longest_call()
            .filter(|call| call.saturating_mul(3) >= lease)
        {
            return Err(BuildError::SlowStore { call, lease });
        }
        let router = match self.router {
            Some(router) => router,
            None => {
                let (broker, _) = self.sinks.first_key_value().ok_or(BuildError::NoSink)?;
                if self.sinks.len() > 1 {
                    return Err(BuildError::NoRouter);
                }
                Router::all_to(Destination {
                    name: DestinationName::new(broker.as_str()),
                    broker: broker.clone(),
                    address: Vec::new(),
                    message_key: None,
                    envelope: Envelope::Flat,
                    dead_letter: Default::default(),
                    retry: self.settings.retry,
                    limits: Limits::default(),
                })
            }
        };
        let mut sinks = Vec::with_capacity(router.destinations().len());
        for destination in router.destinations() {
            let sink = self
                .sinks
                .get(&destination.broker)
                .ok_or_else(|| BuildError::UnknownBroker {
                    destination: destination.name.to_string(),
                    broker: destination.broker.clone(),
                })?;
            sinks.push(sink.clone());
        }
        Ok(Relay {
            inner: Arc::new(Inner {
                name: self.name.unwrap_or_else(|| "outbox".to_owned()),
                store,
                sinks,
                router: Arc::new(router),
                settings: self.settings,
                observers: self.observers,
                nudge: watch::Sender::new(0),
                counts: Counts::default(),
                pulses: Pulses::default(),
                direct: AtomicU64::new(0),
            }),
        })
    }
}

/// Why a relay cannot be put together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// No store was given.
    #[error("a relay needs a store: call store(…)")]
    NoStore,
    /// No sink was given.
    #[error("a relay needs a sink: call sink(…)")]
    NoSink,
    /// Several sinks, and nothing says what goes where.
    #[error("a relay with several sinks needs a router: call router(…)")]
    NoRouter,
    /// A destination asks for a sink that was not given.
    #[error("the destination {destination:?} needs the broker {broker:?}: call sink_named({broker:?}, …)")]
    UnknownBroker {
        /// The destination.
        destination: String,
        /// The broker it asks for.
        broker: String,
    },
    /// The store gives its calls more time than the lease leaves them.
    #[error(
        "a call of the store may take {call:?}, which is not below a third of the lease, {lease:?}: a relay that hangs \
         in one would lose its shards; shorten the store's time-out (statement_timeout), or lengthen the lease"
    )]
    SlowStore {
        /// What a call may take.
        call: Duration,
        /// The lease.
        lease: Duration,
    },
    /// A setting is out of bounds.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}
