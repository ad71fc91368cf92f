//! What `postrider run` hears from its relays: whether they got to work, and whether standard output still has a reader.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider_core::ErrorKind;
use postrider_relay::Observer;
use postrider_relay::engine::Note;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Kind};

/// How long a relay may be without the lease before that is worth a line: a free one is won at once.
const PATIENCE: Duration = Duration::from_secs(2);

/// The ear of one relay.
#[derive(Debug)]
pub struct Watch {
    /// The destinations that are standard output.
    stdout: BTreeSet<String>,
    /// Stops every relay of this process.
    stop: CancellationToken,
    won: AtomicBool,
    database_failed: AtomicBool,
    reader_gone: AtomicBool,
}

impl Watch {
    pub fn new(config: &Config, stop: CancellationToken) -> Self {
        let is_stdout = |broker: &str| {
            let broker = config.brokers.get(broker);
            broker.is_some_and(|broker| matches!(broker.kind, Kind::Stdout))
        };
        let destinations = config.router.destinations().iter();
        Self {
            stdout: destinations
                .filter(|destination| is_stdout(&destination.broker))
                .map(|destination| destination.name.to_string())
                .collect(),
            stop,
            won: AtomicBool::new(false),
            database_failed: AtomicBool::new(false),
            reader_gone: AtomicBool::new(false),
        }
    }

    /// Whether whoever read standard output went away.
    pub fn reader_is_gone(&self) -> bool {
        self.reader_gone.load(Ordering::Relaxed)
    }

    /// Says that another relay does the work, once, if that is why nothing happens. A database that does not answer has
    /// a line of its own.
    pub async fn say_if_standing_by(&self, outbox: &str, initial_delay: Duration, ended: CancellationToken) {
        let wait = tokio::time::sleep(initial_delay + PATIENCE);
        if ended.run_until_cancelled(wait).await.is_none() {
            return;
        }
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        if !is_set(&self.won) && !is_set(&self.database_failed) {
            tracing::info!(outbox, "standing by: another relay holds the lease");
        }
    }
}

impl Observer for Watch {
    fn note(&self, _outbox: &str, note: &Note) {
        match note {
            Note::LeaseWon { .. } => self.won.store(true, Ordering::Relaxed),
            Note::StoreFailed { .. } => self.database_failed.store(true, Ordering::Relaxed),
            // Standard output is unreachable only when its reader closed it, and nobody can open it again.
            Note::CircuitOpened {
                destination, failure, ..
            } if failure.kind == ErrorKind::Unreachable && self.stdout.contains(destination.as_str()) => {
                self.reader_gone.store(true, Ordering::Relaxed);
                self.stop.cancel();
            }
            _ => {}
        }
    }
}
