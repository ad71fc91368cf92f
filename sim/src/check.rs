//! What must hold: watched at every arrival and every settle, and judged at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use postrider_core::{DestinationName, EventId, JobId, Leaves, Park, Payload, Seq, Settle, Settled, Then};
use postrider_testkit::model::{Model, Parked};

use crate::copies::Copies;
use crate::writers::{Writers, Written};

/// A message that reached its destination.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) event: EventId,
    pub(crate) destination: DestinationName,
    pub(crate) life: u64,
    /// It says that it may be a repeat.
    pub(crate) marked: bool,
    /// It left before its relay lost the right to send it, and arrives after.
    pub(crate) stray: bool,
    /// It is a copy that this replay made.
    pub(crate) replay: Option<JobId>,
}

type Place = (EventId, DestinationName);

/// What is due within this time is not worth waiting for.
const SOON: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Check {
    violations: Vec<String>,
    pub(crate) arrivals: BTreeMap<Place, Seen>,
    /// Discarded, by event and destination; none for rows without one.
    pub(crate) discards: BTreeSet<(EventId, Option<DestinationName>)>,
    discarded: BTreeMap<(Seq, Option<DestinationName>), Parked>,
    /// Was dead at a destination whose dead are skipped: no order is promised any more.
    skipped: BTreeSet<Place>,
    redriven: BTreeSet<(EventId, Option<DestinationName>)>,
    rejections: BTreeMap<Place, u32>,
    /// How often each was found guilty of taking its connection down.
    guilty: BTreeMap<Place, u32>,
    /// Payloads before people changed them.
    pub(crate) originals: BTreeMap<(Seq, Option<DestinationName>), Payload>,
    /// Times that people gave to scheduled events.
    pub(crate) moved: BTreeMap<Place, Duration>,
    /// No longer in the history: a producer that repeats one of these is not noticed.
    pub(crate) purged: BTreeSet<EventId>,
    pub(crate) copies: Copies,
    /// Since when keys are paused.
    paused: BTreeMap<String, Duration>,
    pub(crate) reconfigured: bool,
    pub(crate) duplicates: u64,
    pub(crate) allowed: u64,
}

#[derive(Debug)]
pub(crate) struct Seen {
    life: u64,
    settled: bool,
    stray: bool,
}

impl Check {
    pub(crate) fn violation(&mut self, what: String) {
        self.violations.push(what);
    }

    /// The time that people gave an event for a destination. What is routed anew takes it along from where it stood.
    fn moved_to(&self, place: &Place, written: &Written) -> Option<Duration> {
        let stood = written.obligations().iter().filter(|_| written.kind == 'E');
        let stood = stood.map(|name| (place.0.clone(), DestinationName::from(*name)));
        let mut places = std::iter::once(place.clone()).chain(stood);
        places.find_map(|place| self.moved.get(&place).copied())
    }

    pub(crate) fn has_violations(&self) -> bool {
        !self.violations.is_empty()
    }

    pub(crate) fn into_violations(self) -> Vec<String> {
        self.violations
    }

    pub(crate) fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// A fault gives cause for so many repeats.
    pub(crate) fn allow_repeats(&mut self, count: u64) {
        self.allowed += count;
    }

    /// The broker itself made a second copy.
    pub(crate) fn doubled(&mut self) {
        self.duplicates += 1;
    }

    pub(crate) fn rejected(&mut self, event: &str, destination: &DestinationName) {
        *self
            .rejections
            .entry((event.into(), destination.clone()))
            .or_default() += 1;
    }

    pub(crate) fn guilty(&mut self, event: EventId, destination: DestinationName) {
        *self.guilty.entry((event, destination)).or_default() += 1;
    }

    pub(crate) fn redriven(&mut self, event: &EventId, destination: Option<&DestinationName>) {
        self.allowed += 1;
        self.redriven.insert((event.clone(), destination.cloned()));
    }

    /// Dead at a destination whose dead are skipped: its followers may pass from here on.
    pub(crate) fn passed_over(&mut self, event: &EventId, destination: &DestinationName) {
        self.skipped.insert((event.clone(), destination.clone()));
    }

    pub(crate) fn reconfigured(&mut self) {
        self.reconfigured = true;
    }

    pub(crate) fn discarded(&mut self, parked: Parked) {
        let destination = parked.destination.clone();
        if parked.row.replay.is_some() {
            self.copies.given_up(&parked);
        } else {
            self.discards
                .insert((parked.row.event.id.clone(), destination.clone()));
        }
        self.discarded.insert((parked.row.seq, destination), parked);
    }

    pub(crate) fn discarded_row(&self, seq: Seq, destination: Option<&DestinationName>) -> Option<Parked> {
        self.discarded.get(&(seq, destination.cloned())).cloned()
    }

    /// What a relay published that is not settled yet: it will be sent again when the relay forgets it.
    pub(crate) fn arrived_unsettled(&self, life: u64) -> u64 {
        self.arrivals
            .values()
            .filter(|seen| seen.life == life && !seen.settled)
            .count() as u64
    }

    /// A message arrives.
    pub(crate) fn arrived(
        &mut self,
        now: Duration,
        model: &Model,
        writers: &Writers,
        arrival: Arrival,
        changed: bool,
    ) {
        let Arrival {
            event,
            destination,
            life,
            marked,
            stray,
            ..
        } = arrival;
        let place = (event.clone(), destination.clone());
        let Some(written) = writers.events.get(&event) else {
            return self.violation(format!("P: {event} arrived and was never written"));
        };
        if written.committed.is_none_or(|at| at > now) {
            return self.violation(format!(
                "P: {event} arrived at {destination} and was not committed"
            ));
        }
        let early = written.not_before.map(|at| at.saturating_sub(SOON));
        if self
            .moved_to(&place, written)
            .or(early)
            .is_some_and(|at| now < at)
        {
            return self.violation(format!("early: {event} arrived at {destination} before its time"));
        }
        // What a relay had in memory still goes; what was committed later is read as blocked.
        let paused = self.paused.get(&written.key);
        if paused.is_some_and(|since| written.committed > Some(*since)) && !written.scheduled {
            return self.violation(format!(
                "R6: {event} arrived although its key was paused before it"
            ));
        }
        if let Some(seen) = self.arrivals.get(&place) {
            self.duplicates += 1;
            // Another relay took over before the first one could settle; that it had the right to is checked elsewhere.
            self.allowed += u64::from(seen.life != life && !seen.settled);
            // What was discarded while a relay had it in hand may go out unrecorded, so a producer's repeat goes out
            // too.
            let discarded = self
                .discards
                .contains(&(event.clone(), Some(destination.clone())));
            // Another event under the same id, which a person looked at and wants sent.
            let reused = writers.reused.contains(&event) && self.redriven_at(&event, &destination);
            let forgotten = self.purged.contains(&event) && writers.repeated.contains(&event);
            self.allowed += u64::from(forgotten);
            let excused = stray || seen.stray || discarded || reused || forgotten;
            if let Some(seen) = self.arrivals.get_mut(&place) {
                seen.life = life;
                seen.settled = false;
                seen.stray |= stray;
            }
            if !marked && !excused {
                self.violation(format!(
                    "marks: {event} arrived at {destination} again and does not say so"
                ));
            }
            return;
        }
        self.arrivals.insert(
            place,
            Seen {
                life,
                settled: false,
                stray,
            },
        );
        if !written.scheduled {
            self.check_order(model, writers, &event, written, &destination, changed);
        }
    }

    /// A copy arrives. Where dead rows are passed over, or routes have changed, copies have no order to keep.
    pub(crate) fn copy_arrived(&mut self, writers: &Writers, arrival: &Arrival, skip: bool) {
        let ordered = !skip && !self.reconfigured;
        let (Some(written), Some(replay)) = (writers.events.get(&arrival.event), &arrival.replay) else {
            return self.violation(format!("P: a copy of {} arrived", arrival.event));
        };
        let wrong = self.copies.arrived(arrival, replay, written, writers, ordered);
        self.violations.extend(wrong);
    }

    pub(crate) fn key_paused(&mut self, now: Duration, key: &str) {
        self.paused.entry(key.to_owned()).or_insert(now);
    }

    /// Whether a key is paused, and was before this moment.
    pub(crate) fn is_paused(&self, key: &str, before: Duration) -> bool {
        self.paused.get(key).is_some_and(|since| *since < before)
    }

    pub(crate) fn key_resumed(&mut self, key: &str) {
        self.paused.remove(key);
    }

    fn redriven_at(&self, event: &EventId, destination: &DestinationName) -> bool {
        self.redriven
            .contains(&(event.clone(), Some(destination.clone())))
            || self.redriven.contains(&(event.clone(), None))
    }

    /// Every event of the key that was committed before this one was inserted must have arrived, or be out of the way.
    fn check_order(
        &mut self,
        model: &Model,
        writers: &Writers,
        event: &EventId,
        written: &Written,
        destination: &DestinationName,
        changed: bool,
    ) {
        let before =
            |one: &Written| one.committed.is_some_and(|at| at <= written.inserted) && one.seq < written.seq;
        let same_tx = |one: &Written| one.committed == written.committed && one.committed.is_some();
        for id in &writers.by_key[&written.key] {
            let earlier = &writers.events[id];
            let ordered = (before(earlier) || same_tx(earlier)) && earlier.seq < written.seq;
            if id == event || !ordered || earlier.lane != written.lane || earlier.scheduled {
                continue;
            }
            if earlier.bad || (earlier.kind == 'X' && !changed && !self.reconfigured) {
                // It could not be routed: it holds its key everywhere until a person has decided.
                let queued = model.queued().any(|row| row.seq == earlier.seq);
                if queued || model.parked_row(earlier.seq, None).is_some() {
                    self.violation(format!(
                        "O: {event} passed {id}, which has no destination and is undecided"
                    ));
                }
                continue;
            }
            let owed = earlier.obligations().contains(&destination.as_str());
            let place = (id.clone(), destination.clone());
            let done = self.arrivals.contains_key(&place)
                || self.discards.contains(&(id.clone(), Some(destination.clone())))
                || self.discards.contains(&(id.clone(), None))
                || self.skipped.contains(&place);
            // After a change of routes an event of the types concerned may be owed elsewhere.
            let moved = self.reconfigured && matches!(earlier.kind, 'E' | 'X');
            if owed && !done && !moved {
                self.violation(format!(
                    "O: {event} arrived at {destination} before {id} of key {}",
                    written.key
                ));
            }
        }
    }

    /// A settle was written.
    pub(crate) fn settled(
        &mut self,
        _now: Duration,
        model: &Model,
        settle: &Settle,
        answers: &[Settled],
        skip: bool,
    ) {
        let queued = settle.queued.len();
        for (entry, answer) in settle.queued.iter().zip(answers) {
            if *answer != Settled::Done {
                continue;
            }
            if let Leaves::Decided { sent, parked } = &entry.leaves {
                for (destination, _) in sent {
                    self.was_sent(&entry.event_id, destination);
                }
                for park in parked {
                    self.was_parked(&entry.event_id, park, skip);
                }
            }
        }
        for (entry, answer) in settle.parked.iter().zip(&answers[queued.min(answers.len())..]) {
            let place = (entry.seq, entry.destination.clone());
            if self.discarded.contains_key(&place)
                && model.parked_row(entry.seq, entry.destination.as_ref()).is_some()
            {
                self.violation(format!("discard: the discarded row {:?} came back", entry.seq));
            }
            if *answer != Settled::Done {
                continue;
            }
            let event = model
                .parked_row(entry.seq, entry.destination.as_ref())
                .filter(|parked| parked.row.replay.is_none())
                .map(|row| row.row.event.id.clone());
            match (&entry.then, &entry.destination) {
                (Then::Sent(_), Some(destination)) => {
                    let sent = model
                        .sent_to(destination)
                        .find(|record| record.row.seq == entry.seq);
                    let sent = sent.map(|record| (record.row.event.id.clone(), record.row.replay.clone()));
                    match sent {
                        Some((id, None)) => self.was_sent(&id, destination),
                        Some((id, Some(replay))) => self.copy_was_sent(JobId(replay), id, destination),
                        None => {}
                    }
                }
                (Then::Again(park), _) => {
                    if let Some(id) = event {
                        self.was_parked(&id, park, skip);
                    }
                }
                _ => {}
            }
        }
    }

    fn was_sent(&mut self, event: &EventId, destination: &DestinationName) {
        match self.arrivals.get_mut(&(event.clone(), destination.clone())) {
            Some(seen) => seen.settled = true,
            None => self.violation(format!(
                "L: {event} is settled as sent to {destination} and never arrived"
            )),
        }
    }

    fn copy_was_sent(&mut self, replay: JobId, event: EventId, destination: &DestinationName) {
        let copy = (replay, event, destination.clone());
        if !self.copies.has_arrived(&copy) {
            self.violation(format!(
                "R3: the copy {copy:?} is settled as sent and never arrived"
            ));
        }
    }

    fn was_parked(&mut self, event: &EventId, park: &Park, skip: bool) {
        let Some(destination) = &park.destination else {
            return;
        };
        let place = (event.clone(), destination.clone());
        if park.dead && skip {
            self.skipped.insert(place.clone());
        }
        let rejected = self.rejections.get(&place).copied().unwrap_or(0);
        // Three times unavailable, alone and with others passing between, counts as one rejection.
        let guilty = self.guilty.get(&place).copied().unwrap_or(0);
        if park.attempts > rejected + guilty {
            let charged = park.attempts;
            self.violation(format!(
                "charge: {event} has {charged} attempts at {destination}, rejected {rejected} times"
            ));
        }
    }
}
