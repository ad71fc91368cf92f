//! What a worker tells becomes lines of the log and bells.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::bells::Bells;
use crate::Told;

/// Hears a worker.
pub(super) fn hear(bells: Arc<Bells>) -> impl Fn(&Told) + Send + Sync + 'static {
    let failing = AtomicBool::new(false);
    move |told| {
        match told {
            // Once an outage: it is tried again every few seconds, for as long as it lasts.
            Told::Failed(error) if failing.swap(true, Ordering::Relaxed) => {
                tracing::debug!(error, "notifications still cannot be worked on");
                return;
            }
            Told::Failed(error) => {
                tracing::warn!(error, "notifications cannot be worked on; it is tried again");
                return;
            }
            Told::PutAside(reason) => {
                tracing::warn!(
                    reason,
                    "a fan-out or a digest stands aside; it is tried again every minute"
                );
                return;
            }
            Told::Stepped(step) => {
                let (event_id, stored, finished) = (&step.event_id, step.stored, step.finished);
                tracing::debug!(event_id, stored, finished, "a fan-out went on");
                bells.ring_for_all();
            }
            Told::Digested => bells.ring_for_all(),
            Told::Purged(removed) => tracing::info!(removed, "removed old notifications"),
        }
        if failing.swap(false, Ordering::Relaxed) {
            tracing::info!("notifications can be worked on again");
        }
    }
}
