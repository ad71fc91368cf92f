//! Pauses and limits, with who decided them.

use std::time::Duration;

use postrider_core::{Control, InForce, Limits, OrderKey, Scope};

use super::audit::Deed;
use super::{Model, time};

impl Model {
    /// Pauses, resumes or limits; see `Console::control`.
    pub fn control(&mut self, now: Duration, control: &Control, actor: &str) {
        let scope = control.scope();
        let mut decided = self.in_force.remove(&scope).unwrap_or_else(|| InForce {
            scope: scope.clone(),
            paused: false,
            limits: Limits::default(),
            actor: String::new(),
            since: time(now),
            limited: None,
        });
        decided.decide(control, actor, time(now));
        match &scope {
            Scope::Outbox => self.pause(None, decided.paused),
            Scope::Destination(name) => {
                self.pause(Some(name), decided.paused);
                let limits = (decided.limits != Limits::default()).then_some(decided.limits);
                self.limit(name.clone(), limits);
            }
            Scope::Key(text) => self.pause_key(text, decided.paused),
        }
        if decided.paused || decided.limits != Limits::default() {
            self.in_force.insert(scope, decided);
        }
        let deed = Deed {
            touched: 1,
            ..Deed::of(actor, control.as_str(), control.detail())
        };
        self.note(now, deed);
    }

    /// What is paused or limited by [`Model::control`].
    pub fn in_force(&self) -> impl Iterator<Item = &InForce> {
        self.in_force.values()
    }

    /// Holds every event that people see under this key, or lets them go.
    pub fn pause_key(&mut self, text: &str, paused: bool) {
        for key in OrderKey::seen_as(text) {
            match paused {
                true => self.paused_keys.insert(key),
                false => self.paused_keys.remove(&key),
            };
        }
    }

    /// The keys that are paused.
    pub fn paused_keys(&self) -> impl Iterator<Item = &OrderKey> {
        self.paused_keys.iter()
    }
}
