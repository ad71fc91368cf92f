//! `[relay]` and `[relay.retry]`: how the engine works. Unset keys follow the profile, or the relay's own defaults.

use postrider_core::RetryPolicy;
use postrider_relay::{Profile, Settings};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::duration::Span;
use super::error::Problem;
use super::scalar::{Real, Size, Whole, word};

/// The table as it is written.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayTable {
    profile: Option<ProfileName>,
    poll_interval: Option<Span>,
    initial_delay: Option<Span>,
    batch_size: Option<Whole<1, 100_000>>,
    window: Option<Whole<1, 1_000_000>>,
    window_bytes: Option<Size>,
    publish_timeout: Option<Span>,
    lease: Option<Span>,
    drain_timeout: Option<Span>,
    stalled_after: Option<Span>,
    #[serde(default)]
    retry: RetryTable,
}

/// `[relay.retry]`, and `retry` of a destination.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryTable {
    base: Option<Span>,
    multiplier: Option<Real<1, 1_000>>,
    max: Option<Span>,
    jitter: Option<Real<0, 1>>,
    max_attempts: Option<Whole<1, 1_000_000>>,
}

#[derive(Clone, Copy)]
struct ProfileName(Profile);

impl<'de> Deserialize<'de> for ProfileName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(
            deserializer,
            &Profile::ALL.map(|profile| (profile.as_str(), ProfileName(profile))),
        )
    }
}

/// How the relay works.
#[derive(Clone, Debug, PartialEq)]
pub struct Relay {
    pub profile: Option<Profile>,
    pub settings: Settings,
}

/// Takes over what is given.
fn set<T>(field: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *field = given;
    }
}

impl RelayTable {
    pub fn resolve(this: Option<Spanned<Self>>) -> Result<Relay, Problem> {
        let span = this.as_ref().map(Spanned::span);
        let table = this.map(Spanned::into_inner).unwrap_or_default();
        let profile = table.profile.map(|name| name.0);
        let mut settings = profile.map_or_else(Settings::default, Profile::settings);
        set(
            &mut settings.poll_interval,
            table.poll_interval.map(|span| span.0),
        );
        set(
            &mut settings.initial_delay,
            table.initial_delay.map(|span| span.0),
        );
        set(&mut settings.batch_size, table.batch_size.map(|n| n.0 as usize));
        set(&mut settings.window, table.window.map(|n| n.0 as usize));
        set(&mut settings.window_bytes, table.window_bytes.map(|size| size.0));
        set(
            &mut settings.publish_timeout,
            table.publish_timeout.map(|span| span.0),
        );
        set(&mut settings.lease, table.lease.map(|span| span.0));
        set(
            &mut settings.drain_timeout,
            table.drain_timeout.map(|span| span.0),
        );
        set(
            &mut settings.stalled_after,
            table.stalled_after.map(|span| span.0),
        );
        settings.retry = table.retry.over(settings.retry);
        // Bounds between several keys; what concerns one key alone was refused at its own line.
        match (settings.validate(), span) {
            (Ok(()), _) => Ok(Relay { profile, settings }),
            (Err(error), Some(span)) => Err(Problem::new(format!("relay.{error}")).at(span)),
            (Err(error), None) => Err(Problem::new(format!("relay.{error}"))),
        }
    }
}

impl RetryTable {
    /// These settings laid over others.
    pub fn over(self, base: RetryPolicy) -> RetryPolicy {
        let mut policy = base;
        set(&mut policy.base, self.base.map(|span| span.0));
        set(&mut policy.multiplier, self.multiplier.map(|number| number.0));
        set(&mut policy.max, self.max.map(|span| span.0));
        set(&mut policy.jitter, self.jitter.map(|number| number.0));
        set(
            &mut policy.max_attempts,
            self.max_attempts.map(|n| u32::try_from(n.0).unwrap_or(u32::MAX)),
        );
        policy
    }
}
