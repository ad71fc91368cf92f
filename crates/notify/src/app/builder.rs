//! Putting an [`App`] together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postrider_admin::Admin;
use postrider_core::{Console, Effects, RouterError, Sink, Source, Store};
use postrider_listener::{DeadLetters, Direct, Keep, Listener};
use postrider_relay::{Observer, Relay, Settings};
use tokio::net::TcpListener;

use super::bells::{Bells, Ringing};
use super::{App, DIRECT, Named, routes, sink_name, watch};
use crate::http::{Api, Options};
use crate::{Board, Channel, Worker};

/// The name under which the inbox records what took effect without a broker.
const CONSUMER: &str = "notify";
/// How long a stop waits for what runs.
const DRAIN: Duration = Duration::from_secs(20);

/// Puts an [`App`] together. An outbox is needed, and either listeners or audiences whose events are in that outbox.
#[must_use = "a builder does nothing until build() is called"]
pub struct AppBuilder<E: Effects> {
    board: Arc<dyn Board>,
    effects: Ringing<E>,
    handler: Arc<E::Handler>,
    outbox: Option<(String, Arc<dyn Store>)>,
    settings: Settings,
    router: Option<postrider_core::Router>,
    sinks: BTreeMap<String, Arc<dyn Sink>>,
    audiences: Vec<String>,
    channels: Vec<Channel>,
    queues: Vec<Queue>,
    inbox: Option<Keep>,
    keep: Option<Duration>,
    http: Option<(TcpListener, Options)>,
    watched: Option<(Admin, Arc<dyn Console>)>,
    observers: Vec<Arc<dyn Observer>>,
}

/// A queue whose events become notifications.
struct Queue {
    consumer: String,
    source: Arc<dyn Source>,
    dead_letters: DeadLetters,
}

/// Why an [`App`] cannot be put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    /// There is no outbox.
    #[error("deliveries need an outbox: call outbox(…)")]
    NoOutbox,
    /// Nothing would ever become a notification.
    #[error("no events come in: call direct(…) with audiences, listen(…) with a queue, or http(…)")]
    NoEvents,
    /// The routes do not fit together.
    #[error(transparent)]
    Routes(#[from] RouterError),
    /// The relay cannot be put together.
    #[error(transparent)]
    Relay(#[from] postrider_relay::BuildError),
    /// A listener cannot be put together.
    #[error("the listener {consumer:?}: {error}")]
    Listener {
        /// Which.
        consumer: String,
        /// Why.
        error: postrider_listener::BuildError,
    },
}

impl<E: Effects> AppBuilder<E> {
    pub(super) fn new(board: Arc<dyn Board>, effects: E, handler: Arc<E::Handler>) -> Self {
        let bells = Arc::<Bells>::default();
        // Who runs the handler here also says what was committed.
        board.tally().will_settle();
        Self {
            effects: Ringing {
                effects: Arc::new(effects),
                bells,
                board: Arc::clone(&board),
            },
            board,
            handler,
            outbox: None,
            settings: Settings::default(),
            router: None,
            sinks: BTreeMap::new(),
            audiences: Vec::new(),
            channels: Vec::new(),
            queues: Vec::new(),
            inbox: None,
            keep: None,
            http: None,
            watched: None,
            observers: Vec::new(),
        }
    }

    /// The outbox that the board puts deliveries into, with its name in logs and metrics.
    pub fn outbox(mut self, name: impl Into<String>, store: Arc<dyn Store>) -> Self {
        self.outbox = Some((name.into(), store));
        self
    }

    /// How its relay works.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Events of these audiences that are committed to the outbox take effect here, without a broker.
    pub fn direct(mut self, audiences: impl IntoIterator<Item = String>) -> Self {
        self.audiences.extend(audiences);
        self
    }

    /// Events of this queue become notifications. The inbox knows them by the name of the consumer, which must stay the
    /// same.
    pub fn listen(
        mut self,
        consumer: impl Into<String>,
        source: Arc<dyn Source>,
        dead_letters: DeadLetters,
    ) -> Self {
        self.queues.push(Queue {
            consumer: consumer.into(),
            source,
            dead_letters,
        });
        self
    }

    /// Has listeners remove old records of the inbox.
    pub fn inbox(mut self, keep: Keep) -> Self {
        self.inbox = Some(keep);
        self
    }

    /// What deliveries by this channel go through.
    pub fn channel(mut self, channel: Channel, sink: Arc<dyn Sink>) -> Self {
        self.channels.push(channel);
        self.sinks.insert(sink_name(channel.as_str()), sink);
        self
    }

    /// A router that begins with [`routes`] and goes on with those of other events in the same outbox.
    pub fn router(mut self, router: postrider_core::Router) -> Self {
        self.router = Some(router);
        self
    }

    /// A sink that such a router needs, under the name by which its destinations ask for it.
    pub fn sink(mut self, broker: impl Into<String>, sink: Arc<dyn Sink>) -> Self {
        self.sinks.insert(broker.into(), sink);
        self
    }

    /// Removes notifications that are older than this. Without it they are kept.
    pub fn keep(mut self, keep: Option<Duration>) -> Self {
        self.keep = keep;
        self
    }

    /// Serves feeds there.
    pub fn http(mut self, listener: TcpListener, options: Options) -> Self {
        self.http = Some((listener, options));
        self
    }

    /// Has it watched: health and metrics of the relay, whose outbox is asked through this console, and of listeners.
    pub fn watch(mut self, admin: &Admin, console: Arc<dyn Console>) -> Self {
        self.watched = Some((admin.clone(), console));
        self
    }

    /// Has somebody hear every note of the relay.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Checks that everything fits together.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime where it is watched.
    pub fn build(mut self) -> Result<App<E>, AppError> {
        if self.audiences.is_empty() && self.queues.is_empty() && self.http.is_none() {
            return Err(AppError::NoEvents);
        }
        if !self.audiences.is_empty() {
            let (effects, handler) = (self.effects.clone(), Arc::clone(&self.handler));
            let direct = Direct::new(Arc::new(effects), CONSUMER, handler);
            self.sinks.insert(sink_name(DIRECT), Arc::new(direct));
        }
        let relay = self.relay()?;
        let listeners = self.listeners()?;
        let worker = Worker::new(Arc::clone(&self.board)).keep(self.keep);
        let bells = &self.effects.bells;
        let _ = (bells.relay.set(relay.nudger()), bells.worker.set(worker.bell()));
        let worker = worker.tell(watch::hear(Arc::clone(bells)));
        let board = self.board;
        let http = self.http.map(|(listener, options)| {
            let ring = Arc::clone(bells);
            let api = Api::new(board, options).on_stored(move || ring.wake());
            let _ = bells.hub.set(api.hub().clone());
            (listener, api)
        });
        let letters = self.queues.iter().filter_map(|queue| match &queue.dead_letters {
            DeadLetters::To { sink, .. } => Some(Arc::clone(sink)),
            _ => None,
        });
        Ok(App {
            sinks: self.sinks.into_values().chain(letters).collect(),
            drain: DRAIN.max(self.settings.drain_timeout),
            relay,
            listeners,
            worker,
            http,
        })
    }

    fn relay(&mut self) -> Result<Relay, AppError> {
        let (name, store) = self.outbox.take().ok_or(AppError::NoOutbox)?;
        let router = match self.router.take() {
            Some(router) => router,
            None => routes(&name, &self.audiences, &self.channels, self.settings.retry)?.build(),
        };
        let mut builder = Relay::builder()
            .name(name)
            .store(store)
            .router(router)
            .settings(self.settings.clone());
        for (name, sink) in &self.sinks {
            builder = builder.sink_named(name.as_str(), Arc::clone(sink));
        }
        for observer in std::mem::take(&mut self.observers) {
            builder = builder.observer(observer);
        }
        let Some((admin, console)) = &self.watched else {
            return Ok(builder.build()?);
        };
        let relay = builder.observer(admin.observer()).build()?;
        admin.watch(&relay, Arc::clone(console));
        let board = Arc::clone(&self.board);
        admin.watch_notifications(move || watch::notified(board.tally()));
        Ok(relay)
    }

    fn listeners(&self) -> Result<Vec<Named<E>>, AppError> {
        let one = |queue: &Queue| {
            let mut builder = Listener::builder(Arc::clone(&queue.source), self.effects.clone())
                .consumer(queue.consumer.as_str())
                .handler(Arc::clone(&self.handler))
                .dead_letters(queue.dead_letters.clone())
                .drain(DRAIN);
            if let Some(keep) = &self.inbox {
                builder = builder.keep(keep.clone());
            }
            if let Some((admin, _)) = &self.watched {
                builder = builder.observer(admin.listener_observer());
            }
            let listener = builder.build().map_err(|error| AppError::Listener {
                consumer: queue.consumer.clone(),
                error,
            })?;
            if let Some((admin, _)) = &self.watched {
                admin.watch_listener(&listener);
            }
            Ok((queue.consumer.clone(), listener))
        };
        self.queues.iter().map(one).collect()
    }
}
