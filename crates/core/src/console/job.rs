//! Long work that a person began: its state is in the database, so whoever goes on with it knows how far it came.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Cursor, EventRecord, Route, Status, Verb};
use crate::{DestinationName, EventId, Filter, StoreError, StoreErrorKind, Timestamp};

/// Which job. Of a replay it is the replay's id, which its copies carry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub Arc<str>);

impl JobId {
    /// A new one, ordered by time.
    pub fn new() -> Self {
        Self(uuid::Uuid::now_v7().to_string().into())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for JobId {
    fn default() -> Self {
        Self::new()
    }
}

impl From<&str> for JobId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl std::fmt::Display for JobId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a job does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// A verb, with the parked rows that match.
    Act(Verb),
    /// Sent events are sent again.
    Replay(Replay),
    /// An archive is read back, to be replayed.
    Restore(Restore),
}

impl JobKind {
    /// The word of the column `kind`.
    pub fn as_str(&self) -> &'static str {
        match self {
            JobKind::Act(verb) => verb.as_str(),
            JobKind::Replay(_) => "replay",
            JobKind::Restore(_) => "restore",
        }
    }
}

impl JobKind {
    /// What the column `spec` keeps: enough for anyone to go on with it.
    pub fn spec(&self, filter: &Filter) -> String {
        self.spec_json(filter).to_string()
    }

    fn spec_json(&self, filter: &Filter) -> Value {
        let mut spec = json!({ "filter": filter.to_json() });
        match self {
            JobKind::Act(Verb::Discard(reason)) => spec["reason"] = reason.as_str().into(),
            JobKind::Act(Verb::Move(by)) => spec["in_seconds"] = by.as_secs().into(),
            JobKind::Replay(replay) => {
                spec["since"] = replay.since.map(|at| at.0).into();
                spec["until"] = replay.until.map(|at| at.0).into();
                spec["to"] = replay.to.as_ref().map(DestinationName::as_str).into();
                spec["restored"] = replay.restored.as_ref().map(JobId::as_str).into();
                spec["rate"] = replay.rate.into();
            }
            JobKind::Restore(restore) => {
                spec["since"] = restore.since.map(|at| at.0).into();
                spec["until"] = restore.until.map(|at| at.0).into();
            }
            JobKind::Act(Verb::Redrive) => {}
        }
        spec
    }

    /// Kind and filter of the columns `kind` and `spec`.
    pub fn of_spec(kind: &str, spec: &str) -> Option<(Self, Filter)> {
        let spec: Value = serde_json::from_str(spec).ok()?;
        let text = |name: &str| spec[name].as_str();
        let time = |name: &str| spec[name].as_i64().map(Timestamp);
        let filter = Filter::of_json(&spec["filter"])?;
        let kind = match kind {
            "redrive" => JobKind::Act(Verb::Redrive),
            "discard" => JobKind::Act(Verb::Discard(text("reason")?.to_owned())),
            "move" => JobKind::Act(Verb::Move(Duration::from_secs(spec["in_seconds"].as_u64()?))),
            "replay" => JobKind::Replay(Replay {
                since: time("since"),
                until: time("until"),
                to: text("to").map(DestinationName::from),
                restored: text("restored").map(JobId::from),
                rate: spec["rate"].as_u64().and_then(|rate| u32::try_from(rate).ok()),
            }),
            "restore" => JobKind::Restore(Restore {
                since: time("since"),
                until: time("until"),
            }),
            _ => return None,
        };
        Some((kind, filter))
    }
}

/// Which sent events are sent again, and where to. The job's filter says which types, keys, ids and ages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Published at or after this moment; none: from the beginning of the history.
    pub since: Option<Timestamp>,
    /// Published before this moment; none: up to when the job began. What was restored was all published before,
    /// whatever the clock of its time said.
    pub until: Option<Timestamp>,
    /// Sent to this destination instead, each event once, as it went to the first of its destinations by name; none: to
    /// where they were sent.
    pub to: Option<DestinationName>,
    /// Taken from what this job restored instead of from the history.
    pub restored: Option<JobId>,
    /// Copies a second, at most; none: as many as whoever drives it makes. The job keeps it, so that whoever goes on
    /// with it goes on as fast and no faster.
    pub rate: Option<u32>,
}

impl Replay {
    /// Copies that are made and on their way, at most: a replay stands beside the live flow and does not fill the table
    /// that relays look through.
    pub const BESIDE: u32 = 512;
    /// Copies that wait behind a dead one of their key, at most. They wait for a person, and no other key waits for
    /// them.
    pub const STUCK: u32 = 10_000;

    /// How many further copies may be made beside those that wait, of which some are `stuck` behind a dead one.
    pub fn room(waiting: u64, stuck: u64) -> u32 {
        let on_their_way = u32::try_from(waiting.saturating_sub(stuck)).unwrap_or(u32::MAX);
        match stuck < u64::from(Self::STUCK) {
            true => Self::BESIDE.saturating_sub(on_their_way),
            false => 0,
        }
    }

    /// Before which moment events were published that are meant; none: whenever. What was published in the moment in
    /// which the job began had been published before: a clock may go in milliseconds.
    pub fn until(&self, begun_at: Timestamp) -> Option<Timestamp> {
        let begun = Some(Timestamp(begun_at.0.saturating_add(1)));
        self.until.or(begun.filter(|_| self.restored.is_none()))
    }
}

/// Which rows of an archive are read back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restore {
    /// Published at or after this moment; none: from the beginning of the archive.
    pub since: Option<Timestamp>,
    /// Published before this moment; none: up to its end.
    pub until: Option<Timestamp>,
}

/// A job that is to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// Which it will be. Whoever begins it makes the id, and so can begin it again where the answer was lost.
    pub id: JobId,
    /// What to do.
    pub kind: JobKind,
    /// With which rows.
    pub filter: Filter,
    /// Who asks, for the audit.
    pub actor: String,
}

impl NewJob {
    /// The word of the audit for its beginning. Its steps have that of its kind.
    pub const BEGUN: &'static str = "begin_job";

    /// Whether it can be begun. The history is asked neither for failures nor for texts: what a database takes for a
    /// match of those would be sent again.
    pub fn check(&self) -> Result<(), StoreError> {
        let of_history = Filter {
            status: Vec::new(),
            error_kind: None,
            error_group: None,
            text: None,
            replay: None,
            failing_for: None,
            ..self.filter.clone()
        };
        match &self.kind {
            JobKind::Replay(_) if self.filter != of_history => {
                let text = "a replay is chosen by ids, types, keys, a destination and ages alone";
                Err(StoreError::new(StoreErrorKind::Invalid, text)
                    .with_advice("list what you mean with `postrider events`, and replay it by its ids"))
            }
            _ => Ok(()),
        }
    }

    /// What is begun, as JSON: what the audit keeps of it.
    pub fn detail(&self) -> String {
        let mut detail = self.kind.spec_json(&self.filter);
        detail["kind"] = self.kind.as_str().into();
        detail.to_string()
    }
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It goes on with its next step.
    Running,
    /// A person stopped it for a while.
    Paused,
    /// A person ended it before it was done.
    Cancelled,
    /// It did all that it was asked for.
    Done,
}

impl JobState {
    /// The word of the column `state`.
    pub fn as_str(self) -> &'static str {
        match self {
            JobState::Running => "running",
            JobState::Paused => "paused",
            JobState::Cancelled => "cancelled",
            JobState::Done => "done",
        }
    }

    /// The state of a word of the column.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [
            JobState::Running,
            JobState::Paused,
            JobState::Cancelled,
            JobState::Done,
        ];
        all.into_iter().find(|state| state.as_str() == word)
    }
}

/// A job as the database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Which.
    pub id: JobId,
    /// What it does.
    pub kind: JobKind,
    /// With which rows.
    pub filter: Filter,
    /// Where it stands.
    pub state: JobState,
    /// Who began it.
    pub actor: String,
    /// Rows done so far.
    pub touched: u64,
    /// Rows that matched but were in a state that the verb does not work on.
    pub refused: u64,
    /// Copies of a replay that are made and not yet sent.
    pub waiting: u64,
    /// How far it came.
    pub cursor: Option<Cursor>,
    /// When it began.
    pub begun_at: Timestamp,
    /// When its last step was made.
    pub updated_at: Timestamp,
}

impl Job {
    /// Whether a job whose cursors grow as texts is at this one already, or behind it.
    pub fn has_reached(&self, cursor: &Cursor) -> bool {
        self.cursor.as_ref().is_some_and(|at| at.0 >= cursor.0)
    }

    /// The error of whoever names a job that is not there.
    pub fn unknown(id: &JobId) -> StoreError {
        StoreError::new(StoreErrorKind::Invalid, format!("there is no job {id}"))
            .with_advice("`postrider job list` shows those there are")
    }

    /// The error of whoever finds a job that this version cannot read.
    pub fn unreadable(id: &str) -> StoreError {
        let text = format!("the job {id} is of a kind that this version does not know");
        StoreError::new(StoreErrorKind::Other, text).with_advice("go on with it by the version that began it")
    }

    /// Whether a verb's job is about a route of an event. It means what it meant when it began: ages are those of that
    /// moment, and what has failed since, or has died since where only the dead are meant, is not what was counted.
    pub fn means(&self, record: &EventRecord, route: &Route) -> bool {
        let since = match route.status {
            Status::DeadLetter if !self.filter.wants(Status::Retrying) => route.failed.map(|(_, last)| last),
            Status::DeadLetter | Status::Retrying => route.failed.map(|(first, _)| first),
            _ => None,
        };
        since.is_none_or(|since| since <= self.begun_at) && self.filter.matches(record, route, self.begun_at)
    }

    /// The verb of its next step: a time from when it began is nearer by now.
    pub fn verb(&self, now: Timestamp) -> Option<Verb> {
        let JobKind::Act(verb) = &self.kind else {
            return None;
        };
        let passed = u64::try_from(now.0.saturating_sub(self.begun_at.0)).unwrap_or(0);
        Some(match verb {
            Verb::Move(by) => Verb::Move(by.saturating_sub(Duration::from_micros(passed))),
            Verb::Redrive | Verb::Discard(_) => verb.clone(),
        })
    }

    /// The job as it is by now: a replay that has `read` all it is about, and none of whose copies waits, is done,
    /// though nobody drove it any more when the last one was sent and so nobody wrote it down.
    pub fn by_now(mut self, read: bool) -> Job {
        let is_replay = matches!(self.kind, JobKind::Replay(_));
        if is_replay && read && self.waiting == 0 && self.state == JobState::Running {
            self.state = JobState::Done;
        }
        self
    }

    /// The job after a person's verb; none: it changes nothing. One that has ended stays as it is.
    pub fn after(&self, verb: JobVerb) -> Option<Job> {
        let mut job = self.clone();
        match (verb, &mut job.kind) {
            _ if matches!(self.state, JobState::Cancelled | JobState::Done) => {}
            (JobVerb::Pause, _) => job.state = JobState::Paused,
            (JobVerb::Resume, _) => job.state = JobState::Running,
            (JobVerb::Cancel, _) => job.state = JobState::Cancelled,
            (JobVerb::Pace(rate), JobKind::Replay(replay)) => replay.rate = Some(rate),
            (JobVerb::Pace(_), _) => {}
        }
        (job != *self).then_some(job)
    }
}

/// What one step of a job did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The job behind it.
    pub job: Job,
    /// Rows of this step that are in a state that the verb does not work on, with that state.
    pub refused: Vec<(EventId, Status)>,
}

/// What a person does with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobVerb {
    /// Stops it until it is resumed.
    Pause,
    /// Lets a paused one go on.
    Resume,
    /// Ends it. Copies of a replay that were not sent yet are taken back, and are not counted as done any more.
    Cancel,
    /// Changes how many copies a second a replay makes at most.
    Pace(u32),
}

impl JobVerb {
    /// The word of the audit.
    pub fn as_str(self) -> &'static str {
        match self {
            JobVerb::Pause => "pause_job",
            JobVerb::Resume => "resume_job",
            JobVerb::Cancel => "cancel_job",
            JobVerb::Pace(_) => "pace_job",
        }
    }

    /// How, as JSON: what the audit keeps.
    pub fn detail(self) -> String {
        match self {
            JobVerb::Pace(rate) => json!({ "rate": rate }).to_string(),
            JobVerb::Pause | JobVerb::Resume | JobVerb::Cancel => "{}".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
