//! What `postrider run` hears from its relays: whether standard output still has a reader.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use postrider_core::ErrorKind;
use postrider_relay::engine::Note;
use postrider_relay::{Observer, Run};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Kind};

/// The ear of one relay.
#[derive(Debug)]
pub struct Watch {
    /// The destinations that are standard output.
    stdout: BTreeSet<String>,
    /// Stops every relay of this process.
    stop: CancellationToken,
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
            reader_gone: AtomicBool::new(false),
        }
    }

    /// Whether whoever read standard output went away.
    pub fn reader_is_gone(&self) -> bool {
        self.reader_gone.load(Ordering::Relaxed)
    }
}

impl Observer for Watch {
    fn note(&self, _: Run<'_>, note: &Note) {
        match note {
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
