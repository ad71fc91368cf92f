//! The records of an inbox as people see them: which are meant, how they are removed, and how long they must be kept.

use std::time::Duration;

use crate::{BoxFuture, Recorded, StoreError};

/// Which records of an inbox are meant. Every part that is given must hold.
///
/// ```
/// use std::time::Duration;
/// use postrider_core::Records;
///
/// let since_the_bug = Records::of("billing").newer_than(Duration::from_secs(7_200));
/// assert!(since_the_bug.ids.is_empty(), "of any event");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Whose they are.
    pub consumer: String,
    /// The ids of their events; empty: any.
    pub ids: Vec<String>,
    /// At least this old.
    pub older_than: Option<Duration>,
    /// At most this old.
    pub newer_than: Option<Duration>,
}

impl Records {
    /// All records of a consumer.
    pub fn of(consumer: impl Into<String>) -> Self {
        Self {
            consumer: consumer.into(),
            ..Self::default()
        }
    }

    /// Of these events only.
    pub fn ids(mut self, ids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.ids = ids.into_iter().map(Into::into).collect();
        self
    }

    /// Only those that are at least this old.
    pub fn older_than(mut self, age: Duration) -> Self {
        self.older_than = Some(age);
        self
    }

    /// Only those that are at most this old.
    pub fn newer_than(mut self, age: Duration) -> Self {
        self.newer_than = Some(age);
        self
    }
}

/// An inbox as operators see it.
pub trait InboxConsole: Send + Sync {
    /// Makes the table where it is missing.
    fn migrate(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// How many records are meant.
    fn count(&self, records: Records) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// Forgets every event whose record is meant, so that it takes effect again when it is delivered again; answers how
    /// many.
    fn forget(&self, records: Records) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// What is known of an event with this id and hash: None when it has not taken effect. Nothing is written.
    fn look(
        &self,
        consumer: String,
        event_id: String,
        hash: Option<String>,
    ) -> BoxFuture<'_, Result<Option<Recorded>, StoreError>>;

    /// Records an event in a transaction of its own, for an effect that is in none: it has happened elsewhere. Unless
    /// the answer is an error, it is recorded now.
    fn record(
        &self,
        consumer: String,
        event_id: String,
        hash: Option<String>,
    ) -> BoxFuture<'_, Result<Recorded, StoreError>>;

    /// Removes records that are older than this, of one consumer or of all, at most `limit`; answers how many. Each
    /// consumer knows for itself how late its broker may deliver: for how long all are kept is for people to say.
    fn purge(
        &self,
        consumer: Option<String>,
        older_than: Duration,
        limit: u32,
    ) -> BoxFuture<'_, Result<u64, StoreError>>;
}

/// The least for which records are worth keeping when nobody knows how late a broker may deliver again: a consumer that
/// stands still over a weekend and a holiday.
const LEAST: Duration = Duration::from_secs(7 * 86_400);

/// Whether records are kept for longer than a broker may deliver an event again; if not, a sentence that says what may
/// happen and what to do. The horizon is how long a message can lie in the queue and come back from it; None where
/// nothing bounds that.
///
/// ```
/// use std::time::Duration;
/// use postrider_core::kept_long_enough;
///
/// let day = Duration::from_secs(86_400);
/// assert!(kept_long_enough(30 * day, Some(14 * day)).is_ok());
/// assert!(kept_long_enough(14 * day, Some(30 * day)).is_err());
/// ```
pub fn kept_long_enough(kept: Duration, horizon: Option<Duration>) -> Result<(), String> {
    let days = |time: Duration| format!("{:.1} days", time.as_secs_f64() / 86_400.0);
    match horizon {
        Some(horizon) if kept <= horizon => Err(format!(
            "the inbox knows an event for {}, and the broker may deliver it again after {}: it would take effect \
             twice; raise the retention of the inbox above that",
            days(kept),
            days(horizon)
        )),
        None if kept < LEAST => Err(format!(
            "the inbox knows an event for {}, and nothing bounds how long the broker keeps a message: a repetition \
             that lies in the queue for longer would take effect again; raise the retention of the inbox to {} or \
             more, or give the messages a shorter time to live",
            days(kept),
            days(LEAST)
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault D7.
    #[test]
    fn records_outlive_the_last_redelivery() {
        const DAY: Duration = Duration::from_secs(86_400);
        assert!(kept_long_enough(2 * DAY, Some(DAY)).is_ok());
        let text = kept_long_enough(DAY, Some(DAY)).unwrap_err();
        assert!(
            text.contains("1.0 days") && text.contains("raise the retention"),
            "{text}"
        );
        assert!(kept_long_enough(30 * DAY, None).is_ok());
        assert!(kept_long_enough(6 * DAY, None).is_err());
    }
}
