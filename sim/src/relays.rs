//! The relays: each is the real engine, fed with facts and robbed of its life now and then.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{Capabilities, DestinationId, RelayId};
use postrider_relay::engine::{Command, Engine, Fact, Identity, Note, Outgoing, Time};

use crate::bounds::exceeded;
use crate::broker::Flight;
use crate::database::{Call, way};
use crate::faults::Fault;
use crate::told::Told;
use crate::world::{Next, World};

pub(crate) struct Relay {
    pub(crate) engine: Option<Engine>,
    pub(crate) id: RelayId,
    pub(crate) life: u64,
    pub(crate) frozen_until: Option<Duration>,
    missed: Vec<Fact>,
    wake: u64,
    /// Wake-ups in a row that led to nothing but the next one at once.
    spins: u32,
    pub(crate) leaving: bool,
    /// Names of its destinations, by id.
    pub(crate) names: Vec<(String, usize)>,
    pub(crate) told: Told,
}

impl World {
    /// Starts a relay in a slot of its own, and says which life it is.
    pub(crate) fn start_relay(&mut self) -> u64 {
        let life = self.id();
        let id = RelayId(format!("r{life}").into());
        let router = self.plan.router(self.changed);
        let broker = |name: &str| usize::from(name == "b1");
        let names: Vec<(String, usize)> = router
            .destinations()
            .iter()
            .map(|one| (one.name.to_string(), broker(&one.broker)))
            .collect();
        let sinks = names
            .iter()
            .map(|(_, broker)| Capabilities {
                ordered_batches: self.plan.ordered[*broker],
                concurrent_batches: self.plan.calls,
                ..Capabilities::default()
            })
            .collect();
        let identity = Identity {
            relay: id.clone(),
            outbox: "sim".to_owned(),
            seed: self.rng.next(),
            doorbell: self.plan.doorbell,
            sweep_every: self.plan.sweep_every,
            plant: self.plant,
        };
        let engine = Engine::new(identity, self.plan.settings.clone(), router, sinks);
        let slot = self.relays.len();
        self.relays.push(Relay {
            engine: Some(engine),
            id,
            life,
            frozen_until: None,
            missed: Vec::new(),
            wake: 0,
            spins: 0,
            leaving: false,
            names,
            told: Told::default(),
        });
        self.say(|| format!("relay {slot} starts as r{life}"));
        self.tell(slot, life, Fact::Tick);
        life
    }

    pub(crate) fn tick(&mut self, slot: usize, life: u64, wake: u64) {
        if self.relays[slot].wake == wake {
            self.tell(slot, life, Fact::Tick);
        }
    }

    /// Gives a relay a fact and carries out what it asks for.
    pub(crate) fn tell(&mut self, slot: usize, life: u64, fact: Fact) {
        let relay = &mut self.relays[slot];
        if relay.life != life || relay.engine.is_none() {
            return;
        }
        if relay.frozen_until.is_some() {
            relay.missed.push(fact);
            return;
        }
        if let Some((event, destination)) = relay.told.hear(self.now, &fact) {
            self.check.guilty(event, destination);
        }
        let mut commands = Vec::new();
        if let Some(engine) = &mut relay.engine {
            engine.handle(Time(self.now), fact, &mut commands);
        }
        let idle = commands.is_empty();
        for command in commands {
            self.obey(slot, life, command);
        }
        let relay = &mut self.relays[slot];
        let Some(engine) = &relay.engine else { return };
        let exceeded = exceeded(&self.plan, &engine.load(), relay.names.len());
        relay.wake += 1;
        let wake = relay.wake;
        let at = engine.wake_at(Time(self.now));
        if let Some((what, size, most)) = exceeded {
            self.check
                .violation(format!("bounds: {size} {what} in memory, {most} are allowed"));
        }
        if let Some(at) = at {
            let after = at.0.saturating_sub(self.now).max(Duration::from_micros(50));
            let relay = &mut self.relays[slot];
            relay.spins = if idle && at.0 <= self.now {
                relay.spins + 1
            } else {
                0
            };
            if relay.spins > 20 {
                self.check
                    .violation(format!("bounds: r{life} wakes again and again for nothing"));
            }
            self.schedule(after, Next::Tick { slot, life, wake });
        }
    }

    fn obey(&mut self, slot: usize, life: u64, command: Command) {
        match command {
            Command::Beat(id, beat) => self.ask(slot, life, Call::Beat(id, beat)),
            Command::Read(id, read) => self.ask(slot, life, Call::Read(id, read)),
            Command::Settle(id, settle) => self.ask(slot, life, Call::Settle(id, settle)),
            Command::Publish(call, destination, batch) => {
                self.hand_over(slot, life, call, destination, batch)
            }
            Command::Abandon(calls) => {
                self.relays[slot].told.abandon(&calls);
                let calls: BTreeSet<_> = calls.into_iter().collect();
                let mine = |flight: &&mut Flight| flight.slot == slot && calls.contains(&flight.call);
                let drop = self.rng.chance(0.5);
                let mut repeats = 0;
                for flight in self.flights.values_mut().filter(mine) {
                    flight.abandoned = true;
                    flight.dropped |= drop;
                    repeats += flight.batch.len() as u64;
                }
                let unsettled = self.check.arrived_unsettled(life);
                self.check.allow_repeats(repeats + unsettled);
            }
            Command::Note(note) => {
                self.say(|| format!("r{life} {note:?}"));
                self.heed(life, &note);
            }
            Command::Finished => {
                let unsettled = self.check.arrived_unsettled(life);
                self.check.allow_repeats(unsettled);
                self.say(|| format!("r{life} finished"));
                self.relays[slot].engine = None;
            }
            Command::Arm(call, _) => {
                let after = way(self);
                self.schedule(after, Next::Arm { slot, life, call });
            }
            Command::Disarm => {
                self.db.bells.remove(&slot);
            }
        }
    }

    /// What a relay says matters to the checker: who it forgot, and who is dead and passed over.
    fn heed(&mut self, life: u64, note: &Note) {
        if matches!(note, Note::LeaseWon { .. } | Note::LeaseLost { .. }) {
            self.db.reads_well.remove(&life);
        }
        match note {
            Note::LeaseWon { .. } if self.visitors.remove(&life) => {
                let after = self.rng.millis(0, 20);
                self.schedule(after, Next::Trouble(crate::operators::Deed::VisitEnds(life)));
            }
            Note::LeaseLost { .. } => {
                let unsettled = self.check.arrived_unsettled(life);
                self.check.allow_repeats(unsettled);
            }
            Note::Dead {
                event_id,
                destination: Some(destination),
                ..
            } if self.plan.skip => {
                self.check.passed_over(event_id, destination);
            }
            _ => {}
        }
    }

    fn ask(&mut self, slot: usize, life: u64, call: Call) {
        let after = way(self);
        self.schedule(after, Next::Call { slot, life, call });
    }

    fn hand_over(
        &mut self,
        slot: usize,
        life: u64,
        call: postrider_relay::engine::Call,
        destination: DestinationId,
        batch: Vec<Outgoing>,
    ) {
        self.check_lease(slot, &batch);
        let (name, broker) = self.relays[slot].names[destination.0].clone();
        self.check_told(slot, call, &name.as_str().into(), &batch);
        self.say(|| {
            let events: Vec<_> = batch
                .iter()
                .map(|one| (one.event.id.as_str(), one.maybe_sent))
                .collect();
            format!("r{life} publish {call:?} to {name}: {events:?}")
        });
        let id = self.id();
        let count = batch.len();
        self.flights
            .insert(id, Flight::new(slot, life, call, name.into(), broker, batch));
        let way = self.latency();
        for index in 0..=count {
            // The last one is the answer.
            let part = way / 2 + (way * index as u32) / (2 * (count as u32 + 1));
            self.schedule(part, Next::Arrive { flight: id, index });
        }
    }

    /// Nothing is handed over without the right to it, by the database's own word.
    fn check_lease(&mut self, slot: usize, batch: &[Outgoing]) {
        for outgoing in batch {
            if !self.owns(slot, outgoing.shard) {
                let id = &outgoing.event.id;
                self.check.violation(format!(
                    "lease: {id} was handed over without the right to its shard"
                ));
            }
        }
    }

    /// Whether the relay of a slot owns a shard now, by the database.
    pub(crate) fn owns(&self, slot: usize, shard: postrider_core::Shard) -> bool {
        let id = &self.relays[slot].id;
        let owner = self
            .db
            .model
            .owners()
            .any(|(of, state)| of == shard && state.owner.as_ref() == Some(id));
        let alive = self
            .db
            .model
            .relays()
            .any(|(relay, state)| relay == id && state.expires > self.now);
        owner && alive
    }

    /// The process dies, and somebody starts another.
    pub(crate) fn crash(&mut self, slot: usize) {
        if !self.end(slot) {
            return;
        }
        let after = self.rng.millis(10, 2_000);
        self.schedule(after, Next::Trouble(crate::operators::Deed::Join));
    }

    /// The process dies: what it knew is gone, what had left may still arrive. False when it had ended before.
    pub(crate) fn end(&mut self, slot: usize) -> bool {
        let relay = &mut self.relays[slot];
        if relay.engine.take().is_none() {
            return false;
        }
        let life = relay.life;
        relay.frozen_until = None;
        relay.missed.clear();
        self.say(|| format!("r{life} dies"));
        self.orphan(life);
        true
    }

    /// What a relay that loses its memory may cause to be sent again is counted.
    pub(crate) fn orphan(&mut self, life: u64) {
        let drop = self.rng.chance(0.5);
        let mut under_way = 0;
        for flight in self.flights.values_mut().filter(|flight| flight.life == life) {
            flight.abandoned = true;
            flight.dropped |= drop;
            under_way += flight.batch.len() as u64;
        }
        let unsettled = self.check.arrived_unsettled(life);
        self.check.allow_repeats(under_way + unsettled);
    }

    pub(crate) fn freeze(&mut self, slot: usize) {
        let most = (self.plan.settings.lease.as_millis() as usize) * 3;
        let long = self.rng.millis(100, most.max(200));
        let relay = &mut self.relays[slot];
        if relay.engine.is_none() || relay.frozen_until.is_some() {
            return;
        }
        relay.frozen_until = Some(self.now + long);
        let life = relay.life;
        self.say(|| format!("r{life} freezes for {long:?}"));
        self.faults.count(Fault::RelayFreeze);
        let unsettled = self.check.arrived_unsettled(life);
        let mine = self.flights.values().filter(|flight| flight.life == life);
        let under_way: u64 = mine.map(|flight| flight.batch.len() as u64).sum();
        self.check.allow_repeats(unsettled + under_way);
        self.schedule(long, Next::Trouble(crate::operators::Deed::Thaw(slot)));
    }

    pub(crate) fn thaw(&mut self, slot: usize) {
        let relay = &mut self.relays[slot];
        if relay.frozen_until.take().is_none() {
            return;
        }
        let life = relay.life;
        let missed = std::mem::take(&mut relay.missed);
        self.say(|| format!("r{life} thaws"));
        self.tell(slot, life, Fact::Tick);
        for fact in missed {
            self.tell(slot, life, fact);
        }
    }

    pub(crate) fn leave(&mut self, slot: usize) {
        let relay = &mut self.relays[slot];
        if relay.engine.is_none() || relay.leaving {
            return;
        }
        relay.leaving = true;
        let life = relay.life;
        let drain_for = self.plan.settings.drain_timeout;
        self.faults.count(Fault::RelayLeave);
        self.say(|| format!("r{life} is told to stop"));
        self.tell(slot, life, Fact::Stop { drain_for });
        let after = self.rng.millis(10, 2_000);
        self.schedule(after, Next::Trouble(crate::operators::Deed::Join));
    }

    /// Slots with a relay that lives.
    pub(crate) fn living(&self) -> Vec<usize> {
        (0..self.relays.len())
            .filter(|slot| self.relays[*slot].engine.is_some())
            .collect()
    }
}
