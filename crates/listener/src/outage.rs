//! How long something has been away, and when it is tried again.

use std::time::Duration;

use postrider_core::{RetryPolicy, SourceErrorKind};

/// Long enough not to spin, and short enough that work resumes within seconds of the end of an outage.
const AGAIN: RetryPolicy = RetryPolicy::until_it_works(Duration::from_millis(100), Duration::from_secs(5));

/// Something that may be away: the broker, the database, the place for dead letters.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    failures: u32,
    until: Option<Duration>,
    kind: &'static str,
}

impl Outage {
    /// It failed. Gives the pause, and whether people have not been told of this kind of trouble yet.
    pub(crate) fn failed(&mut self, now: Duration, kind: &'static str) -> (Duration, bool) {
        // Several calls that were under way fail together: that is one failure.
        if self.is_closed(now) {
            return (self.until.unwrap_or(now) - now, false);
        }
        let news = self.failures == 0 || self.kind != kind;
        self.failures = self.failures.saturating_add(1);
        self.kind = kind;
        let pause = AGAIN.pause(self.failures);
        self.until = Some(now + pause);
        (pause, news)
    }

    /// It worked. Says whether it was away before.
    pub(crate) fn worked(&mut self) -> bool {
        let was_away = self.failures > 0;
        *self = Self::default();
        was_away
    }

    /// Whether it is too early to try again.
    pub(crate) fn is_closed(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| until > now)
    }

    /// Whether it is not known to be back.
    pub(crate) fn is_on(&self) -> bool {
        self.failures > 0
    }

    /// When it may be tried again, if that is still to come.
    pub(crate) fn due(&self, now: Duration) -> Option<Duration> {
        self.until.filter(|until| *until > now)
    }
}

/// The pause before something is published again that could not be, after its n-th failure.
pub(crate) fn pause(failures: u32) -> Duration {
    AGAIN.pause(failures)
}

/// What a broker that is away is called, and what to do about it.
pub(crate) fn advice(kind: SourceErrorKind) -> (&'static str, &'static str) {
    match kind {
        SourceErrorKind::Denied => (
            "denied",
            "check the user, the password and the permissions on the queue",
        ),
        SourceErrorKind::Missing => ("missing", "declare the queue, or correct its name"),
        _ => (
            "unreachable",
            "check that the broker is running and that its address is right",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_fail_together_are_one_failure_and_one_piece_of_news() {
        let mut outage = Outage::default();
        assert!(!outage.worked());
        let (pause, news) = outage.failed(Duration::ZERO, "unreachable");
        assert!(news && pause >= Duration::from_millis(50));
        assert!(!outage.failed(Duration::ZERO, "unreachable").1);
        assert_eq!(outage.failures, 1);
        assert!(outage.is_closed(Duration::ZERO) && outage.is_on());
        assert!(!outage.is_closed(pause) && outage.is_on());
        assert!(!outage.failed(pause, "unreachable").1);
        let later = Duration::from_secs(60);
        assert!(outage.failed(later, "denied").1, "another trouble is news");
        assert!(outage.worked() && !outage.is_on() && outage.due(Duration::ZERO).is_none());
    }
}
