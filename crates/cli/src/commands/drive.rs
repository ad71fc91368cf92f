//! A job, step by step, for as long as somebody waits for it. Where it stands is in the database: whoever dies here
//! leaves a job that goes on exactly where it was.

use std::time::{Duration, Instant};

use postrider_core::{
    EventId, Filter, Job, JobKind, JobState, JobVerb, List, Replay, Status, Step, StoreError, StoreErrorKind,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::ask::actor;
use super::hindrance::{self, Hindrance};
use super::job;
use super::progress::{Pace, Progress};
use crate::failure::{Done, Failure};
use crate::output::{Output, deliveries};
use crate::wire::Opened;

/// Refusals that are kept to be told.
const EXAMPLES: usize = 1_000;
/// How long a job that may not go on now waits before it looks again.
const BREATH: Duration = Duration::from_millis(50);
/// How often in a row a step may be told to come back later.
const BUSY: u32 = 5;
/// For how long the last copies of a replay may stay unsent before they are left to the relay.
const UNSENT: Duration = Duration::from_secs(2);

/// How a job is driven.
pub struct Drive<'a> {
    pub outbox: &'a Opened,
    pub out: Output,
    /// How many rows it is about, if they were counted.
    pub of: Option<u64>,
    pub stop: &'a CancellationToken,
}

impl Drive<'_> {
    /// Goes on with a job until it is done, or somebody stops it; then it is paused.
    pub async fn on(&self, job: Job) -> Result<Driven, Failure> {
        let mut driven = Driven::of(&self.outbox.name, job);
        let mut progress = Progress::new(self.out, self.of);
        let mut pace = Pace::new(rate(&driven.job));
        let mut moved = Instant::now();
        let mut told = false;
        let mut busy = 0;
        while driven.job.state == JobState::Running && !self.stop.is_cancelled() {
            let Some(limit) = pace.allows() else {
                self.breathe().await;
                continue;
            };
            let (cursor, waiting) = (driven.job.cursor.clone(), driven.job.waiting);
            let began = Instant::now();
            let step = self.outbox.console.step(driven.job.id.clone(), limit).await;
            // It met a settle of the same rows in a circle, or a lock, and has changed nothing.
            if step
                .as_ref()
                .is_err_and(|error| error.kind() == StoreErrorKind::Busy)
                && busy < BUSY
            {
                busy += 1;
                self.breathe().await;
                continue;
            }
            busy = 0;
            pace.made(driven.take(step.map_err(|error| self.failed(&driven.job, &error))?));
            progress.show(&driven.job);
            // Somebody may have changed it since.
            if pace.rate() != rate(&driven.job) {
                pace = Pace::new(rate(&driven.job));
            }
            if driven.job.waiting != waiting || driven.job.cursor != cursor {
                moved = Instant::now();
                told = false;
            }
            if driven.job.cursor != cursor {
                self.rest(began.elapsed()).await;
                continue;
            }
            // It made nothing: a replay has as many copies on the way as it may have, or none left to make.
            if moved.elapsed() >= UNSENT {
                let is_made = driven.job.waiting < u64::from(Replay::BESIDE);
                if is_made || self.is_left_to_people(&driven.job).await? {
                    break;
                }
                if !std::mem::replace(&mut told, true) {
                    progress.end();
                    eprintln!("{}", self.why(&driven.job).await);
                }
            }
            self.breathe().await;
        }
        progress.end();
        if driven.job.state == JobState::Running && self.stop.is_cancelled() {
            let console = &self.outbox.console;
            let paused = console
                .steer(driven.job.id.clone(), JobVerb::Pause, actor())
                .await;
            driven.job = paused.map_err(|error| self.failed(&driven.job, &error))?;
        }
        driven.dead = job::copies(self.outbox, &driven.job, Status::DeadLetter).await?;
        // The job is done, whether or not that can be told.
        driven.hindrance = hindrance::of(self.outbox, &driven.job).await.unwrap_or(None);
        Ok(driven)
    }

    /// Whether all copies that are left wait behind dead ones, which no relay sends.
    async fn is_left_to_people(&self, job: &Job) -> Result<bool, Failure> {
        let filter = Filter {
            replay: Some(job.id.clone()),
            status: vec![Status::Retrying, Status::Held, Status::Scheduled],
            ..Filter::default()
        };
        let listing = self.outbox.console.list(List::first(1, filter)).await;
        let listing = listing.map_err(|error| self.failed(job, &error))?;
        Ok(listing.events.is_empty() && listing.next.is_none())
    }

    /// Why a replay does not go on, as far as it can be told from here.
    async fn why(&self, job: &Job) -> String {
        let (name, id) = (&self.outbox.name, &job.id);
        let waits = format!("{name}: the replay {id} waits for its copies to be sent");
        // A job that goes well does not end because that cannot be told.
        let hindrance = hindrance::of(self.outbox, job).await.unwrap_or(None);
        match hindrance.as_ref().and_then(Hindrance::text) {
            Some(text) => format!("{waits}: {text}"),
            None => format!("{waits}; `postrider events --replay {id}` shows where they stand"),
        }
    }

    async fn breathe(&self) {
        self.rest(BREATH).await;
    }

    /// Leaves the database to others for as long as a step took: where one writes at a time, steps without a gap keep
    /// producers waiting until they give up.
    async fn rest(&self, rest: Duration) {
        let _ = self.stop.run_until_cancelled(tokio::time::sleep(rest)).await;
    }

    fn failed(&self, job: &Job, error: &StoreError) -> Failure {
        let advice = error.advice();
        Failure::store(&self.outbox.name, error).advice(format!(
            "{advice}; nothing of the job is lost: `postrider job resume {}` goes on",
            job.id
        ))
    }
}

/// Rows a second; none: as fast as it goes.
fn rate(job: &Job) -> Option<u32> {
    match &job.kind {
        JobKind::Replay(replay) => replay.rate,
        _ => None,
    }
}

/// What became of a job.
pub struct Driven {
    pub outbox: String,
    pub job: Job,
    /// Rows that were done while it was driven here.
    pub touched: u64,
    /// Rows that the verb did not suit, the first of them.
    pub refused: Vec<(EventId, Status)>,
    /// Copies of a replay that need a person.
    dead: u64,
    /// What keeps what it has left to a relay from going out.
    hindrance: Option<Hindrance>,
}

impl Driven {
    fn of(outbox: &str, job: Job) -> Self {
        Self {
            outbox: outbox.to_owned(),
            job,
            touched: 0,
            refused: Vec::new(),
            dead: 0,
            hindrance: None,
        }
    }

    /// Takes what a step did in; how many rows it was.
    fn take(&mut self, step: Step) -> u64 {
        let made = step.job.touched.saturating_sub(self.job.touched);
        self.touched += made;
        self.refused.extend(step.refused);
        self.refused.truncate(EXAMPLES);
        self.job = step.job;
        made
    }

    /// Whether it has made everything that it will make, whatever is still to be sent of it.
    pub fn is_made(&self) -> bool {
        match self.job.state {
            JobState::Done => true,
            JobState::Running => self.job.waiting < u64::from(Replay::BESIDE),
            JobState::Paused | JobState::Cancelled => false,
        }
    }

    /// Whether it ended and found nothing to do.
    pub fn is_done_with_nothing(&self) -> bool {
        self.job.state == JobState::Done && self.job.touched + self.job.refused == 0
    }

    /// How the command that drove it ends: what is left to a relay is fine, what is left to a person is not.
    pub fn done(&self) -> Done {
        let stopped = matches!(self.job.state, JobState::Paused | JobState::Cancelled);
        match stopped || self.dead > 0 || !self.refused.is_empty() {
            true => Done::Found,
            false => Done::Fine,
        }
    }

    /// The job as JSON.
    pub fn value(&self) -> Value {
        let mut value = job::value_with(&self.outbox, &self.job, self.dead);
        if let Some(hindrance) = &self.hindrance {
            hindrance.tell(&mut value);
        }
        value
    }

    /// One line: which job it was, and what is left of it.
    pub fn text(&self) -> String {
        let Job { id, waiting, .. } = &self.job;
        let mut done = deliveries(self.job.touched);
        if self.job.refused > 0 {
            done.push_str(&format!(", {} refused", self.job.refused));
        }
        if self.dead > 0 {
            done.push_str(&format!(", {} of them dead", self.dead));
        }
        let text = match (self.job.state, *waiting) {
            (JobState::Paused, _) => {
                format!("job {id}: paused after {done}; `postrider job resume {id}` goes on")
            }
            (JobState::Cancelled, _) => format!("job {id}: cancelled after {done}"),
            (JobState::Done, 0) => match self.hindrance.as_ref().and_then(Hindrance::text) {
                Some(sends) => format!("job {id}: done, {done}; {sends}"),
                None => format!("job {id}: done, {done}"),
            },
            // Some of them may stand behind a dead one, which no relay sends.
            (JobState::Done | JobState::Running, _) if self.dead > 0 => {
                format!(
                    "job {id}: {done}, {waiting} not sent yet; those behind a dead one of their key wait for it, and \
                     `postrider job show {id}` tells whether the job goes on"
                )
            }
            (JobState::Done | JobState::Running, _) => {
                let hindrance = self.hindrance.as_ref();
                let refused = hindrance.and_then(|one| one.refused(&self.job));
                let sends = hindrance.and_then(Hindrance::text);
                let sends = sends.unwrap_or_else(|| "a running relay sends them".to_owned());
                let parts: Vec<String> = refused.into_iter().chain([sends]).collect();
                format!(
                    "job {id}: {done}, {waiting} of them not sent yet: {}, and `postrider job show {id}` tells how \
                     many are left",
                    parts.join("; ")
                )
            }
        };
        match self.dead {
            0 => text,
            _ => format!("{text}\n{}", job::about_dead(&self.job)),
        }
    }
}
