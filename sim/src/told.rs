//! What a relay was told, and whether it keeps to it: pauses, limits, and rows as they were when it read them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Answer, Blocked, Class, Controls, DestinationName, Event, EventId, Limits, Page, QueuedRow, Read,
};
use postrider_relay::engine::{Call, Fact, Outgoing};
use postrider_testkit::model::{Model, Parked};

use crate::world::World;

/// An event, the replay that copied it, and the destination for which it is parked; none for a queued one.
type Row = (EventId, Option<Arc<str>>, Option<DestinationName>);

#[derive(Debug, Default)]
pub(crate) struct Told {
    controls: Controls,
    /// When the relay heard that, when the database said it, and when it said what is on its way.
    heard_at: Duration,
    told_at: Duration,
    pub(crate) says_at: Duration,
    unanswered: BTreeMap<Call, (DestinationName, Vec<EventId>)>,
    /// Calls to each destination with which something was confirmed.
    successes: BTreeMap<DestinationName, u64>,
    /// How often an event was alone and not answered, with others passing between, and how many there had been then.
    strikes: BTreeMap<(EventId, DestinationName), (u32, u64)>,
    buckets: BTreeMap<DestinationName, Bucket>,
    /// Rows as a read last gave them.
    given: BTreeMap<Row, Given>,
    /// When the relay last heard of rows.
    heard: BTreeMap<Row, Duration>,
}

#[derive(Debug)]
struct Given {
    at: Duration,
    event: Arc<Event>,
}

/// What a rate leaves room for: a tenth of a second's worth at once, and at least one.
#[derive(Debug)]
struct Bucket {
    rate: u32,
    level: f64,
    at: Duration,
}

impl Told {
    /// A fact reaches the relay. Gives the event that may be charged for it: it was alone when its destination did not
    /// answer, for the third time with others passing between.
    pub(crate) fn hear(&mut self, now: Duration, fact: &Fact) -> Option<(EventId, DestinationName)> {
        match fact {
            Fact::Read(_, Ok(page)) => {
                for row in &page.queued {
                    self.heard.insert((row.event_id.clone(), None, None), now);
                }
                for one in &page.parked {
                    let row = (
                        one.row.event_id.clone(),
                        one.row.replay.clone(),
                        one.destination.clone(),
                    );
                    self.heard.insert(row, now);
                }
                None
            }
            Fact::Stood(_, Ok(standing)) => {
                self.controls = standing.controls.clone();
                self.told_at = self.says_at;
                self.heard_at = now;
                None
            }
            Fact::Published(call, answers) => self.hear_answers(*call, answers),
            _ => None,
        }
    }

    fn hear_answers(&mut self, call: Call, answers: &[Answer]) -> Option<(EventId, DestinationName)> {
        let (destination, mut events) = self.unanswered.remove(&call)?;
        let successes = self.successes.entry(destination.clone()).or_default();
        if answers.iter().any(|one| matches!(one, Answer::Confirmed(_))) {
            *successes += 1;
        }
        let is_lost = |answer: &&Answer| match answer {
            Answer::Failed(failure) => failure.kind.policy().class == Class::Unavailable,
            _ => false,
        };
        // One that was not tried, behind another of its key, has shown nothing.
        let is_untried = |answer: &&Answer| match answer {
            Answer::Failed(failure) => failure.kind.policy().class == Class::NotAttempted,
            _ => false,
        };
        let is_told = |answer: &&Answer| !is_lost(answer) && !is_untried(answer);
        for (event, _) in events.iter().zip(answers).filter(|(_, answer)| is_told(answer)) {
            self.strikes.remove(&(event.clone(), destination.clone()));
        }
        let alone = events.len() == 1 && answers.first().is_some_and(|answer| is_lost(&answer));
        let place = (events.pop().filter(|_| alone)?, destination);
        let (strikes, at) = self.strikes.entry(place.clone()).or_insert((0, u64::MAX));
        if *at != *successes {
            (*strikes, *at) = (*strikes + 1, *successes);
        }
        if *strikes < 3 {
            return None;
        }
        self.strikes.remove(&place);
        Some(place)
    }

    /// The relay waits for these answers no longer.
    pub(crate) fn abandon(&mut self, calls: &[Call]) {
        for call in calls {
            self.unanswered.remove(call);
        }
    }

    /// The relay hands over; gives what is wrong with that.
    fn hand_over(
        &mut self,
        now: Duration,
        call: Call,
        destination: &DestinationName,
        batch: &[Outgoing],
        configured: Limits,
    ) -> Option<String> {
        let events = batch.len();
        let ids = batch.iter().map(|outgoing| outgoing.event.id.clone()).collect();
        self.unanswered.insert(call, (destination.clone(), ids));
        if self.controls.paused || self.controls.paused_destinations.contains(destination) {
            return Some(format!(
                "pause: {events} events were handed to {destination}, which is paused"
            ));
        }
        let changed = self.controls.limits.get(destination).copied().unwrap_or_default();
        let limits = Limits {
            max_in_flight: changed.max_in_flight.or(configured.max_in_flight),
            max_rate: changed.max_rate.or(configured.max_rate),
        };
        let flying = self.unanswered.values().filter(|(at, _)| at == destination);
        let flying: usize = flying.map(|(_, events)| events.len()).sum();
        if limits.max_in_flight.is_some_and(|most| flying > most as usize) {
            return Some(format!(
                "limit: {flying} events are in flight to {destination}, {limits:?}"
            ));
        }
        let over = self.is_over_rate(now, destination, events, limits.max_rate);
        over.then(|| format!("limit: {events} events more than the rate of {destination} allows, {limits:?}"))
    }

    fn is_over_rate(
        &mut self,
        now: Duration,
        destination: &DestinationName,
        events: usize,
        rate: Option<u32>,
    ) -> bool {
        let Some(rate) = rate else {
            self.buckets.remove(destination);
            return false;
        };
        let empty = || Bucket {
            rate,
            level: 0.0,
            at: now,
        };
        let bucket = self.buckets.entry(destination.clone()).or_insert_with(empty);
        if bucket.rate != rate {
            *bucket = empty();
        }
        let drained = (now - bucket.at).as_secs_f64() * f64::from(rate);
        bucket.level = (bucket.level - drained).max(0.0) + events as f64;
        bucket.at = now;
        bucket.level > (f64::from(rate) / 10.0).max(1.0) + 1e-6
    }
}

impl World {
    /// The database gives rows to a relay. What is in the tables counts, not what a planted bug makes of it.
    pub(crate) fn give(&mut self, slot: usize, page: &Page) {
        let (at, model) = (self.now, &self.db.model);
        let given = &mut self.relays[slot].told.given;
        for row in &page.queued {
            if let Ok(event) = &row.event {
                let event = event.clone();
                given.insert((row.event_id.clone(), None, None), Given { at, event });
            }
        }
        for parked in &page.parked {
            let name = parked.destination.clone();
            if let Some(known) = model.parked_row(parked.row.seq, name.as_ref()) {
                let event = known.row.event.clone();
                let row = (event.id.clone(), known.row.replay.clone(), name);
                given.insert(row, Given { at, event });
            }
        }
    }

    /// A relay hands events over: it may, and they are what it was given.
    pub(crate) fn check_told(
        &mut self,
        slot: usize,
        call: Call,
        destination: &DestinationName,
        batch: &[Outgoing],
    ) {
        let (now, limits) = (self.now, self.plan.limits);
        let renewal = self.plan.settings.lease / 3;
        let told = &mut self.relays[slot].told;
        let wrong = told.hand_over(now, call, destination, batch, limits);
        let mut wrong: Vec<String> = wrong.into_iter().collect();
        for outgoing in batch {
            let id = &outgoing.event.id;
            let parked = (id.clone(), outgoing.replay.clone(), Some(destination.clone()));
            let from = [(id.clone(), None, None), parked];
            let given = from.iter().filter_map(|row| told.given.get(row));
            let Some(given) = given.max_by_key(|given| given.at) else {
                continue;
            };
            let is_held = told.controls.paused_keys.contains(&outgoing.order_key);
            // What a read that was under way brings later is held with the next heartbeat.
            let heard = from.iter().filter_map(|row| told.heard.get(row)).max();
            let in_hand = heard.is_some_and(|at| *at <= told.heard_at);
            if is_held && in_hand && given.at <= told.told_at {
                wrong.push(format!(
                    "pause: {id} was handed to {destination}, its key is paused"
                ));
            }
            // Two rows under one id cannot be told apart here, unless they are copies.
            let alone = !self.writers.repeated.contains(id);
            if alone && told.heard.get(&from[1]).is_some_and(|at| now - *at > renewal) {
                wrong.push(format!(
                    "stale: {id} was sent to {destination} as it was long ago"
                ));
            }
            if given.event.payload != outgoing.event.payload && alone {
                wrong.push(format!(
                    "edit: {id} was sent to {destination} with another payload"
                ));
            }
            let written = self.writers.events.get(id);
            let live = written.filter(|one| outgoing.replay.is_none() && !one.scheduled && alone);
            if live.is_some_and(|one| self.check.is_paused(&one.key, given.at)) {
                wrong.push(format!(
                    "R6: {id} was read and sent although its key was paused before"
                ));
            }
        }
        wrong.into_iter().for_each(|text| self.check.violation(text));
    }

    /// Copies stand in nobody's way, and nobody in theirs.
    pub(crate) fn check_beside(&mut self, read: &Read, page: &Page) {
        let model = &self.db.model;
        let copies: Vec<_> = model.parked().filter(|one| one.row.replay.is_some()).collect();
        if copies.is_empty() {
            return;
        }
        let held = page.queued.iter().filter(|row| is_held_by_copy(model, row));
        let held = held.map(|row| format!("R2: {} is held back by a copy", row.event_id));
        let waits = copies
            .iter()
            .filter(|copy| is_kept_waiting(self.now, copy, &copies, read, page));
        let waits = waits.map(|copy| format!("R2: the copy of {} waits for others", copy.row.event.id));
        let wrong: Vec<_> = held.chain(waits).collect();
        wrong.into_iter().for_each(|text| self.check.violation(text));
    }
}

/// Whether a row that a read calls blocked has nothing but copies before it.
fn is_held_by_copy(model: &Model, row: &QueuedRow) -> bool {
    let names = match &row.blocked {
        Blocked::Nowhere => return false,
        Blocked::Everywhere => vec![None],
        Blocked::At(names) => names.iter().cloned().map(Some).collect(),
    };
    let is_live = |name: &Option<DestinationName>| {
        model.parked().any(|one| {
            one.row.replay.is_none()
                && one.row.event.order_key() == row.key
                && one.row.lane == row.lane
                && one.destination == *name
        })
    };
    !model.paused_keys().any(|key| *key == row.key) && !names.iter().all(is_live)
}

/// Whether a copy that is due was left out of a read that had room for it, with no other copy before it.
fn is_kept_waiting(now: Duration, copy: &Parked, copies: &[&Parked], read: &Read, page: &Page) -> bool {
    let asked = &read.parked;
    let shut = |name: &DestinationName| asked.not_for.contains(name);
    let due = !copy.dead && copy.next_attempt <= now && copy.destination.as_ref().is_some_and(|to| !shut(to));
    let is_given = |one: &Parked| page.parked.iter().any(|row| row.row.seq == one.row.seq);
    if !due
        || page.parked.len() >= asked.heads as usize
        || !asked.shards.contains(&copy.row.shard)
        || is_given(copy)
    {
        return false;
    }
    let is_busy = |one: &Parked| asked.busy.iter().any(|(seq, _)| *seq == one.row.seq);
    let of_line = |one: &&&Parked| {
        one.row.replay == copy.row.replay
            && one.row.lane == copy.row.lane
            && (one.destination == copy.destination || one.destination.is_none())
            && one.row.event.order_key() == copy.row.event.order_key()
    };
    let mut line = copies.iter().filter(of_line);
    !line.any(|one| one.row.seq < copy.row.seq || is_busy(one))
}
