//! Whether the loops of a relay still turn: a process that is up and does nothing must not look alive.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::clock;
use crate::engine::Time;

/// A loop that sleeps until somebody calls it has no time by which it must turn.
const ASLEEP: u64 = u64::MAX;

/// The loops of one relay: one a run.
#[derive(Debug, Default)]
pub(crate) struct Pulses(Mutex<Vec<Weak<Pulse>>>);

impl Pulses {
    /// A loop begins.
    pub(crate) fn begin(&self) -> Arc<Pulse> {
        let pulse = Arc::new(Pulse(AtomicU64::new(ASLEEP)));
        let mut loops = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loops.retain(|pulse| pulse.strong_count() > 0);
        loops.push(Arc::downgrade(&pulse));
        pulse
    }

    /// By how much the latest of them is behind the time at which it had to turn.
    pub(crate) fn late(&self) -> Duration {
        let now = micros(clock::now());
        let loops = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let late = loops
            .iter()
            .filter_map(Weak::upgrade)
            .map(|pulse| now.saturating_sub(pulse.0.load(Ordering::Relaxed)));
        Duration::from_micros(late.max().unwrap_or(0))
    }
}

/// One loop: the time by which it has to turn.
#[derive(Debug)]
pub(crate) struct Pulse(AtomicU64);

impl Pulse {
    /// The loop is awake, or sleeps until `at` unless it is called.
    pub(crate) fn due(&self, at: Option<Time>) {
        self.0.store(at.map_or(ASLEEP, micros), Ordering::Relaxed);
    }
}

fn micros(time: Time) -> u64 {
    u64::try_from(time.0.as_micros()).unwrap_or(ASLEEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_late_from_the_time_it_had_to_turn_and_until_it_ends() {
        let pulses = Pulses::default();
        let (first, second) = (pulses.begin(), pulses.begin());
        assert_eq!(pulses.late(), Duration::ZERO, "asleep");
        let now = clock::now();
        second.due(Some(now + Duration::from_secs(60)));
        assert_eq!(pulses.late(), Duration::ZERO, "not yet due");
        first.due(Some(Time(now.0.saturating_sub(Duration::from_millis(1)))));
        assert!(pulses.late() >= Duration::from_millis(1));
        drop(first);
        assert_eq!(pulses.late(), Duration::ZERO, "it ended");
    }
}
