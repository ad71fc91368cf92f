//! The brokers: they go away, lose and delay confirms, refuse, misaddress, return, and double.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use postrider_core::{Answer, DestinationName, ErrorKind, Failure, JobId, OrderKey, Receipt};
use postrider_relay::engine::{Call, Fact, Outgoing};

use crate::check::Arrival;
use crate::faults::Fault;
use crate::plan::Knob;
use crate::world::{Next, World};

#[derive(Debug, Default)]
pub(crate) struct Broker {
    pub(crate) down: bool,
    /// Addresses without a queue behind them.
    pub(crate) unbound: BTreeSet<String>,
    /// How often an event is still rejected.
    pub(crate) rejects: BTreeMap<String, u32>,
    /// Events that end the connection they come by.
    pub(crate) killers: BTreeSet<String>,
}

/// A publish call on its way.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) slot: usize,
    pub(crate) life: u64,
    pub(crate) call: Call,
    pub(crate) destination: DestinationName,
    pub(crate) broker: usize,
    pub(crate) batch: Vec<Outgoing>,
    answers: Vec<Option<Answer>>,
    failed: BTreeSet<OrderKey>,
    /// Nobody waits for the answer any more.
    pub(crate) abandoned: bool,
    /// What has not left never will.
    pub(crate) dropped: bool,
}

impl Flight {
    pub(crate) fn new(
        slot: usize,
        life: u64,
        call: Call,
        destination: DestinationName,
        broker: usize,
        batch: Vec<Outgoing>,
    ) -> Self {
        let answers = vec![None; batch.len()];
        let failed = BTreeSet::new();
        Self {
            slot,
            life,
            call,
            destination,
            broker,
            batch,
            answers,
            failed,
            abandoned: false,
            dropped: false,
        }
    }
}

impl World {
    /// One message of a call reaches its broker, or the answers go back.
    pub(crate) fn arrive(&mut self, id: u64, index: usize) {
        let Some(flight) = self.flights.get(&id) else {
            return;
        };
        let relay = &self.relays[flight.slot];
        if let Some(thaw) = relay.frozen_until.filter(|_| relay.life == flight.life) {
            // What a frozen process had not pushed out yet leaves when it wakes.
            let after = thaw.saturating_sub(self.now) + Duration::from_micros(100 + index as u64);
            self.schedule(after, Next::Arrive { flight: id, index });
            return;
        }
        let broker = &self.brokers[flight.broker];
        if flight.dropped {
            self.flights.remove(&id);
        } else if broker.down {
            self.lose(id, ErrorKind::Unreachable);
        } else if index == flight.batch.len() {
            self.answer(id);
        } else {
            let answer = self.receive(id, index);
            if let Some(flight) = self.flights.get_mut(&id) {
                if matches!(&answer, Answer::Failed(_)) {
                    flight.failed.insert(flight.batch[index].order_key.clone());
                }
                flight.answers[index] = Some(answer);
            }
        }
    }

    /// What the broker says to one message.
    fn receive(&mut self, id: u64, index: usize) -> Answer {
        let flight = &self.flights[&id];
        let (outgoing, broker, slot, life) = (
            flight.batch[index].clone(),
            flight.broker,
            flight.slot,
            flight.life,
        );
        let event = outgoing.event.id.to_string();
        let address = outgoing.address.get("queue").unwrap_or_default().to_owned();
        if self.plan.ordered[broker] && flight.failed.contains(&outgoing.order_key) {
            return Answer::failed(ErrorKind::Behind, "an earlier one failed");
        }
        if !self.calm && self.writers.kills_process(&event) {
            self.faults.count(Fault::ProcessKiller);
            // Some end their process when the destination has them already.
            if self.rng.chance(0.5) {
                self.record(id, index);
            }
            self.crash(slot);
            return Answer::failed(ErrorKind::ConnectionLost, "nobody hears this");
        }
        if !self.calm && self.brokers[broker].killers.contains(&event) {
            self.faults.count(Fault::ConnectionKiller);
            self.cut(life, broker);
            return Answer::Failed(
                Failure::new(ErrorKind::ConnectionLost, "the channel was closed").maybe_sent(),
            );
        }
        if self.brokers[broker].unbound.contains(&address) {
            self.faults.count(Fault::Misaddressed);
            return Answer::failed(ErrorKind::AddressNotFound, "no queue is bound");
        }
        if let Some(left) = self.brokers[broker]
            .rejects
            .get_mut(&event)
            .filter(|left| **left > 0)
        {
            *left -= 1;
            self.faults.count(Fault::Rejected);
            let destination = self.flights[&id].destination.clone();
            self.check.rejected(&event, &destination);
            return Answer::failed(ErrorKind::Rejected, "not wanted");
        }
        if self.strikes(Knob::Nacked, Fault::Nacked) {
            return Answer::failed(ErrorKind::Nacked, "nack");
        }
        self.record(id, index);
        if self.strikes(Knob::Doubled, Fault::MessageDoubled) {
            self.check.allow_repeats(1);
            self.check.doubled();
        }
        if self.strikes(Knob::ConfirmLost, Fault::ConfirmLost) {
            self.check.allow_repeats(1);
            return Answer::Failed(Failure::new(ErrorKind::TimedOut, "the confirm was lost").maybe_sent());
        }
        Answer::Confirmed(Receipt::default())
    }

    fn record(&mut self, id: u64, index: usize) {
        let flight = &self.flights[&id];
        let outgoing = &flight.batch[index];
        let event = outgoing.event.id.clone();
        let destination = flight.destination.clone();
        let stray = flight.abandoned || !self.owns(flight.slot, outgoing.shard);
        let arrival = Arrival {
            event,
            destination,
            life: flight.life,
            marked: outgoing.maybe_sent,
            stray,
            replay: outgoing.replay.clone().map(JobId),
        };
        self.say(|| format!("arrives {arrival:?}"));
        self.arrived_since.insert(arrival.destination.clone());
        let (changed, skip) = (self.changed, self.plan.skip);
        if arrival.replay.is_some() {
            return self.check.copy_arrived(&self.writers, &arrival, skip);
        }
        self.check
            .arrived(self.now, &self.db.model, &self.writers, arrival, changed);
    }

    /// The answers to a call go back.
    fn answer(&mut self, id: u64) {
        let Some(flight) = self.flights.remove(&id) else {
            return;
        };
        let mut back = self.latency();
        if self.strikes(Knob::ConfirmDelayed, Fault::ConfirmDelayed) {
            back += self.rng.millis(10, 5_000);
        }
        let answers: Vec<Answer> = flight
            .answers
            .iter()
            .map(|answer| {
                answer
                    .clone()
                    .unwrap_or_else(|| Answer::failed(ErrorKind::ConnectionLost, "cut"))
            })
            .collect();
        let (slot, life) = (flight.slot, flight.life);
        self.schedule(
            back,
            Next::Fact {
                slot,
                life,
                fact: Fact::Published(flight.call, answers),
            },
        );
    }

    /// A call fails as a whole. What had arrived is reported as lost too: the confirms went with the connection.
    fn lose(&mut self, id: u64, kind: ErrorKind) {
        let Some(flight) = self.flights.remove(&id) else {
            return;
        };
        let arrived = flight
            .answers
            .iter()
            .filter(|one| matches!(one, Some(Answer::Confirmed(_))))
            .count();
        self.check.allow_repeats(arrived as u64);
        let failed = |answer: &Option<Answer>| match answer {
            Some(Answer::Failed(failure)) if failure.kind != ErrorKind::Behind => {
                Answer::Failed(failure.clone())
            }
            Some(_) => Answer::Failed(
                Failure::new(ErrorKind::ConnectionLost, "the connection was lost").maybe_sent(),
            ),
            None => Answer::Failed(Failure::new(kind, "cannot be reached")),
        };
        let answers: Vec<Answer> = flight.answers.iter().map(failed).collect();
        let back = self.latency();
        let (slot, life) = (flight.slot, flight.life);
        self.schedule(
            back,
            Next::Fact {
                slot,
                life,
                fact: Fact::Published(flight.call, answers),
            },
        );
    }

    /// Every connection to a broker ends, or those of one relay.
    fn cut(&mut self, life: u64, broker: usize) {
        let ids: Vec<u64> = self
            .flights
            .iter()
            .filter(|(_, flight)| flight.broker == broker && (flight.life == life || life == 0))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.lose(id, ErrorKind::ConnectionLost);
        }
    }

    pub(crate) fn restart_broker(&mut self, broker: usize) {
        self.faults.count(Fault::BrokerRestart);
        self.say(|| format!("broker {broker} restarts"));
        self.cut(0, broker);
    }

    pub(crate) fn broker_down(&mut self, broker: usize) {
        self.faults.count(Fault::BrokerDown);
        self.say(|| format!("broker {broker} down"));
        self.brokers[broker].down = true;
        self.cut(0, broker);
        let long = self.rng.millis(200, 15_000);
        self.schedule(long, Next::Trouble(crate::operators::Deed::BrokerUp(broker)));
    }
}
