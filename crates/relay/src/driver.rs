//! The thin loop around the engine: it carries out commands and brings back facts.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use postrider_core::{BoxFuture, RelayId, Shard, Store, StoreError, StoreErrorKind, causes, crash};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::builder::Inner;
use crate::clock;
use crate::engine::{Call, Command, Engine, Fact, Note};
use crate::notes::{Counts, Observer, Report, Run};
use crate::pauses::Pauses;
use crate::publish;
use crate::pulse::Pulse;
use crate::voice::{self, Voice};

/// How long a call on the store may take. Longer than any store waits for a lock of its own.
const STORE_TIMEOUT: Duration = Duration::from_secs(15);

/// When the loop ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    Cancelled,
    Empty,
}

pub(crate) struct Driver {
    inner: Arc<Inner>,
    relay: RelayId,
    counts: Counts,
    nudged: watch::Receiver<u64>,
    engine: Engine,
    facts: mpsc::UnboundedReceiver<Fact>,
    tell: mpsc::UnboundedSender<Fact>,
    publishing: BTreeMap<Call, AbortHandle>,
    calls: Vec<AbortHandle>,
    bell: Option<AbortHandle>,
    pulse: Arc<Pulse>,
    voice: Voice,
    pauses: Pauses,
}

impl Drop for Driver {
    fn drop(&mut self) {
        // A dropped relay must not go on publishing: its tasks end with it. What they had under way is found again.
        self.calls
            .iter()
            .chain(self.publishing.values())
            .chain(&self.bell)
            .for_each(AbortHandle::abort);
        self.observe(|observer, run| observer.ended(run));
    }
}

impl Driver {
    pub(crate) fn new(inner: Arc<Inner>, relay: RelayId, engine: Engine) -> Self {
        let (tell, facts) = mpsc::unbounded_channel();
        let nudged = inner.nudge.subscribe();
        let counts = Counts::default();
        let (pulse, voice) = (inner.pulses.begin(), Voice::new(&inner.name));
        Self {
            inner,
            relay,
            counts,
            nudged,
            engine,
            facts,
            tell,
            publishing: BTreeMap::new(),
            calls: Vec::new(),
            bell: None,
            pulse,
            voice,
            pauses: Pauses::default(),
        }
    }

    /// Runs until it is told to stop and everything is drained and released.
    pub(crate) async fn run(mut self, token: CancellationToken, until: Until) -> Report {
        let mut fact = Fact::Tick;
        let mut stopping = false;
        let mut commands = Vec::new();
        loop {
            let now = clock::now();
            self.pulse.due(Some(now));
            if let Fact::Stood(_, Ok(standing)) = &fact {
                self.pauses.obey(&self.inner.name, &standing.controls);
            }
            self.engine.handle(now, fact, &mut commands);
            for command in commands.drain(..) {
                if matches!(command, Command::Finished) {
                    self.voice.last_words();
                    return self.counts.report();
                }
                self.perform(command);
            }
            self.voice.breathe(now);
            if until == Until::Empty && !stopping && self.engine.is_idle() {
                stopping = true;
                fact = self.stop();
                continue;
            }
            fact = self.next_fact(&token, &mut stopping).await;
        }
    }

    /// The next thing that happens, in the order of what must not wait.
    async fn next_fact(&mut self, token: &CancellationToken, stopping: &mut bool) -> Fact {
        let now = clock::now();
        let wake_at = self.engine.wake_at(now);
        self.pulse.due(wake_at);
        let sleep = wake_at.map(|at| at - now);
        tokio::select! {
            biased;
            // 1: stopping first, so that nothing new is begun.
            () = token.cancelled(), if !*stopping => {
                *stopping = true;
                self.stop()
            }
            // 2: answers, because what is in flight holds its key back.
            Some(fact) = self.facts.recv() => fact,
            // 3: a commit in this process.
            Ok(()) = self.nudged.changed() => Fact::Rang,
            // 4: time.
            () = rest(sleep) => Fact::Tick,
        }
    }

    fn stop(&self) -> Fact {
        Fact::Stop {
            drain_for: self.inner.settings.drain_timeout,
        }
    }

    fn perform(&mut self, command: Command) {
        let store = self.inner.store.clone();
        match command {
            Command::Beat(call, beat) => self.ask(async move {
                let answer = guarded(&store, move |store| store.heartbeat(beat)).await;
                crash::point("heartbeat.after");
                Fact::Stood(call, answer)
            }),
            Command::Read(call, read) => {
                let outbox = self.inner.name.clone();
                self.ask(async move {
                    let answer = guarded(&store, move |store| store.read(read)).await;
                    voice::read(&outbox, &answer);
                    crash::point("read.after");
                    Fact::Read(call, answer)
                });
            }
            Command::Settle(call, settle) => self.ask(async move {
                crash::point("settle.before");
                let answer = guarded(&store, move |store| store.settle(settle)).await;
                crash::point("settle.after");
                Fact::Settled(call, answer)
            }),
            Command::Publish(call, id, batch) => {
                let destination = self.inner.router.destinations()[id.0].clone();
                let sink = self.inner.sinks[id.0].clone();
                let (tell, timeout) = (self.tell.clone(), self.inner.settings.publish_timeout);
                let task = tokio::spawn(async move {
                    let answers = publish::publish(sink, destination, batch, timeout).await;
                    // The relay may be gone; then nobody waits for the answer.
                    let _ = tell.send(Fact::Published(call, answers));
                });
                self.publishing.retain(|_, task| !task.is_finished());
                self.publishing.insert(call, task.abort_handle());
            }
            Command::Abandon(calls) => {
                calls
                    .iter()
                    .filter_map(|call| self.publishing.remove(call))
                    .for_each(|task| task.abort());
            }
            Command::Arm(call, shards) => self.arm(call, shards),
            Command::Disarm => {
                if let Some(bell) = self.bell.take() {
                    bell.abort();
                }
            }
            Command::Note(note) => self.tell_people(&note),
            Command::Finished => {}
        }
    }

    fn tell_people(&mut self, note: &Note) {
        self.counts.count(note);
        self.inner.counts.count(note);
        self.voice.say(clock::now(), note);
        self.observe(|observer, run| observer.note(run, note));
    }

    fn observe(&self, tell: impl Fn(&dyn Observer, Run<'_>)) {
        let outbox = self.inner.name.as_str();
        let run = Run {
            outbox,
            relay: &self.relay,
        };
        for observer in &self.inner.observers {
            let heard = std::panic::catch_unwind(AssertUnwindSafe(|| tell(observer.as_ref(), run)));
            if heard.is_err() {
                tracing::error!(outbox, "an observer panicked; the relay goes on");
            }
        }
    }

    /// Runs a database call beside the loop and brings its answer back as a fact.
    fn ask(&mut self, call: impl Future<Output = Fact> + Send + 'static) {
        let tell = self.tell.clone();
        let task = tokio::spawn(async move {
            let _ = tell.send(call.await);
        });
        self.calls.retain(|task| !task.is_finished());
        self.calls.push(task.abort_handle());
    }

    fn arm(&mut self, call: Call, shards: Vec<Shard>) {
        let Some(doorbell) = self.inner.store.doorbell() else {
            let _ = self.tell.send(Fact::Armed(call, false));
            return;
        };
        if let Some(bell) = self.bell.take() {
            bell.abort();
        }
        let (tell, outbox) = (self.tell.clone(), self.inner.name.clone());
        let task = tokio::spawn(async move {
            match doorbell.arm(shards).await {
                Ok(ring) => {
                    let _ = tell.send(Fact::Armed(call, true));
                    ring.await;
                    let _ = tell.send(Fact::Rang);
                }
                Err(error) => {
                    tracing::debug!(
                        outbox,
                        error = causes(&error),
                        "the doorbell cannot be armed; polling goes on"
                    );
                    let _ = tell.send(Fact::Armed(call, false));
                }
            }
        });
        self.bell = Some(task.abort_handle());
    }
}

/// A call on the store that always answers: a panic in it is an error of that call only, and one that hangs (a
/// half-open connection does) is given up and repeated.
async fn guarded<T>(
    store: &Arc<dyn Store>,
    call: impl FnOnce(&Arc<dyn Store>) -> BoxFuture<'_, Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let call = AssertUnwindSafe(async { call(store).await }).catch_unwind();
    match tokio::time::timeout(STORE_TIMEOUT, call).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(StoreError::new(StoreErrorKind::Other, "the store panicked")),
        Err(_) => {
            let text = format!("the database gave no answer within {STORE_TIMEOUT:?}");
            Err(StoreError::new(StoreErrorKind::Unreachable, text))
        }
    }
}

async fn rest(sleep: Option<Duration>) {
    match sleep {
        Some(sleep) => tokio::time::sleep(sleep).await,
        None => std::future::pending().await,
    }
}
