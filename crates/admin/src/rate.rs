//! How many a second, over the last minute.

/// For how many seconds is remembered.
const SECONDS: u64 = 60;

/// A count per second, for a minute.
#[derive(Clone, Debug)]
pub(crate) struct Rate {
    buckets: [u64; SECONDS as usize],
    now: u64,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            buckets: [0; SECONDS as usize],
            now: 0,
        }
    }
}

impl Rate {
    /// Counts some in this second, of which nothing is assumed but that it does not step back.
    pub(crate) fn add(&mut self, second: u64, by: u64) {
        self.turn(second);
        self.buckets[(second % SECONDS) as usize] += by;
    }

    /// The mean of the last minute.
    pub(crate) fn per_second(&mut self, second: u64) -> f64 {
        self.turn(second);
        self.buckets.iter().sum::<u64>() as f64 / SECONDS as f64
    }

    /// Forgets what is older than a minute.
    fn turn(&mut self, second: u64) {
        let passed = second.saturating_sub(self.now).min(SECONDS);
        for at in 0..passed {
            self.buckets[((second - at) % SECONDS) as usize] = 0;
        }
        self.now = self.now.max(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_remembered_and_no_more() {
        let mut rate = Rate::default();
        for second in 0..100 {
            rate.add(second, 6);
        }
        assert_eq!(rate.per_second(99), 6.0);
        assert_eq!(rate.per_second(129), 3.0);
        assert_eq!(rate.per_second(158), 0.1);
        assert_eq!(rate.per_second(159), 0.0);
        rate.add(10_000, 60);
        assert_eq!(rate.per_second(10_000), 1.0);
    }
}
