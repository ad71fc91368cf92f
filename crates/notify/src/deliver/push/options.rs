//! What can be set about push.

use std::time::Duration;

use postrider_core::Secret;

/// How long a url may take to answer. With the time of a batch it stays below the 30 s that a relay gives a call.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a delivery waits for its turn before it goes with a later batch.
const BATCH_TIME: Duration = Duration::from_secs(10);
/// Calls at a time. Each is a socket, of which a process often has no more than 1,024.
const CONNECTIONS: usize = 128;
/// Calls at a time to one server: enough to hide its distance, too few to be a burden.
const CONNECTIONS_PER_SERVER: usize = 8;

/// How a [`super::PushSink`] tells urls.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PushOptions {
    /// What calls are signed with: `whsec_` and at least 24 bytes as base64, or any text of at least 24 bytes.
    pub secret: Secret,
    /// Lets urls lead to this machine and to private networks, and be `http`. For own services only: a stranger's url
    /// would reach what is behind the firewall.
    pub allow_private: bool,
    /// How long a url may take to connect and to answer.
    pub timeout: Duration,
    /// How long a delivery waits for its turn. Together with the time-out it must stay below the relay's
    /// `publish_timeout`, or what was sent counts as lost and is sent again.
    pub batch_time: Duration,
    /// Calls at a time.
    pub connections: usize,
    /// Calls at a time to one server.
    pub connections_per_server: usize,
}

postrider_core::setters! {
    PushOptions {
        allow_private: bool,
        timeout: Duration,
        batch_time: Duration,
        /// At least one.
        connections: usize => connections.max(1),
        /// At least one.
        connections_per_server: usize => connections_per_server.max(1),
    }
}

impl PushOptions {
    /// Signed with this secret.
    pub fn new(secret: Secret) -> Self {
        Self {
            secret,
            allow_private: false,
            timeout: TIMEOUT,
            batch_time: BATCH_TIME,
            connections: CONNECTIONS,
            connections_per_server: CONNECTIONS_PER_SERVER,
        }
    }
}

/// Options that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The secret is not one.
    #[error("the secret of push {0}; make one with: echo whsec_$(head -c 32 /dev/urandom | base64)")]
    Secret(&'static str),
}
