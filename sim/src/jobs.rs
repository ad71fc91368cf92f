//! Long work that people begin, leave, go on with and give up: bulk verbs, replays, and replays of what an archive had.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{
    DestinationName, EventId, Filter, HistoryAsk, HistoryRow, JobId, JobKind, JobState, JobVerb, NewJob,
    Replay, Restore, Verb,
};
use postrider_relay::engine::Plant;
use postrider_testkit::model::Record;

use crate::faults::Fault;
use crate::operators::Deed;
use crate::world::{Next, World};

/// What a replay is to copy, and for where.
pub(crate) type Owed = BTreeSet<(EventId, DestinationName)>;

impl World {
    /// Sends some of what was sent again: all, or of a time, a key, an id; to where it went, or elsewhere.
    pub(crate) fn replay(&mut self) {
        let mut filter = Filter::default();
        let mut replay = Replay {
            to: self.people.chance(0.2).then(|| "first".into()),
            ..Replay::default()
        };
        match self.people.below(5) {
            0 => filter.key = self.some_key().into_iter().collect(),
            1 => filter.event_id = self.some_sent().into_iter().collect(),
            2 => {
                let since = self.now.saturating_sub(self.people.millis(0, 10_000));
                replay.since = Some(time(since));
                replay.until = Some(time(since + self.people.millis(0, 5_000)));
            }
            _ => {}
        }
        self.faults.count(Fault::Replay);
        self.begin_replay(replay, filter, None);
    }

    /// Reads an archive of the history back, and sends what it has again. What is in the archive may be gone from the
    /// history.
    pub(crate) fn restore(&mut self) {
        let ask = HistoryAsk {
            after: None,
            since: None,
            until: None,
            limit: 1_000,
            max_bytes: u64::MAX,
        };
        let rows = self.db.model.history_page(&ask, None).rows;
        let Some(last) = rows.last() else { return };
        let cursor = postrider_core::Cursor::at(last.seq.0 as i64, "");
        self.faults.count(Fault::Restore);
        let id = self.begin_job(JobKind::Restore(Restore::default()), Filter::default());
        self.db.model.restore(self.now, &id, &rows, cursor.clone());
        self.db.model.mark(self.now, &id, cursor, 0, true);
        if self.people.chance(0.5) {
            self.purge();
        }
        let replay = Replay {
            restored: Some(id),
            ..Replay::default()
        };
        self.begin_replay(replay, Filter::default(), Some(&rows));
    }

    /// Redrives everything in small steps, or throws a few away, with all the time in the world between them.
    pub(crate) fn bulk_redrive(&mut self) {
        let discards = self.people.chance(0.1);
        let verb = if discards {
            Verb::Discard("simulated".to_owned())
        } else {
            Verb::Redrive
        };
        let fault = if discards {
            Fault::BulkDiscard
        } else {
            Fault::BulkRedrive
        };
        self.faults.count(fault);
        let filter = Filter {
            key: self.some_key().filter(|_| discards).into_iter().collect(),
            ..Filter::default()
        };
        let id = self.begin_job(JobKind::Act(verb), filter);
        self.step_later(id);
    }

    fn begin_replay(&mut self, replay: Replay, filter: Filter, archive: Option<&[HistoryRow]>) {
        let owed = match archive {
            Some(rows) => owed_of_archive(rows),
            None => self.owed(&replay, &filter),
        };
        let id = self.begin_job(JobKind::Replay(replay), filter);
        self.replays.insert(id.clone(), owed);
        self.step_later(id);
    }

    fn begin_job(&mut self, kind: JobKind, filter: Filter) -> JobId {
        let id = JobId::from(format!("job-{}", self.id()).as_str());
        let job = NewJob {
            id: id.clone(),
            kind,
            filter,
            actor: "simulated".to_owned(),
        };
        self.say(|| format!("operator begins {id}: {job:?}"));
        self.db.model.begin_job(self.now, job);
        id
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
        let before = self.parked_now();
        let Some(step) = self.db.model.step(self.now, &id, limit) else {
            return;
        };
        match &step.job.kind {
            JobKind::Act(verb) => {
                self.note_changes(&before, *verb == Verb::Redrive);
            }
            _ => self.copies_made(&id),
        }
        if step.job.state == JobState::Done {
            self.replay_ended(&id);
        }
        if step.job.state != JobState::Running {
            return;
        }
        match self.people.below(40) {
            0 if !self.calm => self.cancel(&id),
            1 | 2 if !self.calm => self.pause_job(id),
            _ => self.step_later(id),
        }
    }

    fn copies_made(&mut self, id: &JobId) {
        let copies = self.db.model.parked();
        let mine: Vec<_> = copies
            .filter(|parked| parked.row.replay.as_ref() == Some(&id.0))
            .cloned()
            .collect();
        self.ring();
        for parked in &mine {
            self.check.copies.made(parked);
            if self.plant == Some(Plant::ReplayLiveKey) {
                let place = (parked.row.seq, parked.destination.clone());
                self.db.model.put_in_line(&place, parked.row.event.order_key());
            }
        }
    }

    /// A replay that ends has copied everything that it was about.
    fn replay_ended(&mut self, id: &JobId) {
        let Some(owed) = self.replays.remove(id) else {
            return;
        };
        for (event, destination) in owed {
            let copy = (id.clone(), event, destination);
            if !self.check.copies.was_made(&copy) {
                self.check
                    .violation(format!("R4: the replay ended without the copy {copy:?}"));
            }
        }
    }

    fn cancel(&mut self, id: &JobId) {
        self.say(|| format!("operator cancels {id}"));
        self.faults.count(Fault::JobCancelled);
        for parked in self.db.model.parked() {
            if parked.row.replay.as_ref() == Some(&id.0) {
                self.check.copies.given_up(parked);
            }
        }
        self.replays.remove(id);
        self.db.model.steer(self.now, id, JobVerb::Cancel, "simulated");
    }

    fn pause_job(&mut self, id: JobId) {
        self.say(|| format!("operator pauses {id}"));
        self.faults.count(Fault::JobPaused);
        self.db.model.steer(self.now, &id, JobVerb::Pause, "simulated");
        let long = self.people.millis(100, 4_000);
        self.schedule(long, Next::Trouble(Deed::ResumeJob(id)));
    }

    pub(crate) fn resume_job(&mut self, id: JobId) {
        let job = self.db.model.jobs(Some(&id), 1).pop();
        if job.is_some_and(|job| job.state == JobState::Paused) {
            self.db.model.steer(self.now, &id, JobVerb::Resume, "simulated");
            self.step_later(id);
        }
    }

    pub(crate) fn resume_jobs(&mut self) {
        for job in self.db.model.jobs(None, usize::MAX) {
            self.resume_job(job.id);
        }
    }

    /// What the history has for a replay that begins now, counted without the model's own rule.
    fn owed(&self, replay: &Replay, filter: &Filter) -> Owed {
        let until = replay.until.unwrap_or(time(self.now));
        let is_meant = |record: &&Record| {
            let event = &record.row.event;
            let at = time(record.at);
            record.is_sent()
                && record.row.replay.is_none()
                && replay.since.is_none_or(|since| at >= since)
                && at < until
                && (filter.event_id.is_empty() || filter.event_id.contains(&event.id))
                && (filter.key.is_empty() || filter.key.iter().any(|key| *key == event.key_text()))
        };
        let meant = self.db.model.history().filter(is_meant);
        meant
            .filter_map(|record| {
                let to = replay.to.clone().or(record.destination.clone())?;
                Some((record.row.event.id.clone(), to))
            })
            .collect()
    }

    fn some_sent(&mut self) -> Option<EventId> {
        let sent: Vec<_> = self
            .db
            .model
            .history()
            .map(|record| record.row.event.id.clone())
            .collect();
        self.people.pick(&sent).cloned()
    }
}

fn owed_of_archive(rows: &[HistoryRow]) -> Owed {
    let sent = rows
        .iter()
        .filter(|row| row.reason.is_none() && row.replay.is_none());
    sent.filter_map(|row| Some((row.event_id.clone(), row.destination.clone()?)))
        .collect()
}

fn time(at: Duration) -> postrider_core::Timestamp {
    postrider_core::Timestamp(at.as_micros() as i64)
}
