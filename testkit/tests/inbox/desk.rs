//! Effects in memory, sound or with one flaw.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use postrider_core::{Applied, ApplyError, BoxFuture, Effects, Received, header};
use postrider_testkit::effects::{MemoryEffects, MemoryHandler, Work};
use postrider_testkit::inbox::{Applies, EffectsCapabilities, EffectsHarness, Feature, Script, TestInbox};

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// It looks whether an event is recorded, and records it after its effect.
    LooksFirst,
    /// It calls a failure of the handler a success.
    SwallowsErrors,
    /// It records what failed.
    RecordsFailures,
    MixesConsumers,
    IgnoresCase,
    IgnoresHashes,
    RunsRepetitionsOfABatch,
    TurnsRound,
    /// It records what no index holds.
    TakesAnyId,
    /// It has every effect happen on its own, and says that it takes any number.
    OneAfterTheOther,
    /// It leaves out the answer for the last one of a batch.
    AnswersShort,
}

pub(crate) struct Desks(Option<Flaw>);

impl Desks {
    pub(crate) fn sound() -> Self {
        Self(None)
    }

    pub(crate) fn with(flaw: Flaw) -> Self {
        Self(Some(flaw))
    }
}

impl EffectsHarness for Desks {
    fn capabilities(&self) -> EffectsCapabilities {
        EffectsCapabilities {
            lacks: vec![
                (Feature::Forget, "effects in memory forget nothing"),
                (Feature::Trips, "effects in memory have no statements"),
                (Feature::Ends, "effects in memory have no statements"),
            ],
        }
    }

    fn fresh(&self) -> BoxFuture<'_, Box<dyn TestInbox>> {
        let desk = Desk {
            effects: MemoryEffects::new(),
            flaw: self.0,
            seen: Arc::default(),
            calls: Arc::default(),
        };
        Box::pin(async { Box::new(desk) as Box<dyn TestInbox> })
    }
}

#[derive(Clone)]
struct Desk {
    effects: MemoryEffects,
    flaw: Option<Flaw>,
    seen: Arc<Mutex<BTreeSet<String>>>,
    calls: Arc<AtomicUsize>,
}

impl TestInbox for Desk {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Applies>> {
        let desk = self.clone();
        Box::pin(async { Arc::new(desk) as Arc<dyn Applies> })
    }

    fn effects(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async { self.effects.rows() })
    }
}

impl Applies for Desk {
    fn most(&self) -> usize {
        self.effects.most()
    }

    fn apply(
        &self,
        consumer: &str,
        mut deliveries: Vec<Received>,
        script: Arc<Script>,
    ) -> BoxFuture<'_, Result<Vec<Applied>, ApplyError>> {
        let consumer = match self.flaw {
            Some(Flaw::MixesConsumers) => "all",
            _ => consumer,
        };
        if self.flaw == Some(Flaw::OneAfterTheOther) {
            return self.one_after_the_other(consumer.into(), deliveries, script);
        }
        let ids: Vec<String> = deliveries.iter().map(|one| one.record_id.clone()).collect();
        let known = self.spoil(&mut deliveries);
        let applied = self
            .effects
            .apply(consumer.into(), deliveries.into(), follows(script));
        Box::pin(async move {
            if known {
                return Ok(vec![Applied::Before; ids.len()]);
            }
            let applied = applied.await;
            if applied.is_ok() || self.flaw == Some(Flaw::RecordsFailures) {
                self.seen.lock().unwrap().extend(ids);
            }
            match (self.flaw, applied) {
                (Some(Flaw::SwallowsErrors), Err(_)) => Ok(vec![Applied::Now]),
                (Some(Flaw::AnswersShort), Ok(mut applied)) => {
                    applied.pop();
                    Ok(applied)
                }
                (_, applied) => applied,
            }
        })
    }
}

/// A handler that writes the effect and follows the script.
fn follows(script: Arc<Script>) -> Arc<MemoryHandler> {
    Arc::new(move |event: Received, work: Work| {
        work.write(event.event_id());
        script(&event)
    })
}

impl Desk {
    fn one_after_the_other(
        &self,
        consumer: Arc<str>,
        deliveries: Vec<Received>,
        script: Arc<Script>,
    ) -> BoxFuture<'_, Result<Vec<Applied>, ApplyError>> {
        Box::pin(async move {
            let mut applied = Vec::new();
            for (at, one) in deliveries.into_iter().enumerate() {
                let alone = Arc::new([one]);
                let done = self
                    .effects
                    .apply(consumer.clone(), alone, follows(script.clone()));
                match done.await {
                    Err(ApplyError::Handler { error, .. }) => return Err(ApplyError::Handler { at, error }),
                    done => applied.extend(done?),
                }
            }
            Ok(applied)
        })
    }

    /// Makes of the deliveries what the flaw makes of them; true when it takes them for known.
    fn spoil(&self, deliveries: &mut [Received]) -> bool {
        let is_seen = |one: &Received| self.seen.lock().unwrap().contains(&one.record_id);
        match self.flaw {
            Some(Flaw::LooksFirst) => {
                let known = deliveries.iter().all(is_seen);
                self.tell_apart(deliveries);
                return known;
            }
            Some(Flaw::RecordsFailures) => return deliveries.iter().all(is_seen),
            Some(Flaw::RunsRepetitionsOfABatch) if deliveries.len() > 1 => self.tell_apart(deliveries),
            Some(Flaw::TakesAnyId) => self.tell_apart(deliveries),
            Some(Flaw::TurnsRound) => deliveries.reverse(),
            Some(Flaw::IgnoresCase) => {
                for one in deliveries {
                    one.record_id = one.record_id.to_lowercase();
                }
            }
            Some(Flaw::IgnoresHashes) => {
                for one in deliveries {
                    one.message
                        .headers
                        .retain(|(name, _)| name != header::PAYLOAD_HASH);
                }
            }
            _ => {}
        }
        false
    }

    /// Gives every delivery an id of its own.
    fn tell_apart(&self, deliveries: &mut [Received]) {
        for one in deliveries {
            one.record_id = self.calls.fetch_add(1, Ordering::SeqCst).to_string();
        }
    }
}
