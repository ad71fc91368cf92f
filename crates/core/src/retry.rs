//! When a refused event is tried again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Back-off of refused events and of closed circuits: `min(base · multiplier^(n-1) · (1 ± jitter), max)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// The delay after the first failure.
    pub base: Duration,
    /// What each further failure multiplies it by.
    pub multiplier: f64,
    /// No delay is longer, jitter included.
    pub max: Duration,
    /// The share by which a delay may be shorter or longer, so that many events do not come back at once.
    pub jitter: f64,
    /// Charged attempts after which an event is dead.
    pub max_attempts: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            base: Duration::from_secs(1),
            multiplier: 2.0,
            max: Duration::from_secs(300),
            jitter: 0.2,
            max_attempts: 10,
        }
    }
}

impl RetryPolicy {
    /// For what is tried until it works, such as a connection: doubles, and half of it is chance, so that many relays
    /// that lost the same server do not come back in step.
    pub const fn until_it_works(base: Duration, max: Duration) -> Self {
        Self {
            base,
            multiplier: 2.0,
            max,
            jitter: 0.5,
            max_attempts: u32::MAX,
        }
    }

    /// The delay after the n-th failure, `n` from 1. `random` is uniform in 0..1 and comes from the caller, so that a
    /// simulated run can be repeated.
    pub fn delay(&self, n: u32, random: f64) -> Duration {
        let exponent = i32::try_from(n.saturating_sub(1)).unwrap_or(i32::MAX);
        let factor = self.multiplier.max(1.0).powi(exponent) * (1.0 + self.jitter * (2.0 * random - 1.0));
        let seconds = (self.base.as_secs_f64() * factor).min(self.max.as_secs_f64());
        Duration::try_from_secs_f64(seconds).unwrap_or(self.max)
    }

    /// The delay after the n-th failure by a chance of its own, for those of whom no simulation asks to do it again.
    pub fn pause(&self, n: u32) -> Duration {
        self.delay(n, chance())
    }
}

/// A number in 0..1 that differs from call to call and from process to process; for pauses, not for secrets.
fn chance() -> f64 {
    let drawn = RandomState::new().hash_one(()) >> 32;
    drawn as f64 / (1_u64 << 32) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_starts_at_base_doubles_and_never_exceeds_max() {
        let policy = RetryPolicy::default();
        let plain: Vec<u64> = (1..=10).map(|n| policy.delay(n, 0.5).as_secs()).collect();
        assert_eq!(plain, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(policy.delay(u32::MAX, 0.999), policy.max);
        assert_eq!(policy.delay(1, 0.0), Duration::from_millis(800));
        assert!(policy.delay(1, 1.0) <= Duration::from_millis(1_200));
    }

    #[test]
    fn what_is_tried_until_it_works_never_waits_longer_than_it_may() {
        let (base, max) = (Duration::from_millis(100), Duration::from_secs(2));
        let policy = RetryPolicy::until_it_works(base, max);
        for failures in 1..60 {
            let delay = policy.pause(failures);
            assert!(delay >= base / 2 && delay <= max, "{failures}: {delay:?}");
        }
        assert_eq!(policy.delay(60, 0.0), max);
    }

    #[test]
    fn chance_is_spread_over_its_range() {
        let drawn: Vec<f64> = (0..1_000).map(|_| chance()).collect();
        assert!(drawn.iter().all(|one| (0.0..1.0).contains(one)));
        let low = drawn.iter().filter(|one| **one < 0.5).count();
        assert!((300..700).contains(&low), "{low} of 1,000 are below the middle");
    }
}
