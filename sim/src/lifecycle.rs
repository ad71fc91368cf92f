//! What people do with events that need time or a person: replays, bulk verbs in steps, other times, paused keys.
//!
//! Everything here is drawn from a source of its own, so that a run without it is the run that its seed always was.

use std::collections::BTreeMap;

use postrider_core::{Control, Filter, JobId, JobKind, JobState, JobVerb, NewJob, Replay, Scope, Verb};

use crate::faults::Fault;
use crate::operators::Deed;
use crate::world::{Next, World};

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

    /// Sends some of what was sent again.
    pub(crate) fn replay(&mut self) {
        let key = self.some_key().filter(|_| self.people.chance(0.5));
        let to = self.people.chance(0.2).then(|| "first".into());
        self.faults.count(Fault::Replay);
        let replay = Replay {
            to,
            ..Replay::default()
        };
        self.begin_job(JobKind::Replay(replay), key);
    }

    /// Redrives everything in small steps, with all the time in the world between them.
    pub(crate) fn bulk_redrive(&mut self) {
        self.faults.count(Fault::BulkRedrive);
        self.begin_job(JobKind::Act(Verb::Redrive), None);
    }

    fn begin_job(&mut self, kind: JobKind, key: Option<String>) {
        let id = JobId::from(format!("job-{}", self.id()).as_str());
        let job = NewJob {
            kind,
            filter: Filter {
                key: key.into_iter().collect(),
                ..Filter::default()
            },
            actor: "simulated".to_owned(),
        };
        self.say(|| format!("operator begins {id}: {job:?}"));
        self.db.model.begin_job(self.now, id.clone(), job);
        self.step_later(id);
    }

    fn step_later(&mut self, id: JobId) {
        let pause = self.people.millis(5, 500);
        self.schedule(pause, Next::Trouble(Deed::Step(id)));
    }

    /// One step of a job, by whoever goes on with it.
    pub(crate) fn step(&mut self, id: JobId) {
        if self.db.down {
            return self.step_later(id);
        }
        let limit = self.people.between(1, 20) as u32;
        let versions: BTreeMap<_, _> = self
            .db
            .model
            .parked()
            .map(|one| ((one.row.seq, one.destination.clone()), one.version))
            .collect();
        let Some(step) = self.db.model.step(self.now, &id, limit) else {
            return;
        };
        let is_redrive = matches!(step.job.kind, JobKind::Act(_));
        for parked in self.db.model.parked() {
            let before = versions.get(&(parked.row.seq, parked.destination.clone()));
            if parked.row.replay.as_ref() == Some(&id.0) {
                self.check.copies.made(parked);
            } else if is_redrive && before != Some(&parked.version) {
                self.check
                    .redriven(&parked.row.event.id, parked.destination.as_ref());
            }
        }
        if step.job.state != JobState::Running {
            return;
        }
        if !self.calm && self.people.chance(0.03) {
            return self.cancel(&id);
        }
        self.step_later(id);
    }

    fn cancel(&mut self, id: &JobId) {
        self.say(|| format!("operator cancels {id}"));
        for parked in self.db.model.parked() {
            if parked.row.replay.as_ref() == Some(&id.0) {
                self.check.copies.given_up(parked);
            }
        }
        self.db.model.steer(self.now, id, JobVerb::Cancel, "simulated");
    }

    /// Gives scheduled events another time.
    pub(crate) fn move_scheduled(&mut self) {
        let by = self.people.millis(0, 4_000);
        let mut people = self.people.clone();
        let moved = self.db.model.move_to(self.now, by, |_| people.chance(0.7));
        self.people = people;
        if !moved.is_empty() {
            self.faults.count(Fault::Moved);
            self.say(|| format!("operator moves {moved:?} by {by:?}"));
        }
    }

    /// Holds a key for a while.
    pub(crate) fn pause_key(&mut self) {
        let Some(key) = self.some_key() else { return };
        self.faults.count(Fault::KeyPause);
        self.say(|| format!("operator pauses the key {key}"));
        let pause = Control::Pause(Scope::Key(key.clone()));
        self.db.model.control(self.now, &pause, "simulated");
        self.check.key_paused(self.now, &key);
        let long = self.people.millis(100, 6_000);
        self.schedule(long, Next::Trouble(Deed::ResumeKey(key)));
    }

    pub(crate) fn resume_key(&mut self, key: &str) {
        self.check.key_resumed(key);
        let resume = Control::Resume(Scope::Key(key.to_owned()));
        self.db.model.control(self.now, &resume, "simulated");
    }

    pub(crate) fn resume_keys(&mut self) {
        let paused: Vec<_> = self.db.model.paused_keys().map(ToString::to_string).collect();
        for key in paused {
            self.resume_key(&key);
        }
    }

    fn some_key(&mut self) -> Option<String> {
        let keys: Vec<String> = self.writers.by_key.keys().cloned().collect();
        self.people.pick(&keys).cloned()
    }
}

/// A seed of its own for what people do.
pub(crate) const PEOPLE: u64 = 0x09e0_091e;
