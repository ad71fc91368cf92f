//! The loop of a listener: it receives, starts what may run, and acknowledges what is committed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Applied, ApplyError, BoxFuture, Effects, Failure, HandlerError, Incoming, Received, SourceError,
    SourceErrorKind, Verdict, crash,
};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Note;
use crate::builder::Inner;
use crate::delivery::{Content, Delivery, Place};
use crate::desk::{Desk, Slot};
use crate::letter::{self, DeadLetters};
use crate::outage::{self, Outage};

/// A receive that waits for this long without an error has reached its broker.
const QUIET: Duration = Duration::from_secs(15);

/// One run of a listener.
pub(crate) struct Shift<'a, E: Effects> {
    pub(crate) inner: &'a Inner<E>,
    pub(crate) desk: Desk<Delivery>,
    /// Tasks, so that the panic of a handler is an error of its event and of nothing else.
    jobs: JoinSet<Outcome>,
    running: HashMap<Id, Job>,
    pub(crate) verdicts: Vec<(u64, Verdict)>,
    broker: Outage,
    pub(crate) store: Outage,
    pub(crate) letters: Outage,
    /// Letters on their way. They need no connection of the database, and must not take a transaction's place.
    pub(crate) publishing: usize,
    /// Transactions committed in which an event took effect.
    pub(crate) commits: u64,
    /// Those that may be what ends their consumers. While there are any, one event runs at a time, the oldest first,
    /// and the next when the broker has been told of it: what comes before the guilty one is then done, and of those
    /// that come once too often the first is the one.
    pub(crate) suspects: BTreeSet<Slot>,
    /// Whether one was given up since the connection began. All that were held with it came as often.
    given_up: bool,
    /// Whether the broker is being told of verdicts.
    telling: bool,
    begun: Instant,
}

/// What runs.
pub(crate) enum Job {
    Apply {
        places: Vec<(Slot, Place)>,
        deliveries: Arc<[Received]>,
    },
    Letter {
        slot: Slot,
        delivery: Box<Delivery>,
    },
}

/// How it ended.
pub(crate) enum Outcome {
    Applied {
        answer: Result<Vec<Applied>, ApplyError>,
        took: Duration,
    },
    Published(Result<(), Failure>),
    Panicked(String),
}

impl<'a, E: Effects> Shift<'a, E> {
    pub(crate) fn new(inner: &'a Inner<E>) -> Self {
        Self {
            inner,
            desk: Desk::new(inner.settings.prefetch),
            jobs: JoinSet::new(),
            running: HashMap::new(),
            verdicts: Vec::new(),
            broker: Outage::default(),
            store: Outage::default(),
            letters: Outage::default(),
            publishing: 0,
            commits: 0,
            suspects: BTreeSet::new(),
            given_up: false,
            telling: false,
            begun: Instant::now(),
        }
    }

    /// Works until it is told to stop and what ran has ended, or the time to drain is over.
    pub(crate) async fn run(mut self, token: CancellationToken) {
        let source = Arc::clone(&self.inner.source);
        let mut receiving: Option<BoxFuture<'_, Result<Vec<Incoming>, SourceError>>> = None;
        let mut settling: Option<BoxFuture<'_, Result<(), SourceError>>> = None;
        let mut asked = Duration::ZERO;
        let mut stop_by = None;
        loop {
            let now = self.now();
            self.telling = settling.is_some() || !self.verdicts.is_empty();
            if stop_by.is_none() {
                self.desk.tick(now);
                self.start(now);
                if receiving.is_none() && self.may_receive(now) {
                    receiving = Some(source.receive(self.desk.room()));
                    asked = now;
                }
                if self.broker.is_on() && receiving.is_some() && now >= asked + QUIET {
                    self.broker_works();
                }
            }
            // While one call tells the broker, the next verdicts gather.
            if settling.is_none() && !self.verdicts.is_empty() {
                crash::point("acknowledge.before");
                settling = Some(source.settle(std::mem::take(&mut self.verdicts)));
            }
            if stop_by.is_some_and(|by| by <= now || (self.jobs.is_empty() && settling.is_none())) {
                break;
            }
            self.show_health();
            let wake = self.wake(now, receiving.is_some().then_some(asked), stop_by);
            tokio::select! {
                biased;
                () = token.cancelled(), if stop_by.is_none() => {
                    stop_by = Some(self.stop());
                    receiving = None;
                }
                // Acknowledging comes before new work: what is acknowledged is never delivered again. An error needs no
                // answer: the broker delivers again what it did not hear of, and receiving finds out why.
                _ = wait_for(&mut settling) => settling = None,
                Some(ended) = self.jobs.join_next_with_id() => self.ended(ended),
                received = wait_for(&mut receiving) => {
                    receiving = None;
                    if !self.received(received) {
                        stop_by = Some(self.stop());
                    }
                }
                () = rest_until(self.begun, wake) => {}
            }
        }
        // What still runs is broken off; its transaction rolls back, and its message is delivered again.
        self.jobs.abort_all();
        source.close().await;
    }

    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Nothing new is begun; what does not run goes back to the broker with the end of the connection.
    fn stop(&mut self) -> Duration {
        self.forget();
        self.now() + self.inner.settings.drain
    }

    /// While the database is away nothing more is received, unless nothing is here to find out with.
    fn may_receive(&self, now: Duration) -> bool {
        let store = !self.store.is_on() || (self.desk.len() == 0 && !self.store.is_closed(now));
        store && self.desk.room() > 0 && !self.broker.is_closed(now)
    }

    fn wake(&self, now: Duration, asked: Option<Duration>, stop_by: Option<Duration>) -> Option<Duration> {
        let quiet = asked.filter(|_| self.broker.is_on()).map(|asked| asked + QUIET);
        let times = [
            stop_by,
            quiet,
            self.desk.due(),
            self.store.due(now),
            self.broker.due(now),
        ];
        times.into_iter().flatten().min()
    }

    /// Takes messages in; false when none will ever come again.
    fn received(&mut self, received: Result<Vec<Incoming>, SourceError>) -> bool {
        let messages = match received {
            Ok(messages) => messages,
            Err(error) if error.kind == SourceErrorKind::Closed => return false,
            Err(error) => {
                self.broker_failed(error);
                return true;
            }
        };
        self.broker_works();
        self.inner.tell(&Note::Received {
            count: messages.len(),
            redelivered: messages.iter().filter(|message| message.redelivered > 0).count(),
        });
        for incoming in messages {
            let (key, delivery) = Delivery::new(incoming, &self.inner.settings, self.commits, self.given_up);
            self.given_up |= delivery.is_given_up();
            let (alone, suspect) = (delivery.is_letter(), delivery.place.suspect);
            let slot = self.desk.put(key, delivery, alone);
            if suspect && !alone {
                self.suspects.insert(slot);
            }
        }
        true
    }

    fn broker_works(&mut self) {
        if self.broker.worked() {
            self.inner.health().source = None;
            self.inner.tell(&Note::SourceBack);
        }
    }

    fn broker_failed(&mut self, error: SourceError) {
        // Every tag is void, and every message comes again: from here it would be worked on twice.
        self.forget();
        self.given_up = false;
        let (kind, advice) = outage::advice(error.kind);
        self.inner.health().source = Some(error.text.clone());
        if self.broker.failed(self.now(), kind).1 {
            self.inner.tell(&Note::SourceFailed {
                kind: error.kind,
                error: error.text,
                advice,
            });
        }
    }

    fn forget(&mut self) {
        self.desk.forget();
        self.suspects.clear();
        // Letters that could not be published were among it, and nothing here waits for their place any more.
        self.inner.health().letters = None;
    }

    /// Starts what may run. While the database is away, one transaction at a time finds out whether it is back.
    fn start(&mut self, now: Duration) {
        let settings = &self.inner.settings;
        let batch = settings.batch.min(self.inner.effects.most()).max(1);
        let (most, batch) = match (self.suspects.is_empty(), self.store.is_on()) {
            (true, false) => (settings.concurrency, batch),
            (true, true) => (1, batch),
            (false, _) if self.telling => return,
            (false, _) => (1, 1),
        };
        while !self.store.is_closed(now) {
            // One at a time means letters as well.
            let aside = if self.suspects.is_empty() {
                self.publishing
            } else {
                0
            };
            let free = most.saturating_sub(self.jobs.len() - aside);
            if free == 0 {
                break;
            }
            // A fair share each: few events run side by side, many run in large batches.
            let share = self.desk.resting().div_ceil(free);
            let taken = self.desk.take(share.clamp(1, batch));
            if taken.is_empty() {
                break;
            }
            self.begin(taken);
            if !self.suspects.is_empty() && !self.verdicts.is_empty() {
                break;
            }
        }
    }

    fn begin(&mut self, taken: Vec<(Slot, Delivery)>) {
        let (mut places, mut deliveries) = (Vec::with_capacity(taken.len()), Vec::with_capacity(taken.len()));
        for (slot, Delivery { place, content }) in taken {
            match content {
                Content::Event(mut received) => {
                    received.attempt = place.attempts.saturating_add(1);
                    deliveries.push(received);
                    places.push((slot, place));
                }
                // A letter is always taken alone.
                letter => {
                    return self.begin_letter(
                        slot,
                        Delivery {
                            place,
                            content: letter,
                        },
                    );
                }
            }
        }
        let deliveries: Arc<[Received]> = deliveries.into();
        let effects = Arc::clone(&self.inner.effects);
        let (consumer, handler) = (Arc::clone(&self.inner.consumer), Arc::clone(&self.inner.handler));
        let batch = Arc::clone(&deliveries);
        let task = self.jobs.spawn(async move {
            let begun = Instant::now();
            let answer = effects.apply(consumer, batch, handler).await;
            let took = begun.elapsed();
            Outcome::Applied { answer, took }
        });
        self.running.insert(task.id(), Job::Apply { places, deliveries });
    }

    fn begin_letter(&mut self, slot: Slot, delivery: Delivery) {
        let Some(letter) = delivery.as_letter(&self.inner.consumer, &self.inner.dead_letters) else {
            self.buried(slot, delivery, Verdict::Reject);
            return;
        };
        let DeadLetters::To { sink, .. } = &self.inner.dead_letters else {
            return;
        };
        let publish = letter::publish(Arc::clone(sink), letter);
        let task = self.jobs.spawn(async move { Outcome::Published(publish.await) });
        let delivery = Box::new(delivery);
        self.publishing += 1;
        self.running.insert(task.id(), Job::Letter { slot, delivery });
    }

    fn ended(&mut self, ended: Result<(Id, Outcome), JoinError>) {
        let (id, outcome) = match ended {
            Ok(ended) => ended,
            Err(error) => (error.id(), Outcome::Panicked(last_words(error))),
        };
        let job = self.running.remove(&id);
        if let Some(Job::Apply { places, .. }) = &job {
            // However it went, they did not end this process.
            self.suspects
                .retain(|slot| places.iter().all(|(ran, _)| ran != slot));
        }
        match (job, outcome) {
            (
                Some(Job::Apply { places, deliveries }),
                Outcome::Applied {
                    answer: Ok(applied),
                    took,
                },
            ) => {
                self.applied(places, &deliveries, &applied, took);
            }
            (
                Some(Job::Apply { places, deliveries }),
                Outcome::Applied {
                    answer: Err(error), ..
                },
            ) => {
                self.not_applied(places, &deliveries, error);
            }
            (Some(Job::Apply { places, deliveries }), Outcome::Panicked(text)) => {
                let error = HandlerError::retry(format!("the handler panicked: {text}"));
                self.not_applied(places, &deliveries, ApplyError::Handler { at: 0, error });
            }
            (Some(Job::Letter { slot, delivery }), outcome) => self.letter_ended(slot, *delivery, outcome),
            (Some(Job::Apply { .. }), Outcome::Published(_)) | (None, _) => {}
        }
    }

    fn show_health(&mut self) {
        let stuck = self.desk.is_stuck();
        let held = self.desk.len();
        let was_stuck = {
            let mut health = self.inner.health();
            health.held = held;
            if held == 0 {
                // Whatever waited for the database was taken back. The next message finds out whether it works.
                health.store = None;
            }
            std::mem::replace(&mut health.stuck, stuck)
        };
        if stuck && !was_stuck {
            self.inner.tell(&Note::Stuck { held });
        }
    }
}

/// What a panic said.
fn last_words(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else {
        return "it was broken off".to_owned();
    };
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic
            .downcast_ref::<&str>()
            .copied()
            .unwrap_or("without words")
            .to_owned(),
    }
}

async fn wait_for<T>(call: &mut Option<BoxFuture<'_, T>>) -> T {
    match call {
        Some(call) => call.await,
        None => std::future::pending().await,
    }
}

async fn rest_until(begun: Instant, time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep_until(begun + time).await,
        None => std::future::pending().await,
    }
}
