//! What goes on beside the listeners: fan-outs take their next steps, digests close, and what is old is removed.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::causes;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::{Board, BoardError};

/// How long a worker that has nothing to do waits before it looks again: others may have left it something.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The longest pause after an error. What was mended goes on within this time.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often what stands aside is tried again.
const RESUME_EVERY: Duration = Duration::from_secs(60);
/// How soon, where the directory of people did not answer: that passes by itself.
const RESUME_SOON: Duration = Duration::from_secs(5);
/// How often old notifications are looked for.
const PURGE_EVERY: Duration = Duration::from_secs(3_600);
/// How many are removed in one transaction.
const PURGE_AT_ONCE: u32 = 1_000;

/// Takes the steps that are left to take. Several may run, in one process or in many: they share the work.
pub struct Worker {
    board: Arc<dyn Board>,
    keep: Option<Duration>,
    bell: Arc<Notify>,
    told: Box<dyn Fn(&Told) + Send + Sync>,
}

/// What a worker did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A chunk of a fan-out was stored.
    Stepped(crate::Step),
    /// A digest became a notification.
    Digested,
    /// Old notifications were removed.
    Purged(u64),
    /// A fan-out or a digest could not go on as it is, and stands aside for a while; the sentence says why.
    PutAside(String),
    /// After a failure, a round went through again, whether or not there was anything to do.
    Well,
    /// Nothing can be done at the moment, and it is tried again; the sentence says what failed.
    Failed(String),
}

/// When something is to be done again that is not done every time.
struct Times {
    resume: Instant,
    purge: Instant,
}

impl Worker {
    /// On this board.
    pub fn new(board: Arc<dyn Board>) -> Self {
        Self {
            board,
            keep: None,
            bell: Arc::default(),
            told: Box::new(|_| ()),
        }
    }

    /// Removes notifications that are older than this, once an hour. Without it they are kept.
    pub fn keep(mut self, keep: Option<Duration>) -> Self {
        self.keep = keep;
        self
    }

    /// Calls this with everything that it did.
    pub fn tell(mut self, told: impl Fn(&Told) + Send + Sync + 'static) -> Self {
        self.told = Box::new(told);
        self
    }

    /// Wakes it up at once, from anywhere; a hint that may be lost without harm.
    pub fn bell(&self) -> Arc<Notify> {
        Arc::clone(&self.bell)
    }

    /// Works until the token is cancelled. Dropped at any moment it leaves nothing half done: each step is a
    /// transaction.
    pub async fn run(self, token: CancellationToken) {
        let _ = token.run_until_cancelled(self.work()).await;
    }

    async fn work(&self) {
        let mut pause = Duration::ZERO;
        let mut times = Times {
            resume: Instant::now(),
            purge: Instant::now(),
        };
        loop {
            let round = self.round(&mut times).await;
            if round.is_ok() && !pause.is_zero() {
                pause = Duration::ZERO;
                (self.told)(&Told::Well);
            }
            match round {
                Ok(true) => {}
                Ok(false) => self.rest().await,
                Err(error) => {
                    pause = (pause * 2).clamp(Duration::from_millis(250), LONGEST_PAUSE);
                    (self.told)(&Told::Failed(causes(&error)));
                    sleep(pause).await;
                }
            }
        }
    }

    /// One step of everything; whether there was anything to do. What fails holds up none of the others: an error is
    /// one of the whole only when nothing else could be done.
    async fn round(&self, times: &mut Times) -> Result<bool, BoardError> {
        let parts = [
            self.resume(&mut times.resume).await,
            self.step().await,
            self.digest().await,
            self.purge(&mut times.purge).await,
        ];
        let (mut busy, mut failed) = (false, None);
        for part in parts {
            match part {
                Ok(did) => busy |= did,
                // It was put aside, and the next one is another.
                Err(error @ (BoardError::Occasion(_) | BoardError::Directory(_))) => {
                    busy = true;
                    (self.told)(&Told::PutAside(causes(&error)));
                    if matches!(error, BoardError::Directory(_)) {
                        times.resume = times.resume.min(Instant::now() + RESUME_SOON);
                    }
                }
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if !busy => Err(error),
            _ => Ok(busy),
        }
    }

    /// What stood aside did so with the workflows of its time, and a process with others may have come since.
    async fn resume(&self, at: &mut Instant) -> Result<bool, BoardError> {
        if Instant::now() >= *at {
            // Before they are tried again: in between, none would stand aside.
            self.board.tally().stand(self.board.standing().await?);
            self.board.resume().await?;
            *at = Instant::now() + RESUME_EVERY;
        }
        Ok(false)
    }

    async fn step(&self) -> Result<bool, BoardError> {
        let step = self.board.step().await?;
        if let Some(step) = &step {
            (self.told)(&Told::Stepped(step.clone()));
        }
        Ok(step.is_some())
    }

    async fn digest(&self) -> Result<bool, BoardError> {
        let digested = self.board.digest().await?;
        if digested {
            (self.told)(&Told::Digested);
        }
        Ok(digested)
    }

    /// Removes some of what is old, if it is time; whether there may be more.
    async fn purge(&self, at: &mut Instant) -> Result<bool, BoardError> {
        let Some(keep) = self.keep.filter(|_| Instant::now() >= *at) else {
            return Ok(false);
        };
        let purged = self.board.purge(keep, PURGE_AT_ONCE).await?;
        if purged.notifications > 0 {
            (self.told)(&Told::Purged(purged.notifications));
        }
        if purged.any() {
            return Ok(true);
        }
        *at = Instant::now() + PURGE_EVERY;
        Ok(false)
    }

    /// Until somebody rings, a digest is due, or it is time to look again.
    async fn rest(&self) {
        let due = self.board.next_digest().await.ok().flatten();
        let wait = due.unwrap_or(LOOK_EVERY).min(LOOK_EVERY);
        tokio::select! {
            () = self.bell.notified() => {}
            () = sleep(wait) => {}
        }
    }
}
