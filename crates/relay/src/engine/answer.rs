//! What became of a publish: each answer is turned into a decision about its delivery.

use std::time::Duration;

use postrider_core::{Answer, Class, DestinationId, ErrorKind, Failure, Park, Receipt, StoreError, causes};

use super::item::{Item, Origin, State};
use super::line::Line;
use super::note::{Confirmed, Note};
use super::send::{Entry, Flight};
use super::suspects::Suspects;
use super::{Call, Command, Engine, Plant, Time};

impl Engine {
    /// The answers to one call, in the order of its entries.
    pub(super) fn on_answers(&mut self, now: Time, call: Call, answers: Vec<Answer>, out: &mut Vec<Command>) {
        let Some(flight) = self.flights.remove(&call) else {
            return;
        };
        let destination = flight.destination;
        self.circuits[destination.0].answered(now, flight.started, flight.entries.len());
        let mut answers = answers.into_iter();
        let mut failures = Vec::new();
        let mut confirmed = Vec::new();
        for entry in &flight.entries {
            let lost = || {
                Answer::Failed(Failure::new(ErrorKind::ConnectionLost, "no answer was given").maybe_sent())
            };
            match answers.next().unwrap_or_else(lost) {
                Answer::Confirmed(receipt) => confirmed.push((*entry, receipt)),
                Answer::Failed(failure)
                    if failure.kind.policy().class == Class::Misaddressed
                        && self.planted(Plant::ReturnIgnored) =>
                {
                    confirmed.push((*entry, Receipt::default()));
                }
                Answer::Failed(failure) => failures.push((*entry, failure)),
            }
        }
        for entry in &flight.entries {
            if let Some((shard, seq)) = self.rows.item(entry.item).map(|item| (item.shard, item.seq)) {
                self.leases.survived(shard, seq);
            }
        }
        self.confirm(now, call, &flight, confirmed, out);
        for (entry, failure) in failures {
            self.fail(now, call, &flight, entry, failure, out);
        }
        for entry in &flight.entries {
            self.free_line(*entry, call);
        }
        self.circuits[destination.0].inconclusive();
    }

    fn confirm(
        &mut self,
        now: Time,
        call: Call,
        flight: &Flight,
        confirmed: Vec<(Entry, Receipt)>,
        out: &mut Vec<Command>,
    ) {
        if confirmed.is_empty() {
            return;
        }
        let name = self.router.destination(flight.destination).name.clone();
        let mut events = Vec::with_capacity(confirmed.len());
        let mut seqs = Vec::with_capacity(confirmed.len());
        for (entry, receipt) in confirmed {
            let delivery = self
                .rows
                .item(entry.item)
                .and_then(|item| item.deliveries.get(entry.index));
            if let Some(delivery) = delivery {
                self.circuits[flight.destination.0].took(now, &delivery.address);
            }
            let Some(item) = self.flying(entry, call) else {
                continue;
            };
            events.push(Confirmed::of(item));
            seqs.push(item.seq);
            self.rows
                .set_state(entry.item, entry.index, State::Confirmed(receipt), false);
        }
        if self.circuits[flight.destination.0].succeeded(now, seqs.into_iter()) {
            out.push(Command::Note(Note::CircuitClosed {
                destination: name.clone(),
            }));
            self.read_soon(now);
        }
        out.push(Command::Note(Note::Published {
            destination: name,
            events,
            took: now - flight.started,
        }));
    }

    fn fail(
        &mut self,
        now: Time,
        call: Call,
        flight: &Flight,
        entry: Entry,
        failure: Failure,
        out: &mut Vec<Command>,
    ) {
        let destination = flight.destination;
        let class = self.class_of(now, destination, entry, &failure);
        let class = match class {
            Class::Unavailable => self.unavailable(now, flight, entry, &failure, out),
            Class::Misaddressed | Class::Rejected => {
                self.refused(now, destination, entry, &failure, class, out)
            }
            Class::Invalid | Class::NotAttempted => class,
        };
        if self.flying(entry, call).is_none() {
            return;
        }
        let maybe_sent = failure.maybe_sent && !self.planted(Plant::LostAnswerNotSent);
        match class {
            Class::Unavailable | Class::NotAttempted => self.land(entry, call, maybe_sent),
            Class::Misaddressed | Class::Rejected | Class::Invalid => {
                self.park_failed(entry, destination, failure, class, out);
            }
        }
    }

    /// What a failure means here. A queue that is full says nothing of the others: while any of them takes something,
    /// its events are parked, as those of an address that is missing.
    fn class_of(&self, now: Time, destination: DestinationId, entry: Entry, failure: &Failure) -> Class {
        let delivery = self
            .rows
            .item(entry.item)
            .and_then(|item| item.deliveries.get(entry.index));
        let circuit = &self.circuits[destination.0];
        let full = failure.kind == ErrorKind::Nacked
            && delivery.is_some_and(|one| circuit.others_are_healthy(now, &one.address));
        if full {
            Class::Misaddressed
        } else {
            failure.kind.policy().class
        }
    }

    /// The destination took nothing: its circuit opens. Gives the class that holds for this event.
    fn unavailable(
        &mut self,
        now: Time,
        flight: &Flight,
        entry: Entry,
        failure: &Failure,
        out: &mut Vec<Command>,
    ) -> Class {
        let seq = self
            .rows
            .item(entry.item)
            .map(|item| item.seq)
            .filter(|_| Suspects::blames(failure.kind));
        let size = flight.entries.len();
        let circuit = &mut self.circuits[flight.destination.0];
        if seq.is_some_and(|seq| circuit.lost(seq, size, flight.alone)) {
            self.close_circuit(now, flight.destination, out);
            return Class::Rejected;
        }
        self.open_circuit(now, flight.destination, failure, false, out);
        if self.planted(Plant::ChargedInOutage) {
            Class::Rejected
        } else {
            Class::Unavailable
        }
    }

    /// The destination answered, with a refusal. Many in a row are its own fault, not the events'.
    fn refused(
        &mut self,
        now: Time,
        destination: DestinationId,
        entry: Entry,
        failure: &Failure,
        class: Class,
        out: &mut Vec<Command>,
    ) -> Class {
        let delivery = self
            .rows
            .item(entry.item)
            .and_then(|item| item.deliveries.get(entry.index));
        let address = delivery
            .filter(|_| class == Class::Misaddressed)
            .map(|one| &one.address);
        if self.circuits[destination.0].refused(now, address) {
            self.open_circuit(now, destination, failure, true, out);
            return Class::NotAttempted;
        }
        self.close_circuit(now, destination, out);
        class
    }

    /// The destination can be reached, if only to refuse.
    fn close_circuit(&mut self, now: Time, destination: DestinationId, out: &mut Vec<Command>) {
        if self.circuits[destination.0].answered_at_all() {
            let destination = self.router.destination(destination).name.clone();
            out.push(Command::Note(Note::CircuitClosed { destination }));
            self.read_soon(now);
        }
    }

    fn open_circuit(
        &mut self,
        now: Time,
        destination: DestinationId,
        failure: &Failure,
        refusing: bool,
        out: &mut Vec<Command>,
    ) {
        let random = self.random();
        let circuit = &mut self.circuits[destination.0];
        let was_open = circuit.is_shut(now);
        let retry_in = circuit.open(now, refusing, &self.settings.circuit, random);
        if !was_open {
            self.forget_started(destination);
            let destination = self.router.destination(destination).name.clone();
            out.push(Command::Note(Note::CircuitOpened {
                destination,
                failure: failure.clone(),
                retry_in,
            }));
        }
    }

    /// Parks a refused or invalid delivery, or changes how it is parked.
    fn park_failed(
        &mut self,
        entry: Entry,
        destination: DestinationId,
        failure: Failure,
        class: Class,
        out: &mut Vec<Command>,
    ) {
        let random = self.random();
        if let Some(seq) = self.rows.item(entry.item).map(|item| item.seq) {
            self.circuits[destination.0].suspects.clear(seq);
        }
        let last_success = self.circuits[destination.0].last_success();
        let Some(item) = self.rows.item(entry.item) else {
            return;
        };
        let retry = &self.router.destination(destination).retry;
        let before = Before::of(item);
        // Only a rejection is charged, and only if the destination has confirmed something since the last failure: one
        // that rejects everything is at fault itself.
        let charged = class == Class::Rejected
            && before
                .failed_at
                .is_none_or(|failed| last_success.is_some_and(|success| success > failed));
        let attempts = before.attempts.saturating_add(u32::from(charged));
        let failures = before.failures.saturating_add(1);
        let dead = class == Class::Invalid || (charged && attempts >= retry.max_attempts);
        let delay = if dead {
            Duration::ZERO
        } else {
            retry.delay(failures, random)
        };
        let name = self.router.destination(destination).name.clone();
        let maybe_sent = item.deliveries[entry.index].maybe_sent || failure.maybe_sent;
        if dead {
            self.note_dead(item, Some(name.clone()), &failure, out);
        } else {
            out.push(Command::Note(Note::WillRetry {
                event_id: item.event_id.clone(),
                event_type: item.event.as_ref().map(|event| event.event_type.clone()),
                destination: name.clone(),
                failure: failure.clone(),
                retry_in: delay,
                attempts,
                failures,
            }));
        }
        let park = Park {
            destination: Some(name),
            dead,
            next_attempt_in: delay,
            available_at: None,
            attempts,
            failures,
            maybe_sent,
            failure: Some(failure),
        };
        let line = item.deliveries[entry.index].line;
        let queued = item.is_queued();
        let state = State::Park(park);
        let holds = self.holds(destination, &state);
        self.rows.set_state(entry.item, entry.index, state, holds);
        if queued && holds {
            self.park_waiting(line);
        } else if holds {
            self.forget_parked(line);
        }
    }

    /// A delivery comes back unanswered or untried: it waits at the front of its line again. A parked row goes back to
    /// its table instead, from where it is read when its destination takes something again.
    pub(super) fn land(&mut self, entry: Entry, call: Call, maybe_sent: bool) {
        let Some(item) = self.flying(entry, call) else {
            self.free_line(entry, call);
            return;
        };
        let queued = item.is_queued();
        let line = item.deliveries[entry.index].line;
        let parking = |line: &Line| !line.parking.is_empty() || line.void_to.is_some();
        let void = self.rows.line(line).is_some_and(parking);
        // Its key was paused while it was on its way.
        let paused = self.controls.paused_keys.contains(&item.key) && !self.planted(Plant::PauseKeyInHand);
        if let Some(item) = self.rows.item_mut(entry.item) {
            item.deliveries[entry.index].maybe_sent |= maybe_sent;
        }
        if queued {
            self.rows
                .set_state(entry.item, entry.index, State::Pending, false);
        } else {
            self.put_back(entry.item);
            self.forget_parked(line);
        }
        self.free_line(entry, call);
        if queued && (void || paused) {
            // Another row of its line is being parked: it goes behind it.
            self.park_waiting(line);
        }
    }

    /// The item of an entry, if this very call still carries it.
    fn flying(&self, entry: Entry, call: Call) -> Option<&Item> {
        let item = self.rows.item(entry.item)?;
        let delivery = item.deliveries.get(entry.index)?;
        (delivery.line == entry.line && matches!(delivery.state, State::InFlight(c) if c == call))
            .then_some(item)
    }

    fn free_line(&mut self, entry: Entry, call: Call) {
        if let Some(line) = self.rows.line_mut(entry.line)
            && line.call == Some(call)
        {
            line.call = None;
        }
        self.rows.make_ready(entry.line);
        self.rows.tidy_line(entry.line);
    }

    pub(super) fn note_store(
        &self,
        doing: &'static str,
        error: &StoreError,
        retry_in: Duration,
        out: &mut Vec<Command>,
    ) {
        out.push(Command::Note(Note::StoreFailed {
            doing,
            kind: error.kind(),
            error: causes(error),
            advice: error.advice(),
            retry_in,
        }));
    }
}

impl Confirmed {
    fn of(item: &Item) -> Confirmed {
        let event = item.event.as_ref();
        Confirmed {
            event_id: item.event_id.clone(),
            event_type: event.map(|event| event.event_type.clone()).unwrap_or_default(),
            created_at: event.and_then(|event| event.created_at),
            is_copy: item.replay.is_some(),
        }
    }
}

/// What is known of an event's earlier failures.
struct Before {
    attempts: u32,
    failures: u32,
    failed_at: Option<Time>,
}

impl Before {
    fn of(item: &Item) -> Before {
        match &item.origin {
            Origin::Queued => Before {
                attempts: 0,
                failures: 0,
                failed_at: None,
            },
            Origin::Parked(parked) => Before {
                attempts: parked.attempts,
                failures: parked.failures,
                failed_at: parked.failed_at,
            },
        }
    }
}
