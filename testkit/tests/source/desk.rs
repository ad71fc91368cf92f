//! A queue on a desk, with a place to break its sources.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use postrider_core::{Address, BoxFuture, Incoming, Message, Source, SourceError, SourceErrorKind, Verdict};
use postrider_testkit::source::{SourceCapabilities, SourceHarness, TestQueue};
use tokio::sync::Notify;

/// Deliveries that a sound source holds.
const PREFETCH: usize = 25;

/// What may be wrong with a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    SettlesAtDelivery,
    SettlesAllBefore,
    KeepsWhatItHeld,
    TakesBeforeItWaits,
    DropsRejected,
    ForgetsAtRestart,
    CountsTagsAnew,
    FailsAtStrangeTags,
    TrimsBodies,
    DropsHeaders,
    SkipsForeign,
    TurnsRound,
    CountsNothing,
    HoldsEverything,
    KeepsEveryVerdict,
    StartsAnewInSilence,
    WaitsForEver,
}

pub(crate) struct Desks(Flaw);

impl Desks {
    pub(crate) fn sound() -> Self {
        Self(Flaw::None)
    }

    pub(crate) fn with(flaw: Flaw) -> Self {
        Self(flaw)
    }
}

impl SourceHarness for Desks {
    fn capabilities(&self) -> SourceCapabilities {
        SourceCapabilities {
            // Nothing here takes any time, and broken sources are waited for in vain.
            patience: Duration::from_secs(2),
            ..SourceCapabilities::default()
        }
    }

    fn fresh(&self) -> BoxFuture<'_, Box<dyn TestQueue>> {
        let desk = Desk {
            flaw: self.0,
            state: Mutex::default(),
            changed: Notify::new(),
        };
        Box::pin(async { Box::new(Queue(Arc::new(desk))) as Box<dyn TestQueue> })
    }
}

struct Desk {
    flaw: Flaw,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Messages by their place, each with how often it was delivered.
    ready: BTreeMap<u64, (Message, u32)>,
    /// Deliveries without a verdict: by source and tag, what is at which place.
    held: BTreeMap<(u64, u64), (u64, Message, u32)>,
    rejected: Vec<String>,
    next: u64,
    /// Whether verdicts are refused.
    refuses: bool,
    /// How many verdicts were given.
    verdicts: u64,
    /// Raised with every cut: a source that has another number has lost its connection.
    life: u64,
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn give_back(&mut self, whose: impl Fn(u64) -> bool) {
        let held = std::mem::take(&mut self.held);
        for ((source, tag), (place, message, count)) in held {
            match whose(source) {
                true => drop(self.ready.insert(place, (message, count))),
                false => drop(self.held.insert((source, tag), (place, message, count))),
            }
        }
    }
}

struct Queue(Arc<Desk>);

impl TestQueue for Queue {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Source>> {
        let source = DeskSource {
            desk: self.0.clone(),
            id: self.0.state().number(),
            own: Mutex::default(),
        };
        Box::pin(async { Arc::new(source) as Arc<dyn Source> })
    }

    fn prefetch(&self) -> usize {
        PREFETCH
    }

    fn put(&self, messages: Vec<Message>) -> BoxFuture<'_, ()> {
        let mut state = self.0.state();
        for message in messages {
            let place = state.number();
            state.ready.insert(place, (message, 0));
        }
        self.0.changed.notify_waiters();
        Box::pin(async {})
    }

    fn put_foreign(&self, body: &'static [u8]) -> BoxFuture<'_, ()> {
        self.put(vec![Message {
            event_id: "".into(),
            order_key: "".into(),
            message_key: String::new(),
            address: Address::default(),
            content_type: String::new(),
            headers: Vec::new(),
            body: body.into(),
        }])
    }

    fn rejected(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async { self.0.state().rejected.clone() })
    }

    fn cut(&self) -> BoxFuture<'_, ()> {
        let mut state = self.0.state();
        state.life += 1;
        state.give_back(|_| true);
        self.0.changed.notify_waiters();
        Box::pin(async {})
    }

    fn refuse_verdicts(&self, refuse: bool) -> BoxFuture<'_, ()> {
        self.0.state().refuses = refuse;
        Box::pin(async {})
    }

    fn kept(&self) -> BoxFuture<'_, u64> {
        let state = self.0.state();
        let kept = match self.0.flaw {
            Flaw::KeepsEveryVerdict => state.verdicts,
            _ => state.held.len() as u64,
        };
        Box::pin(async move { kept * 8 })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        self.cut()
    }

    fn start(&self) -> BoxFuture<'_, ()> {
        if self.0.flaw == Flaw::ForgetsAtRestart {
            self.0.state().ready.clear();
        }
        Box::pin(async {})
    }
}

struct DeskSource {
    desk: Arc<Desk>,
    id: u64,
    own: Mutex<Own>,
}

#[derive(Default)]
struct Own {
    life: u64,
    last_tag: u64,
    closed: bool,
}

fn error(kind: SourceErrorKind) -> SourceError {
    SourceError {
        kind,
        text: "it cannot be read".into(),
    }
}

impl DeskSource {
    /// What is there now.
    fn take(&self, max: usize) -> Result<Vec<Incoming>, SourceError> {
        let (flaw, mut state, mut own) = (self.desk.flaw, self.desk.state(), self.own.lock().unwrap());
        if own.closed && flaw != Flaw::WaitsForEver {
            return Err(error(SourceErrorKind::Closed));
        }
        if own.life != state.life {
            own.life = state.life;
            if flaw == Flaw::CountsTagsAnew {
                own.last_tag = 0;
            }
            if flaw != Flaw::StartsAnewInSilence {
                return Err(error(SourceErrorKind::Unreachable));
            }
        }
        let mut taken = Vec::new();
        loop {
            let holds = state.held.keys().filter(|(source, _)| *source == self.id).count();
            let next = match flaw {
                Flaw::TurnsRound => state.ready.last_entry(),
                _ => state.ready.first_entry(),
            };
            let full = holds >= PREFETCH && flaw != Flaw::HoldsEverything;
            let Some(next) = next.filter(|_| taken.len() < max && !full) else {
                return Ok(taken);
            };
            let (place, (message, count)) = next.remove_entry();
            if flaw == Flaw::SkipsForeign && message.event_id.as_str().is_empty() {
                continue;
            }
            own.last_tag += 1;
            if flaw != Flaw::SettlesAtDelivery {
                let held = (place, message.clone(), count + 1);
                state.held.insert((self.id, own.last_tag), held);
            }
            taken.push(Incoming {
                message: spoilt(message, flaw),
                tag: own.last_tag,
                redelivered: if flaw == Flaw::CountsNothing { 0 } else { count },
            });
        }
    }
}

fn spoilt(mut message: Message, flaw: Flaw) -> Message {
    match flaw {
        Flaw::TrimsBodies => {
            message.body = String::from_utf8_lossy(&message.body).trim().to_owned().into();
        }
        Flaw::DropsHeaders => message.headers.clear(),
        _ => {}
    }
    message
}

impl Source for DeskSource {
    fn receive(&self, max: usize) -> BoxFuture<'_, Result<Vec<Incoming>, SourceError>> {
        Box::pin(async move {
            loop {
                let changed = self.desk.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                let taken = self.take(max)?;
                if !taken.is_empty() {
                    if self.desk.flaw == Flaw::TakesBeforeItWaits {
                        // Dropped here, nobody gets what was taken. Long enough to be dropped on a busy machine too.
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    return Ok(taken);
                }
                changed.await;
            }
        })
    }

    fn settle(&self, verdicts: Vec<(u64, Verdict)>) -> BoxFuture<'_, Result<(), SourceError>> {
        Box::pin(async move {
            let (flaw, mut state) = (self.desk.flaw, self.desk.state());
            if state.refuses {
                state.life += 1;
                state.give_back(|_| true);
                return Err(error(SourceErrorKind::Unreachable));
            }
            state.verdicts += verdicts.len() as u64;
            for (tag, verdict) in verdicts {
                let Some((place, message, count)) = state.held.remove(&(self.id, tag)) else {
                    if flaw == Flaw::FailsAtStrangeTags {
                        return Err(error(SourceErrorKind::Unreachable));
                    }
                    continue;
                };
                if flaw == Flaw::SettlesAllBefore {
                    state
                        .held
                        .retain(|(source, other), _| *source != self.id || *other > tag);
                }
                match verdict {
                    Verdict::Again => drop(state.ready.insert(place, (message, count))),
                    Verdict::Reject if flaw != Flaw::DropsRejected => {
                        state.rejected.push(message.event_id.to_string());
                    }
                    Verdict::Reject | Verdict::Done => {}
                }
            }
            self.desk.changed.notify_waiters();
            Ok(())
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let mut state = self.desk.state();
        self.own.lock().unwrap().closed = true;
        if self.desk.flaw == Flaw::KeepsWhatItHeld {
            state.held.retain(|(source, _), _| *source != self.id);
        } else {
            state.give_back(|source| source == self.id);
        }
        self.desk.changed.notify_waiters();
        Box::pin(async {})
    }
}
