//! How an outbox in SQLite is set up.

use std::time::Duration;

/// How long what operators threw away is kept where no history is.
const KEEP_DISCARDED: Duration = Duration::from_secs(24 * 60 * 60);

/// The settings of a [`SqliteStore`](crate::SqliteStore).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqliteOptions {
    /// The name of the outbox table, and what the names of the others begin with. By default `outbox`.
    pub prefix: String,
    /// How long the history of published events is kept; older rows go as new ones come. None writes no history, which
    /// is faster and takes replay and the duplicate check away; what operators discard is then kept for a day. By
    /// default 7 days.
    pub history: Option<Duration>,
    /// For how long a published id is known as a duplicate; none, or no history: there is no such check. By default
    /// one day.
    pub dedup: Option<Duration>,
    /// How long a write waits for another process before it gives up as busy. By default 5 seconds.
    pub busy_timeout: Duration,
    /// How often a sleeping relay looks whether somebody has committed. By default every 2 milliseconds; a look costs a
    /// few microseconds and reads no table.
    pub data_version_every: Duration,
    /// Whether settles and heartbeats remove history that is older than it is kept. By default yes; who removes it
    /// himself, with [`Upkeep::purge`](postrider_core::Upkeep::purge), says no.
    pub trim: bool,
    /// Whether a missing file is made. By default yes; a relay beside a service should say no, so that a mistyped path
    /// is an error and not an empty database.
    pub create: bool,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            prefix: "outbox".to_owned(),
            history: Some(7 * DAY),
            dedup: Some(DAY),
            busy_timeout: Duration::from_secs(5),
            data_version_every: Duration::from_millis(2),
            trim: true,
            create: true,
        }
    }
}

postrider_core::setters! {
    SqliteOptions {
        prefix: impl Into<String> => prefix.into(),
        history: Option<Duration>,
        dedup: Option<Duration>,
        busy_timeout: Duration,
        data_version_every: Duration,
        trim: bool,
        create: bool,
    }
}

impl SqliteOptions {
    /// How old history may be that is not removed on the way; none: none is removed. Without a history there is only
    /// what operators threw away, which nobody else removes.
    pub(crate) fn trimmed(&self) -> Option<Duration> {
        match self.history {
            None => Some(KEEP_DISCARDED),
            kept => kept.filter(|_| self.trim),
        }
    }

    /// The duplicate window that can be kept: without a history there is nothing to look in.
    pub(crate) fn dedup_window(&self) -> Option<Duration> {
        self.history.and(self.dedup)
    }
}
