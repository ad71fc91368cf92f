//! What one relay does for all beside publishing: cleaning up, and telling people of dead letters.
//!
//! Every relay has these tasks; the database decides which of them does the work.

mod cleanup;
mod on_dead;

use std::sync::Arc;

use postrider_core::RelayId;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Outbox};
use crate::wire::Opened;

pub use on_dead::Ear;

/// The duties of one outbox.
pub struct Duties {
    config: Config,
    opened: Opened,
    /// How long the history is kept; none: there is none.
    history: Option<std::time::Duration>,
    holder: RelayId,
    stop: CancellationToken,
}

impl Duties {
    pub fn new(config: &Config, opened: &Opened, outbox: &Outbox, stop: CancellationToken) -> Self {
        Self {
            config: config.clone(),
            opened: opened.clone(),
            history: outbox.history,
            // New at every start, like that of the relay: a restarted process must not take itself for its predecessor.
            holder: RelayId(postrider_core::JobId::new().0),
            stop,
        }
    }

    /// Begins them; they end with the token.
    pub fn start(self, ear: Arc<Ear>) {
        let duties = Arc::new(self);
        if let Some(on_dead) = duties.config.on_dead.clone() {
            tokio::spawn(on_dead::tell(duties.clone(), on_dead, ear));
        }
        tokio::spawn(cleanup::keep(duties));
    }

    /// Sleeps; answers whether it may go on.
    async fn rest(&self, pause: std::time::Duration) -> bool {
        let sleep = tokio::time::sleep(pause);
        self.stop.run_until_cancelled(sleep).await.is_some()
    }
}
