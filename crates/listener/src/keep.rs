//! How long an inbox keeps its records: compared with how late the broker may deliver, and seen to by the listener.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{InboxConsole, causes, kept_long_enough};
use tracing::{info, warn};

use crate::BuildError;

/// How often old records are removed.
const EVERY: Duration = Duration::from_secs(3_600);
/// Records of one step: one short transaction each, so that no consumer waits noticeably.
const STEP: u32 = 1_000;

/// The records of an inbox, and for how long they are kept.
#[derive(Clone)]
pub struct Keep {
    inbox: Arc<dyn InboxConsole>,
    retention: Duration,
    horizon: Option<Duration>,
}

impl Keep {
    /// Records of this inbox are removed when they are as old as that: every hour, those of this consumer. Another
    /// one in the same inbox may have to know its events for longer.
    pub fn new(inbox: Arc<dyn InboxConsole>, retention: Duration) -> Self {
        Self {
            inbox,
            retention,
            horizon: None,
        }
    }

    /// How late the broker may deliver an event again: how long a message can lie in the queue and come back from it. A
    /// listener whose records are not kept for longer is not built. Without it a retention below a week is warned of.
    pub fn horizon(mut self, horizon: Duration) -> Self {
        self.horizon = Some(horizon);
        self
    }

    /// Refuses what would let an event take effect twice by its settings alone.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        match (kept_long_enough(self.retention, self.horizon), self.horizon) {
            (Err(text), Some(_)) => Err(BuildError::Retention(text)),
            (Err(_), None) | (Ok(()), _) => Ok(()),
        }
    }

    /// Removes old records, now and every hour, for as long as it is polled.
    pub(crate) async fn run(&self, consumer: &str) {
        if let (Err(text), None) = (kept_long_enough(self.retention, self.horizon), self.horizon) {
            warn!(consumer, "{text}");
        }
        loop {
            self.purge(consumer).await;
            tokio::time::sleep(EVERY).await;
        }
    }

    async fn purge(&self, consumer: &str) {
        let mut removed = 0;
        loop {
            match self
                .inbox
                .purge(Some(consumer.to_owned()), self.retention, STEP)
                .await
            {
                Ok(gone) => {
                    removed += gone;
                    if gone < u64::from(STEP) {
                        break;
                    }
                }
                Err(error) => {
                    let (error, advice) = (causes(&error), error.advice());
                    warn!(
                        consumer,
                        error, advice, "old records stay in the inbox for another hour"
                    );
                    break;
                }
            }
        }
        if removed > 0 {
            info!(consumer, removed, "removed old records of the inbox");
        }
    }
}

impl fmt::Debug for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keep")
            .field("retention", &self.retention)
            .field("horizon", &self.horizon)
            .finish_non_exhaustive()
    }
}
