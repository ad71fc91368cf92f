//! The driver's clock: it never steps back, and it counts the time that the machine was suspended.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::engine::Time;

/// Now. A lease must not seem fresh after a night with the lid closed, so this is not the clock of `Instant`.
pub(crate) fn now() -> Time {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
    Time(Duration::new(seconds, nanos))
}
