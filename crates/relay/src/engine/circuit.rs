//! One circuit per destination: whether it takes anything, how much at a time, and what its failures mean.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider_core::{Address, Limits, RetryPolicy, Seq};

use super::Time;
use super::pace::{Haste, Pace};
use super::suspects::Suspects;

/// Refusals in a row, with no success between, after which the destination and not the events is at fault.
const REFUSALS: u32 = 20;
/// How many addresses are remembered, for the rotation of probes and as healthy.
const ADDRESSES: usize = 256;
/// For how long an address that took something counts as healthy, unless it refuses.
const HEALTHY_FOR: Duration = Duration::from_secs(30);
/// Answers that take longer mean that calls wait for each other at the destination.
const SOON: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Open { until: Time },
    HalfOpen,
}

#[derive(Debug)]
pub(super) struct Circuit {
    state: State,
    /// Opened by refusals: a refused probe keeps it open.
    refusing: bool,
    asked: bool,
    /// Consecutive openings without a success between.
    openings: u32,
    refusals: u32,
    successes: u64,
    last_success: Option<Time>,
    /// Addresses that have not refused since they last took something, and when that was.
    healthy: BTreeMap<Address, Time>,
    pub(super) suspects: Suspects,
    probes: u64,
    probed: BTreeMap<Address, u64>,
    pub(super) paused: bool,
    configured: Limits,
    limits: Limits,
    tokens: f64,
    tokens_at: Time,
    pub(super) in_flight: usize,
    pub(super) calls: usize,
    concurrent: usize,
    /// Which lane is served next.
    pub(super) turn: usize,
    /// Whether the pace is kept.
    hasty: bool,
    pace: Pace,
}

impl Circuit {
    /// Of a destination that takes so many calls at once, of so many events each.
    pub(super) fn new(limits: Limits, batch: usize, concurrent: usize) -> Self {
        let concurrent = concurrent.max(1);
        Self {
            state: State::Closed,
            refusing: false,
            asked: false,
            openings: 0,
            refusals: 0,
            successes: 0,
            last_success: None,
            healthy: BTreeMap::new(),
            suspects: Suspects::default(),
            probes: 0,
            probed: BTreeMap::new(),
            paused: false,
            configured: limits,
            limits,
            tokens: 0.0,
            tokens_at: Time::default(),
            in_flight: 0,
            calls: 0,
            concurrent,
            turn: 0,
            hasty: false,
            pace: Pace::new(batch.div_ceil(2), concurrent * batch, SOON),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.state != State::Closed
    }

    /// Whether it was paused, or probed in vain: what waits for it may wait for long.
    pub(super) fn lasts(&self) -> bool {
        self.paused || (self.is_open() && self.openings > 2)
    }

    /// Whether rows for it should stay where they are: open and not yet to be probed, or paused.
    pub(super) fn is_shut(&self, now: Time) -> bool {
        self.paused || matches!(self.state, State::Open { until } if now < until)
    }

    /// Whether it may be probed again and nobody has looked for a parked row to probe it with; true once per opening.
    pub(super) fn wants_probe(&mut self, now: Time) -> bool {
        let due = matches!(self.state, State::Open { until } if now >= until) && !self.paused;
        due && !std::mem::replace(&mut self.asked, due)
    }

    /// Whether its limits let nothing pass at the moment.
    pub(super) fn is_at_limit(&self, now: Time) -> bool {
        let flying = self
            .limits
            .max_in_flight
            .is_some_and(|max| self.in_flight >= max.max(1) as usize);
        flying || self.next_token(now).is_some()
    }

    /// Whether it takes only so many in a second, or has as many unanswered as it may.
    pub(super) fn is_slow(&self) -> bool {
        let flying = |max: u32| self.in_flight >= max.max(1) as usize;
        self.limits.max_rate.is_some()
            || self.limits.max_in_flight.is_some_and(flying)
            || self.calls >= self.concurrent
    }

    /// How many addresses are remembered.
    pub(super) fn addresses(&self) -> usize {
        self.healthy.len() + self.probed.len()
    }

    pub(super) fn last_success(&self) -> Option<Time> {
        self.last_success
    }

    pub(super) fn wake_at(&self, now: Time) -> Option<Time> {
        match self.state {
            _ if self.paused => None,
            State::Open { until } => (until > now).then_some(until),
            State::HalfOpen => None,
            State::Closed => self.next_token(now),
        }
    }

    /// What people changed, and of what they left alone what was configured: whoever slows a destination down must not
    /// take away the other bound that protects it.
    pub(super) fn set_limits(&mut self, changed: Option<&Limits>) {
        let changed = changed.copied().unwrap_or_default();
        self.limits = Limits {
            max_in_flight: changed.max_in_flight.or(self.configured.max_in_flight),
            max_rate: changed.max_rate.or(self.configured.max_rate),
        };
    }

    /// How many events may be handed over now in one call; `probe` when a single head is wanted.
    pub(super) fn room(&mut self, now: Time, batch: usize, haste: Haste) -> Room {
        self.refill(now);
        let hasty = haste != Haste::None;
        if !std::mem::replace(&mut self.hasty, hasty) && hasty {
            self.pace.begin(now);
        }
        if self.paused || self.tokens_short() {
            return Room::None;
        }
        match self.state {
            State::Open { until } if now >= until && self.calls == 0 => Room::Probe,
            State::Open { .. } | State::HalfOpen => Room::None,
            State::Closed if self.suspects.is_flying() => Room::None,
            State::Closed => match self.suspects.room() {
                Some(_) if self.calls > 0 => Room::None,
                Some(size) => Room::Suspects(size.min(self.free(batch))),
                None if self.calls >= self.concurrent => Room::None,
                None => match (self.paced(batch).min(self.free(batch)), self.free(batch), haste) {
                    (_, 0, _) | (0, _, Haste::Expected) => Room::None,
                    (_, size, Haste::None) | (size @ 1.., _, _) => Room::Batch(size),
                    (0, size, Haste::Now) => Room::Urgent(size),
                },
            },
        }
    }

    /// How many events the pace leaves room for. At least two calls share it, so that the destination is never without
    /// work; and rather half a call later than a few events now.
    fn paced(&self, batch: usize) -> usize {
        let call = self.pace.amount().div_ceil(2).clamp(1, batch);
        let paced = self.pace.amount().saturating_sub(self.in_flight);
        match self.calls > 0 && paced < call.div_ceil(2) {
            true => 0,
            false => paced.clamp(1, call),
        }
    }

    /// How many parked rows may wait to leave with their start written; none: all of them, because they leave at once.
    /// One that is closed is probed with one.
    pub(super) fn start_room(&self) -> Option<usize> {
        if self.paused {
            return Some(0);
        }
        if self.is_open() {
            return Some(1);
        }
        let rate = self.limits.max_rate.map(|rate| (rate / 10).max(1) as usize);
        let flying = self.limits.max_in_flight.map(|max| max.max(1) as usize);
        rate.into_iter().chain(flying).min()
    }

    /// How many events the limits leave room for.
    fn free(&self, batch: usize) -> usize {
        let in_flight = self
            .limits
            .max_in_flight
            .map_or(usize::MAX, |max| max.max(1) as usize);
        let tokens = self.limits.max_rate.map_or(usize::MAX, |_| self.tokens as usize);
        batch.min(in_flight.saturating_sub(self.in_flight)).min(tokens)
    }

    pub(super) fn handed_over(&mut self, events: usize, room: Room) {
        self.in_flight += events;
        self.calls += 1;
        if self.limits.max_rate.is_some() {
            self.tokens -= events as f64;
        }
        match room {
            Room::Probe => self.state = State::HalfOpen,
            Room::Suspects(_) => self.suspects.handed_over(true),
            Room::Batch(_) | Room::Urgent(_) => self.suspects.handed_over(false),
            Room::None => {}
        }
    }

    /// A call that was made then is answered now.
    pub(super) fn answered(&mut self, now: Time, started: Time, events: usize) {
        self.pace.answered(now, started, events);
        self.landed(events);
    }

    /// A call is not waited for any longer.
    pub(super) fn landed(&mut self, events: usize) {
        self.in_flight = self.in_flight.saturating_sub(events);
        self.calls = self.calls.saturating_sub(1);
        self.suspects.landed();
    }

    /// A probe ended without telling anything about the destination: another may follow at once.
    pub(super) fn inconclusive(&mut self) {
        if self.state == State::HalfOpen && self.calls == 0 {
            self.state = State::Open {
                until: Time::default(),
            };
        }
    }

    /// Something was confirmed. True when that closed the circuit.
    pub(super) fn succeeded(&mut self, now: Time, seqs: impl Iterator<Item = Seq>) -> bool {
        self.successes += 1;
        self.last_success = Some(now);
        self.refusals = 0;
        let mut suspects = false;
        for seq in seqs {
            suspects |= self.suspects.contains(seq);
            self.suspects.clear(seq);
        }
        if suspects {
            self.suspects.relax();
        }
        self.close()
    }

    /// The destination answered, if only with a refusal: it can be reached. True when that closed the circuit.
    pub(super) fn answered_at_all(&mut self) -> bool {
        !self.refusing && self.close()
    }

    fn close(&mut self) -> bool {
        let was_open = self.is_open();
        self.state = State::Closed;
        self.refusing = false;
        self.openings = 0;
        self.probed.clear();
        was_open
    }

    /// An address took something.
    pub(super) fn took(&mut self, now: Time, address: &Address) {
        match self.healthy.get_mut(address) {
            Some(at) => *at = now,
            None => {
                if self.healthy.len() >= ADDRESSES {
                    self.healthy.clear();
                }
                self.healthy.insert(address.clone(), now);
            }
        }
    }

    /// Whether any address but this one took something lately.
    pub(super) fn others_are_healthy(&self, now: Time, address: &Address) -> bool {
        let lately = |at: Time| now - at < HEALTHY_FOR;
        self.healthy
            .iter()
            .any(|(other, at)| other != address && lately(*at))
    }

    /// One more refusal; true when the circuit is to open instead of parking more. An address that does not exist says
    /// nothing of the others: as long as any of them is healthy, its events are parked and the others flow.
    pub(super) fn refused(&mut self, now: Time, misaddressed: Option<&Address>) -> bool {
        self.refusals = self.refusals.saturating_add(1);
        let Some(address) = misaddressed else {
            return self.refusals >= REFUSALS;
        };
        self.healthy.remove(address);
        if self.refusals < REFUSALS {
            return false;
        }
        self.healthy.retain(|_, at| now - *at < HEALTHY_FOR);
        self.healthy.is_empty()
    }

    /// The call failed as a whole. Gives the delay until the next probe.
    pub(super) fn open(&mut self, now: Time, refusing: bool, policy: &RetryPolicy, random: f64) -> Duration {
        if let State::Open { until } = self.state {
            // The rest of what was in flight fails too; that is no further reason to wait longer.
            return until - now;
        }
        self.openings = self.openings.saturating_add(1);
        self.refusing = refusing;
        let delay = policy.delay(self.openings, random);
        self.state = State::Open { until: now + delay };
        self.asked = false;
        delay
    }

    /// An event was in a call of `size` that was lost. True when it was alone often enough to be guilty.
    pub(super) fn lost(&mut self, seq: Seq, size: usize, alone: bool) -> bool {
        self.suspects.lost(seq, size);
        let guilty = alone && size == 1 && self.suspects.strike(seq, self.successes);
        if guilty {
            self.suspects.clear(seq);
        }
        guilty
    }

    /// How long ago, in probes, an address was probed; zero for never.
    pub(super) fn probed(&self, address: &Address) -> u64 {
        self.probed.get(address).copied().unwrap_or(0)
    }

    /// Counts a probe of an address; gives its number.
    pub(super) fn probe(&mut self, address: &Address) -> u64 {
        self.probes += 1;
        if self.probed.len() > ADDRESSES {
            self.probed.clear();
        }
        self.probed.insert(address.clone(), self.probes);
        self.probes
    }

    fn refill(&mut self, now: Time) {
        let Some(rate) = self.limits.max_rate else { return };
        let rate = f64::from(rate.max(1));
        let elapsed = (now - self.tokens_at).as_secs_f64();
        // A tenth of a second's worth may be saved up, so that batches form, and at least one event.
        self.tokens = (self.tokens + elapsed * rate).min((rate / 10.0).max(1.0));
        self.tokens_at = now;
    }

    fn tokens_short(&self) -> bool {
        self.limits.max_rate.is_some() && self.tokens < 1.0
    }

    fn next_token(&self, now: Time) -> Option<Time> {
        let rate = f64::from(self.limits.max_rate?.max(1));
        let missing = (1.0 - self.tokens).max(0.0);
        let at = self.tokens_at + Duration::from_secs_f64(missing / rate) + Duration::from_micros(1);
        (at > now).then_some(at)
    }
}

/// What may be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    None,
    Probe,
    Batch(usize),
    /// Events of the high lane, with their share of the others.
    Urgent(usize),
    /// Events that were in lost calls, with nothing else in flight.
    Suspects(usize),
}
