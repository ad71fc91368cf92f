//! Live counts for the screen, and the stopwatch. The account at the end does not use the counts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// What the parts of the demo tell the screen.
#[derive(Default)]
pub struct Board {
    committed: AtomicU64,
    rolled_back: AtomicU64,
    arrived: AtomicU64,
    effects: AtomicU64,
    watch: Mutex<Stopwatch>,
}

/// The counts at one moment.
pub struct Counts {
    pub committed: u64,
    pub rolled_back: u64,
    pub arrived: u64,
    pub effects: u64,
}

impl Board {
    pub fn committed(&self, event_id: &str) {
        let now = Instant::now();
        self.committed.fetch_add(1, Ordering::Relaxed);
        self.watch(|watch| watch.committed(event_id, now));
    }

    pub fn rolled_back(&self) {
        self.rolled_back.fetch_add(1, Ordering::Relaxed);
    }

    pub fn arrived(&self, messages: usize) {
        self.arrived.fetch_add(messages as u64, Ordering::Relaxed);
    }

    pub fn effect(&self, event_id: &str, at: Instant) {
        self.effects.fetch_add(1, Ordering::Relaxed);
        self.watch(|watch| watch.effect(event_id, at));
    }

    pub fn counts(&self) -> Counts {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            committed: get(&self.committed),
            rolled_back: get(&self.rolled_back),
            arrived: get(&self.arrived),
            effects: get(&self.effects),
        }
    }

    /// Committed and without effect so far.
    pub fn behind(&self) -> u64 {
        let counts = self.counts();
        counts.committed.saturating_sub(counts.effects)
    }

    /// The time from commit to effect below which this share of the events was.
    pub fn latency(&self, quantile: f64) -> Duration {
        self.watch(|watch| match &watch.times {
            Some(times) => Duration::from_micros(times.value_at_quantile(quantile)),
            None => Duration::ZERO,
        })
    }

    fn watch<T>(&self, with: impl FnOnce(&mut Stopwatch) -> T) -> T {
        with(&mut self.watch.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Times from commit to effect. An entry stays only until both ends are known, so it does not grow with the run.
#[derive(Default)]
struct Stopwatch {
    open: HashMap<String, Instant>,
    times: Option<Histogram<u64>>,
}

impl Stopwatch {
    /// The effect may be noted first: the service notes its commit after it returned, and may be put to sleep in
    /// between.
    fn committed(&mut self, event_id: &str, at: Instant) {
        match self.open.entry(event_id.to_owned()) {
            Entry::Vacant(entry) => drop(entry.insert(at)),
            Entry::Occupied(effect) => {
                let effect = effect.remove();
                self.record(effect.saturating_duration_since(at));
            }
        }
    }

    fn effect(&mut self, event_id: &str, at: Instant) {
        match self.open.remove(event_id) {
            Some(committed) => self.record(at.saturating_duration_since(committed)),
            None => drop(self.open.insert(event_id.to_owned(), at)),
        }
    }

    fn record(&mut self, time: Duration) {
        if self.times.is_none() {
            // Three digits, up to an hour in microseconds: bounds that a histogram accepts.
            self.times = Histogram::new_with_max(3_600_000_000, 3).ok();
        }
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        if let Some(times) = &mut self.times {
            times.saturating_record(micros);
        }
    }
}
