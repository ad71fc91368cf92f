//! Long work that a person began.

use std::time::Duration;

use postrider_core::{Cursor, Job, JobId, JobKind, JobState, JobVerb, NewJob, Replay, Seq, Step, Verb};

use super::act::Stride;
use super::audit::Deed;
use super::{Model, Place, cursor, place_of, time};

/// A row of `outbox_job`.
#[derive(Clone, Debug)]
pub(super) struct Filed {
    pub(super) job: Job,
    /// Rows behind this place came later and are not meant.
    pub(super) bound: Seq,
}

impl Filed {
    /// Behind which place it goes on. A cursor that is not ours can only be another kind of job's.
    pub(super) fn from(&self) -> Option<Place> {
        self.job.cursor.as_ref().and_then(|cursor| place_of(cursor).ok())
    }

    /// Whether a replay has still to make copies.
    pub(super) fn has_to_read(&self) -> bool {
        self.from().is_none_or(|(seq, _)| seq <= self.bound)
    }
}

impl Model {
    /// Begins a job, once; see `Console::begin`.
    pub fn begin_job(&mut self, now: Duration, job: NewJob) -> Job {
        if let Some(begun) = self.jobs.iter().find(|filed| filed.job.id == job.id) {
            return begun.job.clone();
        }
        let begun = Deed {
            job: Some(job.id.clone()),
            ..Deed::of(&job.actor, NewJob::BEGUN, job.detail())
        };
        self.note(now, begun);
        let bound = match &job.kind {
            JobKind::Replay(Replay {
                restored: Some(restored),
                ..
            }) => self.restored_by(restored).map(|record| record.row.seq).max(),
            _ => Some(self.last_seq),
        };
        let filed = Filed {
            job: Job {
                id: job.id,
                kind: job.kind,
                filter: job.filter,
                state: JobState::Running,
                actor: job.actor,
                touched: 0,
                refused: 0,
                waiting: 0,
                cursor: None,
                begun_at: time(now),
                updated_at: time(now),
            },
            bound: bound.unwrap_or(Seq(0)),
        };
        let job = filed.job.clone();
        self.jobs.push(filed);
        job
    }

    /// Jobs, newest first; or the one that is named.
    pub fn jobs(&self, only: Option<&JobId>, limit: usize) -> Vec<Job> {
        let named = |filed: &&Filed| only.is_none_or(|id| filed.job.id == *id);
        let newest = self.jobs.iter().rev().filter(named).take(limit);
        newest.map(|filed| self.by_now(filed)).collect()
    }

    /// One step of a verb's or a replay's job; none: there is no such job.
    pub fn step(&mut self, now: Duration, id: &JobId, limit: u32) -> Option<Step> {
        let filed = self.filed(id)?.clone();
        let mut refused = Vec::new();
        if filed.job.state == JobState::Running {
            match (&filed.job.kind, filed.job.verb(time(now))) {
                (JobKind::Act(_), Some(verb)) => refused = self.step_verb(now, &filed, &verb, limit),
                (JobKind::Replay(replay), _) => self.step_replay(now, &filed, replay, limit),
                (JobKind::Act(_) | JobKind::Restore(_), _) => {}
            }
        }
        let job = self.answer(self.filed(id)?);
        Some(Step { job, refused })
    }

    /// Pauses, resumes, cancels or paces a job; none: there is no such job.
    pub fn steer(&mut self, now: Duration, id: &JobId, verb: JobVerb, actor: &str) -> Option<Job> {
        let found = self.by_now(self.filed(id)?);
        let Some(mut job) = found.after(verb) else {
            return Some(found);
        };
        let mut deed = Deed {
            job: Some(id.clone()),
            ..Deed::of(actor, verb.as_str(), verb.detail())
        };
        if job.state == JobState::Cancelled {
            deed.touched = self.take_copies_back(id);
            job.touched = job.touched.saturating_sub(deed.touched);
        }
        self.note(now, deed);
        job.updated_at = time(now);
        let filed = self.jobs.iter_mut().find(|filed| filed.job.id == *id)?;
        filed.job = job;
        Some(self.answer(self.filed(id)?))
    }

    /// How far a job has come; none: there is no such job. One that is not running stays as it is.
    pub fn mark(&mut self, now: Duration, id: &JobId, at: Cursor, rows: u64, done: bool) -> Option<Job> {
        let job = self.filed(id)?.job.clone();
        if job.state == JobState::Running {
            self.advance(now, &job, Some(at), (rows, 0), done);
        }
        Some(self.answer(self.filed(id)?))
    }

    fn step_verb(
        &mut self,
        now: Duration,
        filed: &Filed,
        verb: &Verb,
        limit: u32,
    ) -> Vec<(postrider_core::EventId, postrider_core::Status)> {
        let chosen = self.choose(
            now,
            Stride {
                verb,
                filter: &filed.job.filter,
                job: Some(&filed.job),
                from: filed.from(),
                bound: filed.bound,
                limit,
            },
        );
        self.apply(now, verb, &chosen.places);
        let (touched, refused) = (chosen.places.len() as u64, chosen.refused.len() as u64);
        let at = chosen.last.as_ref().map(cursor);
        self.advance(now, &filed.job, at, (touched, refused), !chosen.more);
        chosen.refused
    }

    /// Writes down what a step did, in the job and in the audit.
    pub(super) fn advance(
        &mut self,
        now: Duration,
        job: &Job,
        at: Option<Cursor>,
        (touched, refused): (u64, u64),
        done: bool,
    ) {
        if touched + refused > 0 {
            let deed = Deed {
                touched,
                job: Some(job.id.clone()),
                ..Deed::of(&job.actor, job.kind.as_str(), job.kind.spec(&job.filter))
            };
            self.note(now, deed);
        }
        let Some(filed) = self.jobs.iter_mut().find(|filed| filed.job.id == job.id) else {
            return;
        };
        if at.is_some() {
            filed.job.cursor = at;
        }
        filed.job.touched += touched;
        filed.job.refused += refused;
        filed.job.updated_at = time(now);
        if done {
            filed.job.state = JobState::Done;
        }
    }

    fn filed(&self, id: &JobId) -> Option<&Filed> {
        self.jobs.iter().find(|filed| filed.job.id == *id)
    }

    fn by_now(&self, filed: &Filed) -> Job {
        self.answer(filed).by_now(!filed.has_to_read())
    }

    fn answer(&self, filed: &Filed) -> Job {
        Job {
            waiting: self.waiting_copies(&filed.job.id),
            ..filed.job.clone()
        }
    }
}
