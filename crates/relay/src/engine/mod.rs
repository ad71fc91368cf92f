//! The engine: a state machine without I/O.
//!
//! It takes facts (rows read, answers, leases, time) and gives commands (read, publish, settle, renew, sleep until). It
//! never touches a socket, a clock or a random source of its own, so a seed replays any run.
//!
//! The way of one event through these files: [`lease`](self) grants the shard, `read` asks for rows above the floor,
//! `arrive` turns a row into an `item` with one delivery per destination, `start` has it written that a parked one is
//! about to leave, `send` hands deliveries over in the order of their `line`, `answer` decides what became of them,
//! `settle` writes the decision, and `rows` forgets the item.

mod again;
mod answer;
mod arrive;
mod circuit;
mod gate;
mod item;
mod lease;
mod line;
mod load;
mod note;
mod pace;
mod places;
mod plant;
mod poll;
mod read;
mod ready;
mod room;
mod rows;
mod send;
mod settle;
mod slab;
mod start;
mod stop;
mod suspects;
mod trial;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Address, Answer, Capabilities, Controls, DestinationId, Event, Heartbeat, OrderKey, Page, Read, RelayId,
    Router, Settle, Settled, Shard, Standing, StoreError,
};

pub use load::Load;
pub use note::{Confirmed, Note};
pub use plant::Plant;

use crate::Settings;
use circuit::Circuit;
use lease::Leases;
use read::Reading;
use rows::Rows;
use send::Flight;
use settle::Settling;
use stop::Stop;

/// A moment, counted from wherever the driver likes on a clock that never steps back and counts suspend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub Duration);

impl std::ops::Add<Duration> for Time {
    type Output = Time;
    fn add(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(duration))
    }
}

impl std::ops::Sub<Time> for Time {
    type Output = Duration;
    fn sub(self, earlier: Time) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Names one call, so that its answer finds its way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call(pub u64);

/// What the driver tells the engine.
#[derive(Debug)]
pub enum Fact {
    /// Time has passed: [`Engine::wake_at`] has come.
    Tick,
    /// A heartbeat was answered.
    Stood(Call, Result<Standing, StoreError>),
    /// A read was answered.
    Read(Call, Result<Page, StoreError>),
    /// A publish was answered, one answer a message.
    Published(Call, Vec<Answer>),
    /// A settle was answered, one per entry.
    Settled(Call, Result<Vec<Settled>, StoreError>),
    /// The doorbell is armed, or cannot be.
    Armed(Call, bool),
    /// The doorbell rang, or somebody in this process committed.
    Rang,
    /// Stop: answer what is under way, settle, release.
    Stop {
        /// For at most this long.
        drain_for: Duration,
    },
}

/// What the engine asks of the driver.
#[derive(Debug)]
pub enum Command {
    /// Call [`postrider_core::Store::heartbeat`].
    Beat(Call, Heartbeat),
    /// Call [`postrider_core::Store::read`].
    Read(Call, Read),
    /// Encode and publish.
    Publish(Call, DestinationId, Vec<Outgoing>),
    /// Call [`postrider_core::Store::settle`].
    Settle(Call, Arc<Settle>),
    /// Drop these publish calls: the right to make them has ended.
    Abandon(Vec<Call>),
    /// Arm the doorbell.
    Arm(Call, Vec<Shard>),
    /// Drop the doorbell's ring.
    Disarm,
    /// Tell people.
    Note(Note),
    /// Everything is drained and released: there will be no further command.
    Finished,
}

/// One event on its way to one destination.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The event.
    pub event: Arc<Event>,
    /// What it keeps order by.
    pub order_key: OrderKey,
    /// Where in the destination it goes.
    pub address: Address,
    /// What the broker partitions by.
    pub message_key: String,
    /// Whether an earlier attempt may have arrived.
    pub maybe_sent: bool,
    /// Set on replayed events.
    pub replay: Option<Arc<str>>,
    /// The shard it belongs to.
    pub shard: Shard,
}

/// Who this engine is and what it works with.
#[derive(Clone, Debug)]
pub struct Identity {
    /// This run of this relay.
    pub relay: RelayId,
    /// The outbox it serves.
    pub outbox: String,
    /// What jitter is drawn from.
    pub seed: u64,
    /// Whether the store has a doorbell.
    pub doorbell: bool,
    /// How often everything below the floors is looked through once more.
    pub sweep_every: Duration,
    /// A planted bug, in simulations that prove the checkers.
    pub plant: Option<Plant>,
}

/// The engine of one outbox.
#[derive(Debug)]
pub struct Engine {
    identity: Identity,
    settings: Settings,
    router: Arc<Router>,
    sinks: Vec<Capabilities>,
    rng: u64,
    next_call: u64,
    leases: Leases,
    rows: Rows,
    circuits: Vec<Circuit>,
    flights: BTreeMap<Call, Flight>,
    reading: Reading,
    settling: Settling,
    controls: Controls,
    stop: Option<Stop>,
    start_at: Option<Time>,
    finished: bool,
}

impl Engine {
    /// An engine at rest. `sinks` gives the capabilities behind each destination of the router, in its order.
    pub fn new(
        identity: Identity,
        settings: Settings,
        router: Arc<Router>,
        sinks: Vec<Capabilities>,
    ) -> Self {
        let circuits = router
            .destinations()
            .iter()
            .zip(&sinks)
            .map(|(one, sink)| Circuit::new(one.limits, settings.batch_size, sink.concurrent_batches))
            .collect();
        let rng = identity.seed;
        Self {
            leases: Leases::default(),
            rows: Rows::new(router.destinations().len()),
            circuits,
            flights: BTreeMap::new(),
            reading: Reading::new(settings.window),
            settling: Settling::default(),
            controls: Controls::default(),
            stop: None,
            start_at: None,
            finished: false,
            next_call: 0,
            rng,
            identity,
            settings,
            router,
            sinks,
        }
    }

    /// Takes a fact and appends what is to be done about it.
    pub fn handle(&mut self, now: Time, fact: Fact, out: &mut Vec<Command>) {
        if self.finished {
            return;
        }
        match fact {
            Fact::Tick => {}
            Fact::Stood(call, standing) => self.on_stood(now, call, standing, out),
            Fact::Read(call, page) => self.on_page(now, call, page, out),
            Fact::Published(call, answers) => self.on_answers(now, call, answers, out),
            Fact::Settled(call, settled) => self.on_settled(now, call, settled, out),
            Fact::Armed(call, armed) => self.on_armed(now, call, armed),
            Fact::Rang => self.on_rang(now, out),
            Fact::Stop { drain_for } => self.on_stop(now, drain_for),
        }
        self.advance(now, out);
    }

    /// When the engine wants a [`Fact::Tick`] at the latest, unless another fact comes first.
    pub fn wake_at(&self, now: Time) -> Option<Time> {
        if self.finished {
            return None;
        }
        if let Some(start_at) = self.start_at.filter(|at| *at > now && self.stop.is_none()) {
            return Some(start_at);
        }
        let mut wake = self.leases.wake_at();
        let mut sooner = |at: Option<Time>| {
            if let Some(at) = at {
                wake = Some(wake.map_or(at, |wake| wake.min(at)));
            }
        };
        sooner(self.read_wake(now));
        sooner(self.settling.wake_at());
        sooner(self.stop.as_ref().map(|stop| stop.next_deadline()));
        for (index, circuit) in self.circuits.iter().enumerate() {
            if self.rows.has_ready(DestinationId(index)) || circuit.is_open() {
                sooner(circuit.wake_at(now));
            }
        }
        wake
    }

    /// Whether every shard is held, nothing is in memory and the last complete read found nothing: what `drain` waits
    /// for.
    pub fn is_idle(&self) -> bool {
        self.leases.has_all()
            && self.rows.is_empty()
            && self.settling.is_idle()
            && self.reading.found_nothing()
    }

    fn advance(&mut self, now: Time, out: &mut Vec<Command>) {
        let start_at = *self.start_at.get_or_insert(now + self.settings.initial_delay);
        if now < start_at && self.stop.is_none() {
            return;
        }
        self.expire(now, out);
        self.cut_short(now, out);
        self.hold_back(now);
        self.probe_parked(now);
        self.drain_shards(now, out);
        self.send(now, out);
        self.write_settle(now, out);
        self.ask_read(now, out);
        self.beat(now, out);
        self.finish(now, out);
    }

    fn call(&mut self) -> Call {
        self.next_call += 1;
        Call(self.next_call)
    }

    /// Uniform in 0..1, from the seed alone (splitmix64).
    fn random(&mut self) -> f64 {
        self.rng = self.rng.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.rng;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn planted(&self, plant: Plant) -> bool {
        cfg!(feature = "plants") && self.identity.plant == Some(plant)
    }
}
