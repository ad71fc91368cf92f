//! Pauses and limits: kept in the database, obeyed by every relay.

use serde_json::json;

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

impl Control {
    /// The word of the audit.
    pub fn as_str(&self) -> &'static str {
        match self {
            Control::Pause(_) => "pause",
            Control::Resume(_) => "resume",
            Control::Limit(..) => "limit",
        }
    }

    /// What it is about.
    pub fn scope(&self) -> Scope {
        match self {
            Control::Pause(scope) | Control::Resume(scope) => scope.clone(),
            Control::Limit(name, _) => Scope::Destination(name.clone()),
        }
    }

    /// What it is about and how, as JSON: what the audit keeps.
    pub fn detail(&self) -> String {
        let mut detail = match self.scope() {
            Scope::Outbox => json!({ "outbox": true }),
            Scope::Destination(name) => json!({ "destination": name.as_str() }),
            Scope::Key(key) => json!({ "key": key }),
        };
        if let Control::Limit(_, limits) = self {
            detail["max_in_flight"] = limits.max_in_flight.into();
            detail["max_rate"] = limits.max_rate.into();
        }
        detail.to_string()
    }
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
