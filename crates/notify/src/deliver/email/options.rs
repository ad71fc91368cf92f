//! What can be set about mail.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use postrider_core::Secret;

/// How the way to the server is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// The connection begins in the clear and must become TLS before anything is said: port 587.
    StartTls,
    /// TLS from the first byte: port 465.
    Tls,
    /// None: for a server on this machine.
    None,
}

impl Security {
    fn port(self) -> u16 {
        match self {
            Security::StartTls => 587,
            Security::Tls => 465,
            Security::None => 25,
        }
    }
}

/// A server that is alive answers a letter within a second or two. Twice this, for a new connection and for the last
/// letter, and the time of a batch stay below the 30 s that a relay gives a call.
const TIMEOUT: Duration = Duration::from_secs(10);
/// After this time no further letter of a batch is begun.
const BATCH_TIME: Duration = Duration::from_secs(5);
/// Connections at a time. Servers of providers allow few.
const CONNECTIONS: usize = 4;
/// What nearly every server takes.
const MAX_MESSAGE_BYTES: usize = 10 << 20;

/// How an [`super::EmailSink`] sends.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EmailOptions {
    /// The server.
    pub host: String,
    /// Its port; None: that of the security.
    pub port: Option<u16>,
    /// How the way there is protected.
    pub security: Security,
    /// Lets mail, and a login, go unprotected to another machine.
    pub allow_plain: bool,
    /// Who logs in; None: nobody has to.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<Secret>,
    /// Who writes, as `name@example.com` or `Name <name@example.com>`.
    pub from: String,
    /// PEM file with authorities that the server's certificate may come from, besides those of the machine.
    pub ca_file: Option<PathBuf>,
    /// How long making a connection may take, and how long one letter.
    pub timeout: Duration,
    /// After which time no further letter of a batch is begun; the rest goes with the next. Together with twice the
    /// time-out and 5 s it must stay below the relay's `publish_timeout`, or what was sent counts as lost and is sent
    /// again.
    pub batch_time: Duration,
    /// The url by which a reader unsubscribes with one click (RFC 8058), with `{user_id}`, `{category}` and
    /// `{signature}` in it. Without a signature anybody could turn off the mail of somebody whose id they know.
    pub unsubscribe: Option<String>,
    /// What `{signature}` is made with, see [`crate::http::sign_unsubscribe`]: the secret of the feeds.
    pub unsubscribe_secret: Option<Secret>,
    /// Connections at a time.
    pub connections: usize,
    /// What this machine calls itself; None: its address.
    pub hello: Option<String>,
    /// The largest payload that is tried.
    pub max_message_bytes: usize,
}

postrider_core::setters! {
    EmailOptions {
        port: u16 => Some(port),
        security: Security,
        allow_plain: bool,
        ca_file: impl Into<PathBuf> => Some(ca_file.into()),
        timeout: Duration,
        batch_time: Duration,
        unsubscribe: impl Into<String> => Some(unsubscribe.into()),
        unsubscribe_secret: impl Into<Secret> => Some(unsubscribe_secret.into()),
        /// At least one.
        connections: usize => connections.max(1),
        hello: impl Into<String> => Some(hello.into()),
        max_message_bytes: usize,
    }
}

impl EmailOptions {
    /// A server that is reached with `STARTTLS` on port 587, and the sender.
    pub fn new(host: impl Into<String>, from: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            port: None,
            security: Security::StartTls,
            allow_plain: false,
            user: None,
            password: None,
            from: from.into(),
            ca_file: None,
            timeout: TIMEOUT,
            batch_time: BATCH_TIME,
            unsubscribe: None,
            unsubscribe_secret: None,
            connections: CONNECTIONS,
            hello: None,
            max_message_bytes: MAX_MESSAGE_BYTES,
        }
    }

    /// Sets [`EmailOptions::user`] and [`EmailOptions::password`].
    pub fn login(mut self, user: impl Into<String>, password: Secret) -> Self {
        self.user = Some(user.into());
        self.password = Some(password);
        self
    }

    pub(super) fn server(&self) -> (&str, u16) {
        (&self.host, self.port.unwrap_or(self.security.port()))
    }

    /// Whether the way to the server may be unprotected.
    pub(super) fn may_be_plain(&self) -> bool {
        let address = self.host.trim_matches(['[', ']']).parse::<IpAddr>();
        let here = address.map_or(self.host == "localhost", |address| address.is_loopback());
        here || self.allow_plain
    }
}

/// Options that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmailError {
    /// Mail would go over the network in the clear.
    #[error(
        "mail would go to {0} in the clear: set security to starttls or tls, or allow_plain if that network is yours"
    )]
    Plain(String),
    /// The sender is not an address of mail.
    #[error("from must be an address such as name@example.com or Name <name@example.com>: {0}")]
    From(String),
    /// The url to unsubscribe by cannot be used.
    #[error("unsubscribe {0}")]
    Unsubscribe(String),
    /// The authorities cannot be read.
    #[error("ca_file {path:?} cannot be used: {reason}")]
    CaFile {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}
