//! What people decide while everything runs: what is paused and limited, and what is not kept any longer.
//!
//! Everything that people do is drawn from a source of its own, so that faults fall as they would without them.

use postrider_core::{Control, DestinationName, Kept, Limits, Purge, Scope};

use crate::faults::Fault;
use crate::operators::Deed;
use crate::world::{Next, World};

const DESTINATIONS: [&str; 3] = ["first", "second", "third"];

impl World {
    /// Spreads what people do over the storm, in most runs.
    pub(crate) fn plan_lifecycle(&mut self) {
        if !self.people.chance(0.6) {
            return;
        }
        let deeds = [
            (Deed::Replay, 0.15),
            (Deed::PauseKey, 0.2),
            (Deed::Move, 0.3),
            (Deed::BulkRedrive, 0.15),
            (Deed::Restore, 0.04),
            (Deed::RedriveSome, 0.4),
            (Deed::DiscardSome, 0.05),
            (Deed::Edit, 0.3),
            (Deed::CancelScheduled, 0.1),
            (Deed::Limit, 0.15),
            (Deed::Purge, 0.1),
        ];
        let storm = self.plan.storm;
        for (deed, per_second) in deeds {
            let expected = per_second * storm.as_secs_f64();
            let count = expected as usize + usize::from(self.people.chance(expected.fract()));
            for _ in 0..count {
                let at = self.people.millis(0, storm.as_millis() as usize);
                self.schedule(at, Next::Trouble(deed.clone()));
            }
        }
    }

    /// Stops a destination, or everything, for a while.
    pub(crate) fn pause(&mut self) {
        self.faults.count(Fault::Pause);
        let one = self.rng.chance(0.7);
        let name = one.then(|| self.rng.pick(&DESTINATIONS).copied()).flatten();
        self.say(|| format!("operator pauses {name:?}"));
        self.decide(&Control::Pause(scope(name)));
        let long = self.rng.millis(100, 5_000);
        self.schedule(long, Next::Trouble(Deed::Resume));
    }

    pub(crate) fn resume(&mut self) {
        self.decide(&Control::Resume(Scope::Outbox));
        for name in DESTINATIONS {
            self.decide(&Control::Resume(scope(Some(name))));
        }
    }

    /// Holds a key for a while.
    pub(crate) fn pause_key(&mut self) {
        let Some(key) = self.some_key() else { return };
        self.faults.count(Fault::KeyPause);
        self.say(|| format!("operator pauses the key {key}"));
        self.decide(&Control::Pause(Scope::Key(key.clone())));
        self.check.key_paused(self.now, &key);
        let long = self.people.millis(100, 6_000);
        self.schedule(long, Next::Trouble(Deed::ResumeKey(key)));
    }

    pub(crate) fn resume_key(&mut self, key: &str) {
        self.check.key_resumed(key);
        self.decide(&Control::Resume(Scope::Key(key.to_owned())));
    }

    /// Changes what a destination is given at a time, for a while: less than was configured, or more.
    pub(crate) fn limit(&mut self) {
        let Some(name) = self
            .people
            .pick(&DESTINATIONS)
            .map(|name| DestinationName::new(*name))
        else {
            return;
        };
        let limits = Limits {
            max_in_flight: [None, Some(1), Some(2), Some(40)][self.people.below(4)],
            max_rate: [None, Some(3), Some(20), Some(200)][self.people.below(4)],
        };
        self.faults.count(Fault::Limited);
        self.say(|| format!("operator limits {name}: {limits:?}"));
        self.decide(&Control::Limit(name.clone(), limits));
        let long = self.people.millis(500, 8_000);
        self.schedule(long, Next::Trouble(Deed::Unlimit(name)));
    }

    pub(crate) fn unlimit(&mut self, name: DestinationName) {
        self.decide(&Control::Unlimit(name));
    }

    /// Everything that people decided is taken back.
    pub(crate) fn lift_controls(&mut self) {
        self.resume();
        for name in DESTINATIONS {
            self.unlimit(name.into());
        }
        let paused: Vec<_> = self.db.model.paused_keys().map(ToString::to_string).collect();
        for key in paused {
            self.resume_key(&key);
        }
    }

    /// Cleans up what was kept for long enough. Nothing that is still to be sent may go with it.
    pub(crate) fn purge(&mut self) {
        let what = match self.people.below(4) {
            0 => Kept::Originals,
            _ => Kept::History,
        };
        let (older_than, limit) = (self.people.millis(0, 5_000), self.people.between(1, 100) as u32);
        let model = &mut self.db.model;
        let owed = |model: &postrider_testkit::Model| (model.queued().count(), model.parked().count());
        let (before, kept): (_, Vec<_>) = (
            owed(model),
            model
                .numbered_history()
                .map(|(number, record)| (number, record.row.event.id.clone()))
                .collect(),
        );
        model.purge(self.now, &Purge::of(what, older_than, limit));
        let after = owed(model);
        let left: std::collections::BTreeSet<_> =
            model.numbered_history().map(|(number, _)| number).collect();
        self.faults.count(Fault::Purged);
        let gone = kept.into_iter().filter(|(number, _)| !left.contains(number));
        self.check.purged.extend(gone.map(|(_, id)| id));
        if before != after {
            self.check
                .violation("purge: something went that was still to be sent".to_owned());
        }
    }

    fn decide(&mut self, control: &Control) {
        self.db.model.control(self.now, control, "simulated");
        self.ring();
    }

    pub(crate) fn some_key(&mut self) -> Option<String> {
        let keys: Vec<String> = self.writers.by_key.keys().cloned().collect();
        self.people.pick(&keys).cloned()
    }
}

fn scope(name: Option<&str>) -> Scope {
    name.map_or(Scope::Outbox, |name| Scope::Destination(name.into()))
}

/// A seed of its own for what people do.
pub(crate) const PEOPLE: u64 = 0x09e0_091e;
