//! What can be set about a relay, with the reasons for the defaults.

use std::time::Duration;

use postrider_core::RetryPolicy;

/// The longest sleep between two reads of an idle outbox: what a missed doorbell costs.
pub const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Events per publish call: large enough to share a round trip, small enough to confirm within milliseconds.
pub const DEFAULT_BATCH_SIZE: usize = 100;
/// Events of the normal lane in memory: enough to keep a broker busy over one read and one settle.
pub const DEFAULT_WINDOW: usize = 2_048;
/// Bytes of events in memory: what keeps a relay small whatever the payloads are.
pub const DEFAULT_WINDOW_BYTES: usize = 16 << 20;
/// How long a dead relay's shards stay with it: the longest pause after a crash.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(10);
/// How long a stopping relay waits for confirms.
pub const DEFAULT_DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// After how long an event that keeps being refused counts among the dead for health.
pub const DEFAULT_STALLED_AFTER: Duration = Duration::from_secs(15 * 60);

/// How long a publish call may go without an answer before it counts as lost.
pub const DEFAULT_PUBLISH_TIMEOUT: Duration = Duration::from_secs(30);

/// Named sets of defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Small batches, few attempts: mistakes show early.
    Development,
    /// As production, with fewer attempts.
    Staging,
    /// Patient.
    Production,
    /// Patient, with large batches and a short poll.
    HighVolume,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Profile; 4] = [
        Profile::Development,
        Profile::Staging,
        Profile::Production,
        Profile::HighVolume,
    ];

    /// Its name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Profile::Development => "development",
            Profile::Staging => "staging",
            Profile::Production => "production",
            Profile::HighVolume => "high-volume",
        }
    }

    /// The profile of a name.
    pub fn parse(name: &str) -> Option<Profile> {
        Profile::ALL.into_iter().find(|profile| profile.as_str() == name)
    }

    /// The settings it stands for.
    pub fn settings(self) -> Settings {
        let (poll_secs, batch_size, max_attempts, max_secs) = match self {
            Profile::Development => (5, 50, 3, 60),
            Profile::Staging => (5, 100, 5, 300),
            Profile::Production => (5, 100, 10, 600),
            Profile::HighVolume => (1, 500, 10, 600),
        };
        Settings {
            poll_interval: Duration::from_secs(poll_secs),
            batch_size,
            retry: RetryPolicy {
                max_attempts,
                max: Duration::from_secs(max_secs),
                ..RetryPolicy::default()
            },
            ..Settings::default()
        }
    }
}

/// What can be set about a relay. Every field has a default.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The longest sleep between two reads of an idle outbox.
    pub poll_interval: Duration,
    /// The wait before the first read, for services that want to be up first.
    pub initial_delay: Duration,
    /// Events per publish call.
    pub batch_size: usize,
    /// Events of the normal lane in memory.
    pub window: usize,
    /// Bytes of events in memory.
    pub window_bytes: usize,
    /// How long a lease lasts without renewal; at most a minute.
    pub lease: Duration,
    /// How long a stopping relay waits for confirms.
    pub drain_timeout: Duration,
    /// How long a publish call may go without an answer before it counts as lost.
    pub publish_timeout: Duration,
    /// After how long an event that keeps being refused counts among the dead for health.
    pub stalled_after: Duration,
    /// How refused events are tried again, for destinations that do not say.
    pub retry: RetryPolicy,
    /// How often an unavailable destination is probed. The maximum is what keeps the promise to resume within 5 s.
    pub circuit: RetryPolicy,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            poll_interval: DEFAULT_POLL_INTERVAL,
            initial_delay: Duration::ZERO,
            batch_size: DEFAULT_BATCH_SIZE,
            window: DEFAULT_WINDOW,
            window_bytes: DEFAULT_WINDOW_BYTES,
            lease: DEFAULT_LEASE,
            drain_timeout: DEFAULT_DRAIN_TIMEOUT,
            publish_timeout: DEFAULT_PUBLISH_TIMEOUT,
            stalled_after: DEFAULT_STALLED_AFTER,
            retry: RetryPolicy::default(),
            circuit: RetryPolicy {
                base: Duration::from_millis(200),
                max: Duration::from_secs(3),
                ..RetryPolicy::default()
            },
        }
    }
}

impl Settings {
    /// Checks every field; the error names the field and its bounds.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let at_least = |field, got: Duration, least: Duration| match got >= least {
            true => Ok(()),
            false => Err(SettingsError {
                field,
                constraint: format!("must be at least {least:?}, is {got:?}"),
            }),
        };
        let positive = |field, got: usize| match got {
            0 => Err(SettingsError {
                field,
                constraint: "must be at least 1".to_owned(),
            }),
            _ => Ok(()),
        };
        at_least("poll_interval", self.poll_interval, Duration::from_millis(1))?;
        at_least("lease", self.lease, Duration::from_millis(100))?;
        if self.lease > LONGEST_LEASE {
            return Err(SettingsError {
                field: "lease",
                constraint: format!("must be at most {LONGEST_LEASE:?}"),
            });
        }
        at_least("publish_timeout", self.publish_timeout, Duration::from_millis(1))?;
        at_least("retry.base", self.retry.base, Duration::from_millis(1))?;
        at_least("retry.max", self.retry.max, self.retry.base)?;
        at_least("circuit.base", self.circuit.base, Duration::from_millis(1))?;
        at_least("circuit.max", self.circuit.max, self.circuit.base)?;
        positive("batch_size", self.batch_size)?;
        positive("window", self.window)?;
        positive("window_bytes", self.window_bytes)?;
        positive("retry.max_attempts", self.retry.max_attempts as usize)?;
        if !(0.0..=1.0).contains(&self.retry.jitter) {
            return Err(SettingsError {
                field: "retry.jitter",
                constraint: "must be from 0 to 1".to_owned(),
            });
        }
        if !(1.0..=1_000.0).contains(&self.retry.multiplier) {
            let constraint = "must be from 1 to 1000".to_owned();
            return Err(SettingsError {
                field: "retry.multiplier",
                constraint,
            });
        }
        Ok(())
    }
}

/// A relay does not believe an expiry that lies further ahead than ten of its own leases and a minute: it would be a
/// clock that was set. So no lease may be longer than that, whatever the lease of its neighbour is.
const LONGEST_LEASE: Duration = Duration::from_secs(60);

/// A setting is out of bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {constraint}")]
pub struct SettingsError {
    /// The setting.
    pub field: &'static str,
    /// Its bounds.
    pub constraint: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_and_the_default_are_valid() {
        Settings::default().validate().unwrap();
        for profile in Profile::ALL {
            profile.settings().validate().unwrap();
            assert_eq!(Profile::parse(profile.as_str()), Some(profile));
        }
        assert_eq!(Profile::Development.settings().retry.max_attempts, 3);
        assert_eq!(Profile::HighVolume.settings().batch_size, 500);
    }

    #[test]
    fn a_bad_setting_is_named() {
        let settings = Settings {
            batch_size: 0,
            ..Settings::default()
        };
        assert_eq!(settings.validate().unwrap_err().field, "batch_size");
    }
}
