//! One run: the clock, the queue of what happens next, and who it happens to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use postrider_core::{DestinationName, JobId, Seq};
use postrider_relay::engine::{Fact, Plant};

use crate::broker::{Broker, Flight};
use crate::check::Check;
use crate::database::{Call, Database};
use crate::faults::{Fault, Faults};
use crate::jobs::Owed;
use crate::lifecycle::PEOPLE;
use crate::liveness::Waiting;
use crate::operators::Deed;
use crate::plan::Plan;
use crate::relays::Relay;
use crate::rng::Rng;
use crate::trace::Trace;
use crate::writers::Writers;

/// A seed of its own for what plans have got since.
const MORE: u64 = 0x3e_0a37_11ce;

/// How long everything may take to drain once all faults have ended.
const CALM: Duration = Duration::from_secs(180);

/// What a run came to.
#[derive(Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// Events committed.
    pub events: u64,
    /// Simulated time.
    pub simulated: Duration,
    /// What went wrong on purpose.
    pub faults: Faults,
    /// What went wrong with the promises; empty when the engine is right.
    pub violations: Vec<String>,
    /// Arrivals that repeated an earlier one.
    pub duplicates: u64,
    /// What happened, when a trace was asked for.
    pub trace: Vec<String>,
}

/// Runs one seed.
pub fn run(seed: u64, plant: Option<Plant>, trace: bool) -> Outcome {
    let mut world = World::new(seed, plant, trace);
    world.run();
    let duplicates = world.check.duplicates();
    Outcome {
        seed,
        events: world.db.model.counters().committed,
        simulated: world.now,
        faults: world.faults,
        violations: world.check.into_violations(),
        duplicates,
        trace: world.trace.into_lines(),
    }
}

/// What happens next.
#[derive(Debug)]
pub(crate) enum Next {
    /// A relay hears something, if it still lives.
    Fact {
        slot: usize,
        life: u64,
        fact: Fact,
    },
    /// A relay wakes, unless it was told something since.
    Tick {
        slot: usize,
        life: u64,
        wake: u64,
    },
    /// A call reaches the database.
    Call {
        slot: usize,
        life: u64,
        call: Call,
    },
    /// A relay arms its doorbell.
    Arm {
        slot: usize,
        life: u64,
        call: postrider_relay::engine::Call,
    },
    /// A settle that was reported lost is applied after all.
    Late(Call),
    /// A message reaches the broker.
    Arrive {
        flight: u64,
        index: usize,
    },
    /// A writer begins, or ends, a transaction.
    Write(usize),
    Commit(usize),
    /// Trouble begins or ends.
    Trouble(Deed),
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) plant: Option<Plant>,
    pub(crate) rng: Rng,
    /// What people draw from.
    pub(crate) people: Rng,
    pub(crate) now: Duration,
    pub(crate) db: Database,
    pub(crate) brokers: [Broker; 2],
    pub(crate) flights: BTreeMap<u64, Flight>,
    pub(crate) relays: Vec<Relay>,
    /// Lives that end when they get their first shard.
    pub(crate) visitors: BTreeSet<u64>,
    pub(crate) writers: Writers,
    pub(crate) check: Check,
    pub(crate) faults: Faults,
    pub(crate) trace: Trace,
    pub(crate) calm: bool,
    pub(crate) changed: bool,
    /// What could leave when the last fault ended, and where something has arrived since.
    pub(crate) waiting: Waiting,
    pub(crate) arrived_since: BTreeSet<DestinationName>,
    /// Replays that have not ended, with what each is to copy.
    pub(crate) replays: BTreeMap<JobId, Owed>,
    /// Rows that a planted bug sends although another of their key stands before them.
    pub(crate) past_heads: BTreeSet<(Seq, Option<DestinationName>)>,
    queue: BTreeMap<(Duration, u64), Next>,
    ids: u64,
}

impl World {
    fn new(seed: u64, plant: Option<Plant>, trace: bool) -> World {
        let mut rng = Rng::new(seed);
        let mut plan = Plan::draw(&mut rng);
        plan.draw_more(&mut Rng::new(seed ^ MORE));
        World {
            db: Database::new(plan.shards),
            brokers: [Broker::default(), Broker::default()],
            flights: BTreeMap::new(),
            relays: Vec::new(),
            visitors: BTreeSet::new(),
            writers: Writers::new(&plan),
            check: Check::default(),
            faults: Faults::default(),
            trace: Trace::new(trace),
            calm: false,
            changed: false,
            waiting: Waiting::new(),
            arrived_since: BTreeSet::new(),
            replays: BTreeMap::new(),
            past_heads: BTreeSet::new(),
            queue: BTreeMap::new(),
            ids: 0,
            now: Duration::ZERO,
            plan,
            plant,
            rng,
            people: Rng::new(seed ^ PEOPLE),
        }
    }

    pub(crate) fn id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    pub(crate) fn schedule(&mut self, after: Duration, next: Next) {
        let id = self.id();
        self.queue.insert((self.now + after, id), next);
    }

    pub(crate) fn say(&mut self, line: impl FnOnce() -> String) {
        self.trace.say(self.now, line);
    }

    /// Whether something with a rate per call happens now; counts it when it does.
    pub(crate) fn strikes(&mut self, knob: crate::plan::Knob, fault: Fault) -> bool {
        let strikes = !self.calm && self.rng.chance(self.plan.rate(knob));
        if strikes {
            self.faults.count(fault);
        }
        strikes
    }

    pub(crate) fn latency(&mut self) -> Duration {
        let most = self.plan.latency_ms;
        self.rng.millis(0, most)
    }

    fn run(&mut self) {
        for _ in 0..self.plan.relays {
            self.start_relay();
        }
        for writer in 0..self.plan.writers {
            let after = self.rng.millis(0, 100);
            self.schedule(after, Next::Write(writer));
        }
        self.plan_troubles();
        self.plan_lifecycle();
        let storm = self.plan.storm;
        self.schedule(storm, Next::Trouble(Deed::Calm));
        let deadline = storm + CALM;
        while let Some(((at, _), next)) = self.queue.pop_first() {
            self.now = at;
            if at > deadline {
                break;
            }
            self.happen(next);
            if self.calm && self.drained() || self.check.has_violations() {
                break;
            }
        }
        if !self.check.has_violations() {
            self.judge();
        }
    }

    /// When the last answer to a publish comes that is on its way.
    pub(crate) fn last_answer(&self) -> Option<Duration> {
        let is_answer = |next: &Next| {
            matches!(
                next,
                Next::Fact {
                    fact: Fact::Published(..),
                    ..
                }
            )
        };
        let mut latest = self.queue.iter().rev();
        latest.find(|(_, next)| is_answer(next)).map(|((at, _), _)| *at)
    }

    fn happen(&mut self, next: Next) {
        match next {
            Next::Fact { slot, life, fact } => self.tell(slot, life, fact),
            Next::Tick { slot, life, wake } => self.tick(slot, life, wake),
            Next::Call { slot, life, call } => self.call_database(slot, life, call),
            Next::Arm { slot, life, call } => self.arm(slot, life, call),
            Next::Late(call) => self.apply_late(&call),
            Next::Arrive { flight, index } => self.arrive(flight, index),
            Next::Write(writer) => self.write(writer),
            Next::Commit(writer) => self.commit(writer),
            Next::Trouble(deed) => self.trouble(deed),
        }
    }

    fn drained(&self) -> bool {
        self.db.model.is_empty() && self.writers.is_idle() && self.replays.is_empty()
    }
}
