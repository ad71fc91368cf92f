//! Pauses and limits: kept in the database, obeyed by every relay.

use serde_json::json;

use crate::{DestinationName, Limits, Timestamp, is_harmful};

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

impl Scope {
    /// The words of the command line that mean it, behind `postrider pause` or `resume`; a blank before them. What a
    /// shell would take apart is quoted, so that a person can copy it.
    pub fn as_args(&self) -> String {
        match self {
            Scope::Outbox => String::new(),
            Scope::Destination(name) => format!(" --destination {}", quoted(name.as_str())),
            Scope::Key(key) => format!(" --key {}", quoted(key)),
        }
    }
}

fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:@%+=,".contains(letter);
    if text.chars().any(is_harmful) {
        return format!("$'{}'", text.chars().map(escaped).collect::<String>());
    }
    match !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// As Bash and its kin read it between `$'` and `'`, and inert on any terminal.
fn escaped(letter: char) -> String {
    match letter {
        '\'' | '\\' => format!("\\{letter}"),
        _ if is_harmful(letter) => format!("\\U{:08x}", u32::from(letter)),
        _ => letter.to_string(),
    }
}

/// What a person decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Stop it.
    Pause(Scope),
    /// Let it go on.
    Resume(Scope),
    /// Other limits than the configured ones. One that is not given stays as it is, so that two people who change one
    /// each lose neither.
    Limit(DestinationName, Limits),
    /// The configured limits again, all of them.
    Unlimit(DestinationName),
}

impl Control {
    /// The word of the audit.
    pub fn as_str(&self) -> &'static str {
        match self {
            Control::Pause(_) => "pause",
            Control::Resume(_) => "resume",
            Control::Limit(..) | Control::Unlimit(_) => "limit",
        }
    }

    /// What it is about.
    pub fn scope(&self) -> Scope {
        match self {
            Control::Pause(scope) | Control::Resume(scope) => scope.clone(),
            Control::Limit(name, _) | Control::Unlimit(name) => Scope::Destination(name.clone()),
        }
    }

    /// What it is about and how, as JSON: what the audit keeps. A limit that stays is not named, one that is taken back
    /// is null.
    pub fn detail(&self) -> String {
        let mut detail = match self.scope() {
            Scope::Outbox => json!({ "outbox": true }),
            Scope::Destination(name) => json!({ "destination": name.as_str() }),
            Scope::Key(key) => json!({ "key": key }),
        };
        let (limits, all) = match self {
            Control::Limit(_, limits) => (*limits, false),
            Control::Unlimit(_) => (Limits::default(), true),
            Control::Pause(_) | Control::Resume(_) => return detail.to_string(),
        };
        for (name, value) in [
            ("max_in_flight", limits.max_in_flight),
            ("max_rate", limits.max_rate),
        ] {
            if all || value.is_some() {
                detail[name] = value.into();
            }
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
    /// Who decided it; of what is paused and limited, who paused it.
    pub actor: String,
    /// When.
    pub since: Timestamp,
    /// Who limited it, and when: that stays when somebody else pauses and resumes it.
    pub limited: Option<(String, Timestamp)>,
}

impl InForce {
    /// Takes in what a person decides next. Who and when are those of the pause where there is one, which is what
    /// people ask for, and change only with what they are about: to say the same again decides nothing.
    pub fn decide(&mut self, control: &Control, actor: &str, now: Timestamp) {
        let before = (self.paused, self.limits);
        match control {
            Control::Pause(_) => self.paused = true,
            Control::Resume(_) => self.paused = false,
            Control::Limit(_, limits) => {
                self.limits.max_in_flight = limits.max_in_flight.or(self.limits.max_in_flight);
                self.limits.max_rate = limits.max_rate.or(self.limits.max_rate);
            }
            Control::Unlimit(_) => self.limits = Limits::default(),
        }
        let decided = (actor.to_owned(), now);
        if self.limits != before.1 {
            self.limited = Some(decided.clone());
        }
        self.limited = self.limited.take().filter(|_| self.limits != Limits::default());
        if self.paused && !before.0 {
            (self.actor, self.since) = decided;
        } else if let Some(limited) = self.limited.clone().filter(|_| !self.paused) {
            (self.actor, self.since) = limited;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_can_be_copied_into_a_shell() {
        assert_eq!(Scope::Outbox.as_args(), "");
        let destination = Scope::Destination("rabbit/orders".into());
        assert_eq!(destination.as_args(), " --destination rabbit/orders");
        assert_eq!(Scope::Key("ORDER/1".to_owned()).as_args(), " --key ORDER/1");
        let odd = Scope::Key("it's $(rm)".to_owned());
        assert_eq!(odd.as_args(), r" --key 'it'\''s $(rm)'");
        let turned = Scope::Key("it's\u{202e}\\b".to_owned());
        assert_eq!(turned.as_args(), r" --key $'it\'s\U0000202e\\b'");
    }
}
