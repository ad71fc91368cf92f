//! What can be set.

use std::path::PathBuf;
use std::time::Duration;

use postrider_core::Secret;

use crate::Topology;
use crate::connect::Dialer;
use crate::error::RabbitError;

/// Publish calls at a time. A call waits for the disk of the broker; several hide that wait, more than a few only add
/// work for the broker.
const CHANNELS: usize = 8;
/// The default limit of RabbitMQ 4. Version 3 takes 128 MiB, but slows down long before that.
const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// Shorter than the relay's own limit for a publish call, so that the reason given is the better one of the two.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(20);
/// A broker that is alive answers a login within milliseconds, also far away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A dead peer is noticed after twice this time.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Deliveries at a time that wait for a verdict.
const PREFETCH: u16 = 256;

/// How a [`crate::RabbitSink`] or [`crate::RabbitSource`] connects and works.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RabbitOptions {
    /// `amqp://user:password@host:port/vhost`, or `amqps://` with TLS. Without a virtual host, or with an empty one, it
    /// is `/`. Without a user it is `guest`, which RabbitMQ lets in from its own machine only.
    pub url: Secret,
    /// In place of the user of the url.
    pub user: Option<String>,
    /// In place of the password of the url.
    pub password: Option<Secret>,
    /// A file that holds the password, read at every connect: a new password needs no restart.
    pub password_file: Option<PathBuf>,
    /// A file that holds the url, read at every connect, in place of [`RabbitOptions::url`].
    pub url_file: Option<PathBuf>,
    /// What the connection is called in RabbitMQ's own lists.
    pub name: String,
    /// Publish calls at a time, each on a channel of its own.
    pub channels: usize,
    /// The largest message that is handed over. RabbitMQ closes the channel under everything in flight when a message
    /// is larger than its own limit, so this must not be above `max_message_size` of the server.
    pub max_message_bytes: usize,
    /// How long the broker may take to confirm a batch before it counts as unavailable.
    pub confirm_timeout: Duration,
    /// How long the broker may take to accept a connection and a login.
    pub connect_timeout: Duration,
    /// Asked of the broker in whole seconds; it may choose a shorter time.
    pub heartbeat: Duration,
    /// PEM file with the authorities that the broker's certificate may come from, in place of those of the machine.
    pub ca_file: Option<PathBuf>,
    /// What is declared at every connect; none: everything is there already, and is somebody else's to keep.
    pub declare: Option<Topology>,
    /// Deliveries that a source holds at a time without a verdict.
    pub prefetch: u16,
}

postrider_core::setters! {
    RabbitOptions {
        /// It wins over any other password.
        password_file: impl Into<PathBuf> => Some(password_file.into()),
        url_file: impl Into<PathBuf> => Some(url_file.into()),
        name: impl Into<String> => name.into(),
        /// At least one.
        channels: usize => channels.max(1),
        max_message_bytes: usize,
        confirm_timeout: Duration,
        connect_timeout: Duration,
        heartbeat: Duration,
        ca_file: impl Into<PathBuf> => Some(ca_file.into()),
        declare: Topology => Some(declare),
        /// At least one.
        prefetch: u16 => prefetch.max(1),
    }
}

impl RabbitOptions {
    /// The defaults, for a url.
    pub fn new(url: impl Into<Secret>) -> Self {
        Self {
            url: url.into(),
            user: None,
            password: None,
            password_file: None,
            url_file: None,
            name: "postrider".to_owned(),
            channels: CHANNELS,
            max_message_bytes: MAX_MESSAGE_BYTES,
            confirm_timeout: CONFIRM_TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
            heartbeat: HEARTBEAT,
            ca_file: None,
            declare: None,
            prefetch: PREFETCH,
        }
    }

    /// Whether a sink or source could be made of them: the url can be read and the files are there. Connects to
    /// nothing.
    pub fn check(&self) -> Result<(), RabbitError> {
        Dialer::new(self, "check").map(drop)
    }

    /// Sets [`RabbitOptions::user`] and [`RabbitOptions::password`].
    pub fn login(mut self, user: Option<String>, password: Option<Secret>) -> Self {
        self.user = user;
        self.password = password;
        self
    }
}
