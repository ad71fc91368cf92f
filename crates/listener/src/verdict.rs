//! What becomes of a delivery after its transaction, or after its letter.

use std::time::Duration;

use postrider_core::{
    Applied, ApplyError, Blame, Effects, ErrorKind, Failure, HandlerError, Received, StoreError,
    StoreErrorKind, Verdict, causes, inert,
};

use crate::Note;
use crate::delivery::{Content, Delivery, Place};
use crate::desk::Slot;
use crate::letter::{Cause, Reason};
use crate::outage;
use crate::shift::{Outcome, Shift};

impl<E: Effects> Shift<'_, E> {
    /// The transaction is committed: nothing of it is ever delivered again.
    pub(crate) fn applied(
        &mut self,
        places: Vec<(Slot, Place)>,
        deliveries: &[Received],
        applied: &[Applied],
        took: Duration,
    ) {
        if applied.len() != places.len() {
            let error = unanswered(applied.len(), places.len());
            return self.not_applied(places, deliveries, ApplyError::Store(error));
        }
        self.store_works();
        for (slot, place) in places {
            self.verdicts.push((place.tag, Verdict::Done));
            self.desk.done(slot);
        }
        let duplicates = applied.iter().filter(|one| **one == Applied::Before).count();
        // A repetition calls no handler, and so says nothing about whether one can work.
        self.commits += u64::from(duplicates < applied.len());
        self.inner.tell(&Note::Applied {
            effects: applied.len() - duplicates,
            duplicates,
            took,
        });
    }

    /// Nothing took effect. Who is to blame is known of a single event only, so that all of a batch are done over, each
    /// on its own.
    pub(crate) fn not_applied(
        &mut self,
        mut places: Vec<(Slot, Place)>,
        deliveries: &[Received],
        error: ApplyError,
    ) {
        let outage = matches!(&error, ApplyError::Store(error) if is_outage(error.kind()));
        match (deliveries, places.pop()) {
            ([received], Some((slot, place))) if !outage => {
                self.store_answered(&error);
                self.failed(slot, place, received.clone(), error);
            }
            (_, last) => {
                places.extend(last);
                for ((slot, place), received) in places.into_iter().zip(deliveries) {
                    let content = Content::Event(received.clone());
                    self.desk.back(slot, Delivery { place, content }, !outage, None);
                }
                match error {
                    ApplyError::Store(error) if outage => self.store_failed(&error),
                    error => self.store_answered(&error),
                }
            }
        }
    }

    /// One event failed on its own.
    fn failed(&mut self, slot: Slot, place: Place, received: Received, error: ApplyError) {
        match error {
            ApplyError::Handler { error, .. } if error.may_pass() => {
                let charged = match error.blamed() {
                    Blame::Event => true,
                    Blame::Unclear => self.commits > place.commits,
                    Blame::Nobody => false,
                };
                self.retry(slot, place, received, &error, charged);
            }
            ApplyError::Handler { error, .. } => {
                let reason = Reason::new(Cause::Rejected, error.to_string());
                self.bury(slot, place, received, reason);
            }
            ApplyError::Reused { .. } => {
                let reason = Reason::new(Cause::Reused, error.to_string());
                self.bury(slot, place, received, reason);
            }
            ApplyError::Store(error) => {
                // Nobody can tell whether the event or the database is to blame. While nothing else is committed it is
                // the database, and an event must not die of that.
                let charged = self.commits > place.commits;
                self.retry(slot, place, received, &HandlerError::from(error), charged);
            }
        }
    }

    fn retry(
        &mut self,
        slot: Slot,
        mut place: Place,
        received: Received,
        error: &HandlerError,
        charged: bool,
    ) {
        let policy = &self.inner.settings.retry;
        place.failures = place.failures.saturating_add(1);
        place.attempts = place.attempts.saturating_add(u32::from(charged));
        place.commits = self.commits;
        if place.attempts >= policy.max_attempts {
            let text = format!("failed {} times; the last time: {error}", place.attempts);
            return self.bury(slot, place, received, Reason::new(Cause::Attempts, text));
        }
        let asked = error.pause().unwrap_or_default().min(policy.max);
        let retry_in = policy.pause(place.failures).max(asked);
        self.inner.tell(&Note::WillRetry {
            event_id: received.message.event_id.clone(),
            error: inert(&error.to_string(), postrider_core::MAX_ERROR_TEXT),
            attempts: place.attempts,
            retry_in,
        });
        let until = self.now() + retry_in;
        let content = Content::Event(received);
        self.desk
            .back(slot, Delivery { place, content }, true, Some(until));
    }

    /// It becomes a letter, which takes its place in the line: its followers come after it.
    fn bury(&mut self, slot: Slot, mut place: Place, received: Received, reason: Reason) {
        place.failures = 0;
        let content = Content::Letter {
            message: received.message,
            reason,
        };
        self.desk.back(slot, Delivery { place, content }, true, None);
    }

    /// A letter is where it belongs.
    pub(crate) fn buried(&mut self, slot: Slot, delivery: Delivery, verdict: Verdict) {
        self.verdicts.push((delivery.place.tag, verdict));
        self.desk.done(slot);
        if let Content::Letter { message, reason } = delivery.content {
            self.inner.tell(&Note::DeadLetter {
                event_id: message.event_id,
                reason,
            });
        }
    }

    pub(crate) fn letter_ended(&mut self, slot: Slot, mut delivery: Delivery, outcome: Outcome) {
        self.publishing -= 1;
        let failure = match outcome {
            Outcome::Published(Ok(())) => {
                if self.letters.worked() {
                    self.inner.health().letters = None;
                    self.inner.tell(&Note::LettersBack);
                }
                return self.buried(slot, delivery, Verdict::Done);
            }
            Outcome::Published(Err(failure)) => failure,
            _ => Failure::new(ErrorKind::Unknown, "the sink panicked"),
        };
        delivery.place.failures = delivery.place.failures.saturating_add(1);
        let until = self.now() + outage::pause(delivery.place.failures);
        // One that was taken back in the meantime waits for nothing, and may never be a letter again.
        if self.desk.back(slot, delivery, true, Some(until)) {
            self.inner.health().letters = Some(failure.text.clone());
        }
        if self.letters.failed(self.now(), failure.kind.as_str()).1 {
            self.inner.tell(&Note::LettersFailed {
                advice: failure.kind.policy().sentence,
                error: failure.text,
            });
        }
    }

    /// Whoever is told that a handler failed or an id is reused has spoken with the database.
    fn store_answered(&mut self, error: &ApplyError) {
        if !matches!(error, ApplyError::Store(_)) {
            self.store_works();
        }
    }

    fn store_works(&mut self) {
        if self.store.worked() {
            self.inner.health().store = None;
            self.inner.tell(&Note::StoreBack);
        }
    }

    fn store_failed(&mut self, error: &StoreError) {
        let text = inert(&causes(error), postrider_core::MAX_ERROR_TEXT);
        self.inner.health().store = Some(text.clone());
        if self.store.failed(self.now(), error.kind().as_str()).1 {
            self.inner.tell(&Note::StoreFailed {
                kind: error.kind(),
                error: text,
                advice: error.advice(),
            });
        }
    }
}

/// What is said of effects that did not answer for each delivery. To acknowledge those without an answer might lose
/// them.
fn unanswered(answers: usize, deliveries: usize) -> StoreError {
    let text = format!("the effects of {deliveries} deliveries have {answers} answers");
    StoreError::new(StoreErrorKind::Other, text)
        .with_advice("mend what implements `Effects`: it answers once for each delivery")
}

/// Whether no other event would fare better.
fn is_outage(kind: StoreErrorKind) -> bool {
    use StoreErrorKind::{Corrupt, Invalid, Other};
    !matches!(kind, Other | Corrupt | Invalid)
}
