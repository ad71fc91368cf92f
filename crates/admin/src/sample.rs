//! Asking the database, lazily and not too often: an idle relay that nobody asks costs nothing, and one that everybody
//! asks costs the database one look a second at most.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use postrider_core::{Console, StoreErrorKind};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::health::{Seen, Trouble, look};

/// No answer is younger than this when it is given out again.
const FRESH: Duration = Duration::from_secs(1);
/// Counting a long backlog takes a while; the database spends at most this share of its time on it.
const SHARE: u32 = 20;
/// However slow it is, numbers are never older than this.
const OLDEST: Duration = Duration::from_secs(60);
/// How long a look may take. A database that needs longer counts as one that does not answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// One answer of the database.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) seen: Result<Seen, Trouble>,
    /// When it was taken, for turning ages into times.
    pub(crate) at: SystemTime,
    until: Instant,
}

/// Asks the database of one outbox.
pub(crate) struct Sampler {
    console: Arc<dyn Console>,
    stalled_after: Duration,
    last: Mutex<Option<Sample>>,
}

impl Sampler {
    pub(crate) fn new(console: Arc<dyn Console>, stalled_after: Duration) -> Self {
        Self {
            console,
            stalled_after,
            last: Mutex::default(),
        }
    }

    /// The last answer, or a new one. Whoever asks meanwhile waits for the same.
    ///
    /// The look is taken on the runtime of the relays: a connection that it opens belongs there.
    pub(crate) async fn sample(&self, runtime: &Handle) -> Sample {
        let mut last = self.last.lock().await;
        let begun = Instant::now();
        if let Some(sample) = last.as_ref().filter(|sample| begun < sample.until) {
            return sample.clone();
        }
        let (console, stalled_after) = (self.console.clone(), self.stalled_after);
        let mut look = runtime.spawn(async move { look(&*console, stalled_after).await });
        let seen = match tokio::time::timeout(PATIENCE, &mut look).await {
            Ok(Ok(Ok(seen))) => Ok(seen),
            Ok(Ok(Err(error))) => Err(Trouble::from(&error)),
            Ok(Err(_)) => Err(trouble(
                StoreErrorKind::Other,
                "the look at it ended by a mistake of its own",
            )),
            Err(_) => {
                look.abort();
                Err(trouble(
                    StoreErrorKind::Unreachable,
                    "it gave no answer within 10 s",
                ))
            }
        };
        let fresh = (begun.elapsed() * SHARE).clamp(FRESH, OLDEST);
        let sample = Sample {
            seen,
            at: SystemTime::now(),
            until: Instant::now() + fresh,
        };
        *last = Some(sample.clone());
        sample
    }
}

fn trouble(kind: StoreErrorKind, text: &str) -> Trouble {
    Trouble {
        kind,
        text: text.into(),
    }
}
