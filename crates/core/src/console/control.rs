//! Pauses and limits: kept in the database, obeyed by every relay.

use crate::{DestinationName, Limits, Timestamp};

/// What is paused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The whole outbox: nothing is published.
    Outbox,
    /// One destination: what is meant for it is held.
    Destination(DestinationName),
    /// One key, as the producer gave it or `type/id` of the aggregate: its events wait.
    Key(String),
}

/// What a person decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Stop it.
    Pause(Scope),
    /// Let it go on.
    Resume(Scope),
    /// Other limits than the configured ones; the default value takes them back.
    Limit(DestinationName, Limits),
}

/// A decision that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce {
    /// What it is about.
    pub scope: Scope,
    /// Whether it is paused.
    pub paused: bool,
    /// Its limits, where they differ from the configured ones.
    pub limits: Limits,
    /// Who decided it.
    pub actor: String,
    /// When.
    pub since: Timestamp,
}
