//! How long to wait after the database failed.

use std::time::Duration;

use postrider_core::RetryPolicy;

/// Short at first, because most failures are a lost connection; never so long that a relay is late when the database is
/// back.
const POLICY: RetryPolicy = RetryPolicy {
    base: Duration::from_millis(50),
    multiplier: 2.0,
    max: Duration::from_secs(2),
    jitter: 0.2,
    max_attempts: u32::MAX,
};

/// Failures of one kind of call in a row.
#[derive(Debug, Default)]
pub(super) struct Again {
    failures: u32,
}

impl Again {
    /// Another failure: how long to wait. `random` is uniform in 0..1.
    pub(super) fn failed(&mut self, random: f64) -> Duration {
        self.failures = self.failures.saturating_add(1);
        POLICY.delay(self.failures, random)
    }

    /// True when it had failed before.
    pub(super) fn succeeded(&mut self) -> bool {
        std::mem::take(&mut self.failures) > 0
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }
}
