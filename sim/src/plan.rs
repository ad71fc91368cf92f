//! What one seed decides: sizes, settings and the mix of faults. Faults are mixed per seed, so that some runs have
//! many of one kind and none of another: that finds more than a little of everything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Condition, DeadLetter, Destination, DestinationName, Envelope, Limits, RetryPolicy, Router, Template,
};
use postrider_relay::Settings;

use crate::rng::Rng;

/// The knobs of one run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) shards: u16,
    pub(crate) keys: usize,
    pub(crate) writers: usize,
    pub(crate) relays: usize,
    pub(crate) storm: Duration,
    /// No more are written, so that a run stays short.
    pub(crate) events: u64,
    pub(crate) settings: Settings,
    pub(crate) sweep_every: Duration,
    pub(crate) ordered: [bool; 2],
    pub(crate) skip: bool,
    pub(crate) limits: Limits,
    pub(crate) latency_ms: usize,
    /// Calls that a broker takes at a time.
    pub(crate) calls: usize,
    /// Every transaction has a key of its own.
    pub(crate) key_each: bool,
    pub(crate) doorbell: bool,
    /// How often reads from below a place fail for a while.
    pub(crate) stale_reads: f64,
    /// How likely each trouble is, zero in runs that go without it.
    pub(crate) rate: BTreeMap<Knob, f64>,
}

/// What can be more or less likely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Knob {
    LateCommit,
    Rollback,
    DatabaseError,
    AnswerLost,
    AppliedLate,
    DatabaseDown,
    BrokerDown,
    BrokerRestart,
    ConfirmLost,
    ConfirmDelayed,
    Doubled,
    Nacked,
    Rejected,
    Misaddressed,
    ConnectionKiller,
    Crash,
    Freeze,
    Join,
    Visit,
    Leave,
    ProcessKiller,
    Operator,
    Pause,
    Scheduled,
    DuplicateId,
    IdReused,
    BadRow,
    NoRoute,
    Reconfigured,
    Lanes,
}

const KNOBS: [(Knob, f64); 30] = [
    (Knob::LateCommit, 0.5),
    (Knob::Rollback, 0.1),
    (Knob::DatabaseError, 0.05),
    (Knob::AnswerLost, 0.05),
    (Knob::AppliedLate, 0.02),
    (Knob::DatabaseDown, 1.0),
    (Knob::BrokerDown, 1.0),
    (Knob::BrokerRestart, 1.0),
    (Knob::ConfirmLost, 0.05),
    (Knob::ConfirmDelayed, 0.05),
    (Knob::Doubled, 0.02),
    (Knob::Nacked, 0.05),
    (Knob::Rejected, 0.08),
    (Knob::Misaddressed, 1.0),
    (Knob::ConnectionKiller, 0.01),
    (Knob::Crash, 1.0),
    (Knob::Freeze, 1.0),
    (Knob::Join, 1.0),
    (Knob::Visit, 1.0),
    (Knob::Leave, 1.0),
    (Knob::ProcessKiller, 0.002),
    (Knob::Operator, 1.0),
    (Knob::Pause, 1.0),
    (Knob::Scheduled, 0.05),
    (Knob::DuplicateId, 0.05),
    (Knob::IdReused, 0.02),
    (Knob::BadRow, 0.02),
    (Knob::NoRoute, 0.03),
    (Knob::Reconfigured, 1.0),
    (Knob::Lanes, 0.2),
];

impl Plan {
    pub(crate) fn draw(rng: &mut Rng) -> Plan {
        let mut rate = BTreeMap::new();
        for (knob, full) in KNOBS {
            let share = [0.0, 0.0, 0.3, 1.0, 1.0][rng.below(5)];
            rate.insert(knob, full * share);
        }
        // A killer of processes costs several lease terms per death: few seeds have one.
        if !rng.chance(0.1) {
            rate.insert(Knob::ProcessKiller, 0.0);
        }
        if !rng.chance(0.3) {
            rate.insert(Knob::Reconfigured, 0.0);
        }
        let settings = Settings {
            poll_interval: rng.millis(20, 500),
            initial_delay: [Duration::ZERO, Duration::from_millis(700)][rng.below(2)],
            batch_size: [1, 2, 4, 16][rng.below(4)],
            window: [2, 4, 8, 32, 128][rng.below(5)],
            window_bytes: 1 << 20,
            lease: Duration::from_millis([600, 1_000, 2_000, 5_000][rng.below(4)]),
            drain_timeout: Duration::from_secs(3),
            retry: RetryPolicy::default(),
            circuit: RetryPolicy {
                base: Duration::from_millis(50),
                max: Duration::from_secs(1),
                ..RetryPolicy::default()
            },
            ..Settings::default()
        };
        Plan {
            shards: [1, 1, 2, 4, 8][rng.below(5)],
            keys: rng.between(1, 8),
            writers: rng.between(1, 6),
            // One that is alone and loses its shards gets them back, with whatever it remembers of them.
            relays: [1, 1, 2, 3][rng.below(4)],
            storm: Duration::from_secs(rng.between(5, 30) as u64),
            events: [30, 80, 150, 300][rng.below(4)],
            settings,
            // Most runs go without the sweep: it is the net, and would hide what falls past a floor.
            sweep_every: Duration::from_secs(
                [30, 10_000, 10_000, 10_000, 10_000, 10_000, 10_000, 10_000][rng.below(8)],
            ),
            ordered: [rng.chance(0.5), rng.chance(0.5)],
            skip: rng.chance(0.2),
            limits: Limits {
                max_in_flight: [None, None, Some(1), Some(3)][rng.below(4)],
                max_rate: [None, None, None, Some(20)][rng.below(4)],
            },
            latency_ms: [1, 5, 30][rng.below(3)],
            calls: 3,
            key_each: false,
            doorbell: false,
            stale_reads: 0.0,
            rate,
        }
    }

    /// What came later is drawn from a source of its own, so that a seed stays the run that it was.
    pub(crate) fn draw_more(&mut self, rng: &mut Rng) {
        self.key_each = rng.chance(0.1);
        self.doorbell = rng.chance(0.3);
        if self.doorbell && rng.chance(0.5) {
            self.settings.poll_interval = Duration::from_secs(rng.between(6, 20) as u64);
        }
        if rng.chance(0.15) {
            self.stale_reads = 0.2;
            self.sweep_every = Duration::from_secs(2);
        }
    }

    pub(crate) fn rate(&self, knob: Knob) -> f64 {
        self.rate.get(&knob).copied().unwrap_or(0.0)
    }

    /// The routes before (`false`) and after (`true`) the configuration was changed: type X gets a route, and one
    /// destination of the first configuration is gone.
    pub(crate) fn router(&self, changed: bool) -> Arc<Router> {
        let retry = RetryPolicy {
            base: Duration::from_millis(100),
            max: Duration::from_secs(4),
            max_attempts: 3,
            ..RetryPolicy::default()
        };
        let destination = |name: &str, broker: &str, address: &str| Destination {
            name: DestinationName::new(name),
            broker: broker.to_owned(),
            address: vec![("queue".to_owned(), template(address))],
            message_key: None,
            envelope: Envelope::Raw,
            dead_letter: if self.skip {
                DeadLetter::Skip
            } else {
                DeadLetter::Hold
            },
            retry,
            limits: self.limits,
        };
        let first = || destination("first", "b0", "q.{aggregate_type}");
        let second = || destination("second", "b1", "{header.tenant}");
        let third = || destination("third", "b0", "third");
        let of = |types: &[&str]| Condition {
            aggregate_type: types.iter().map(|one| (*one).to_owned()).collect(),
            ..Condition::default()
        };
        let old_third = if changed { vec![first()] } else { vec![third()] };
        let builder = Router::builder()
            .route(of(&["A"]), vec![first()])
            .and_then(|builder| builder.route(of(&["B"]), vec![first(), second()]))
            .and_then(|builder| builder.route(of(&["C"]), vec![second()]))
            .and_then(|builder| builder.route(of(&["E"]), old_third))
            .and_then(|builder| builder.route(of(&["D"]), vec![]));
        let builder = match changed {
            true => builder.and_then(|builder| builder.route(of(&["X"]), vec![first()])),
            false => builder,
        };
        Arc::new(builder.expect("the simulator's routes fit together").build())
    }
}

fn template(text: &str) -> Template {
    Template::parse(text).expect("the simulator's templates parse")
}
