//! Asking the database, lazily and not too often: an idle relay that nobody asks costs nothing, and one that everybody
//! asks costs the database one look a second at most.
//!
//! A look is a task of its own. It outlives the request that caused it, so what a client that gave up made the database
//! count is there for the next one; and there is never a second look beside it, however many clients come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider_core::{Console, StoreErrorKind};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use crate::health::{Seen, Trouble, look};

/// No answer is younger than this when it is given out again.
const FRESH: Duration = Duration::from_secs(1);
/// Counting a long backlog takes a while; the database spends at most this share of its time on it.
const SHARE: u32 = 20;
/// However slow it is, a new look is due after this.
const OLDEST: Duration = Duration::from_secs(60);
/// How long a look may take. A database that needs longer counts as one that does not answer.
const LOOK_TIME: Duration = Duration::from_secs(10);
/// How long a client waits for a look: less than a scrape of Prometheus may take, or one outbox that does not answer
/// would take away the numbers of all.
pub(crate) const WAIT_TIME: Duration = Duration::from_secs(3);

/// One answer of the database.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) seen: Result<Seen, Trouble>,
    taken: Instant,
    fresh: Duration,
}

/// Asks the database of one outbox.
pub(crate) struct Sampler {
    asked: Arc<Asked>,
    /// Where the relay runs: a connection that a look opens belongs there.
    runtime: Handle,
}

struct Asked {
    console: Arc<dyn Console>,
    stalled_after: Duration,
    looking: AtomicBool,
    last: watch::Sender<Option<Sample>>,
}

/// An answer that is there, or that a look will bring.
pub(crate) struct Coming(watch::Receiver<Option<Sample>>, bool);

impl Sampler {
    pub(crate) fn new(console: Arc<dyn Console>, stalled_after: Duration, runtime: Handle) -> Self {
        let asked = Asked {
            console,
            stalled_after,
            looking: AtomicBool::new(false),
            last: watch::Sender::default(),
        };
        Self {
            asked: Arc::new(asked),
            runtime,
        }
    }

    /// Begins a look unless there is one or its answer is still fresh. Nothing waits here, so that several outboxes can
    /// be asked before the first has answered.
    pub(crate) fn ask(&self) -> Coming {
        let last = self.asked.last.subscribe();
        let fresh = last.borrow().as_ref().is_some_and(Sample::is_fresh);
        if !fresh && !self.asked.looking.swap(true, Ordering::AcqRel) {
            let looking = Looking(self.asked.clone());
            self.runtime.spawn(async move { looking.look().await });
        }
        Coming(last, fresh)
    }
}

impl Coming {
    /// The answer. If it does not come by then, the one before it; and if that is too old to be told, that there is
    /// none.
    pub(crate) async fn by(self, deadline: Instant) -> Sample {
        let Coming(mut last, fresh) = self;
        if !fresh {
            let _ = timeout_at(deadline, last.changed()).await;
        }
        let sample = last.borrow().clone();
        sample
            .filter(|sample| sample.taken.elapsed() < OLDEST + LOOK_TIME)
            .unwrap_or_else(|| Sample::of(Err(silence(WAIT_TIME)), Instant::now()))
    }
}

impl Sample {
    fn of(seen: Result<Seen, Trouble>, begun: Instant) -> Self {
        // An outage is over when it is over: only answers that were expensive are kept for long.
        let fresh = match seen {
            Ok(_) => (begun.elapsed() * SHARE).clamp(FRESH, OLDEST),
            Err(_) => FRESH,
        };
        Self {
            seen,
            taken: Instant::now(),
            fresh,
        }
    }

    fn is_fresh(&self) -> bool {
        self.taken.elapsed() < self.fresh
    }
}

/// A look under way. The next may begin when it is dropped, however it ended.
struct Looking(Arc<Asked>);

impl Looking {
    async fn look(self) {
        let begun = Instant::now();
        let looked = timeout(LOOK_TIME, look(&*self.0.console, self.0.stalled_after)).await;
        let seen = match looked {
            Ok(Ok(seen)) => Ok(seen),
            Ok(Err(error)) => Err(Trouble::from(&error)),
            Err(_) => Err(silence(LOOK_TIME)),
        };
        self.0.last.send_replace(Some(Sample::of(seen, begun)));
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.looking.store(false, Ordering::Release);
    }
}

fn silence(time: Duration) -> Trouble {
    Trouble {
        kind: StoreErrorKind::Unreachable,
        text: format!("it gave no answer within {} s", time.as_secs()).into(),
    }
}
