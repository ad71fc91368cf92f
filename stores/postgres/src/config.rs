//! How an outbox in PostgreSQL is set up.

use std::path::PathBuf;
use std::time::Duration;

use postrider_core::Secret;

/// The settings of a [`PgStore`](crate::PgStore).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PgOptions {
    /// The schema that the tables are in. By default `public`.
    pub schema: String,
    /// The name of the outbox table, and what the names of the others begin with. By default `outbox`.
    pub prefix: String,
    /// How long the history of published events is kept. None writes no history, which is faster and takes replay and
    /// the duplicate check away. By default 7 days.
    pub history: Option<Duration>,
    /// Whether a relay drops the days that are past [`PgOptions::history`], once an hour. No where somebody else looks
    /// after the history with [`Upkeep::purge`](postrider_core::Upkeep::purge), at a time of his own or after he has
    /// archived it. By default yes.
    pub trim: bool,
    /// For how long a published id is known as a duplicate; none, or no history: there is no such check. By default
    /// one day.
    pub dedup: Option<Duration>,
    /// Into how many shards keys are divided; fixed when the tables are made. By default 64.
    pub shards: u16,
    /// Whether the database makes writers of one key take turns; fixed when the tables are made. By default no:
    /// services that lock the row they change do so already.
    pub strict_keys: bool,
    /// In place of the user of the url.
    pub user: Option<String>,
    /// In place of the password of the url.
    pub password: Option<Secret>,
    /// A file that holds the password, read at every connect: a new password needs no restart.
    pub password_file: Option<PathBuf>,
    /// A file that holds the url, read at every connect, in place of the one that the store was opened with.
    pub url_file: Option<PathBuf>,
    /// How the connection is protected.
    pub tls: PgTls,
    /// Where to listen for the doorbell and keep session locks, when `url` leads through a pooler that gives every
    /// transaction to another session. Nothing is then prepared or set on the sessions behind `url`.
    pub listen_url: Option<Secret>,
    /// A file that holds `listen_url`, read at every connect of that way.
    pub listen_url_file: Option<PathBuf>,
    /// Only polls: no session locks, no LISTEN, and nothing prepared or set on a session. For a pooler without a
    /// direct way beside it. By default no.
    pub poll_only: bool,
    /// How long a connection may take to come about. By default 5 seconds.
    pub connect_timeout: Duration,
    /// How long one statement may take, and a transaction may stand idle; below a third of the lease, or a relay that
    /// hangs in one loses its shards. By default 3 seconds.
    pub statement_timeout: Duration,
    /// Whether a read may take the short way; off only in tests, which hold both ways to the same contract.
    #[doc(hidden)]
    pub short_reads: bool,
}

/// How a connection to PostgreSQL is protected. A `sslmode` in the url chooses too: `disable` turns TLS off,
/// `verify-full` and `require` turn it on, both with verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PgTls {
    /// Certificate and host name are verified, against the authorities of the system; without TLS only on loopback and
    /// on a socket of this machine.
    #[default]
    Auto,
    /// The same, also on loopback, against the authorities in this file (PEM).
    Authority(PathBuf),
    /// Encrypted, but whoever answers is believed. Everybody on the way can read and change everything.
    Unverified,
    /// Not encrypted.
    Off,
}

impl Default for PgOptions {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            schema: "public".to_owned(),
            prefix: "outbox".to_owned(),
            history: Some(7 * DAY),
            trim: true,
            dedup: Some(DAY),
            shards: 64,
            strict_keys: false,
            user: None,
            password: None,
            password_file: None,
            url_file: None,
            tls: PgTls::default(),
            listen_url: None,
            listen_url_file: None,
            poll_only: false,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(3),
            short_reads: true,
        }
    }
}

postrider_core::setters! {
    PgOptions {
        schema: impl Into<String> => schema.into(),
        prefix: impl Into<String> => prefix.into(),
        history: Option<Duration>,
        trim: bool,
        dedup: Option<Duration>,
        shards: u16,
        strict_keys: bool,
        /// It wins over any other password.
        password_file: impl Into<PathBuf> => Some(password_file.into()),
        url_file: impl Into<PathBuf> => Some(url_file.into()),
        tls: PgTls,
        listen_url: impl Into<Secret> => Some(listen_url.into()),
        listen_url_file: impl Into<PathBuf> => Some(listen_url_file.into()),
        poll_only: bool,
        connect_timeout: Duration,
        statement_timeout: Duration,
        #[doc(hidden)]
        short_reads: bool,
    }
}

impl PgOptions {
    /// Sets [`PgOptions::user`] and [`PgOptions::password`].
    pub fn login(mut self, user: Option<String>, password: Option<Secret>) -> Self {
        self.user = user;
        self.password = password;
        self
    }

    /// The duplicate window that can be kept: without a history there is nothing to look in.
    pub(crate) fn dedup_window(&self) -> Option<Duration> {
        self.history.and(self.dedup)
    }
}
