//! The log lines about what people pause and resume.

use postrider_core::{Controls, inert, limits};
use tracing::{info, warn};

/// What was paused when the database last said so.
#[derive(Debug, Default)]
pub(crate) struct Pauses(Controls);

impl Pauses {
    /// Tells what was paused or resumed since the last heartbeat: one line each, as each is obeyed or ends.
    pub(crate) fn obey(&mut self, outbox: &str, controls: &Controls) {
        let before = std::mem::replace(&mut self.0, controls.clone());
        match (before.paused, controls.paused) {
            (false, true) => warn!(
                outbox,
                "paused by a person: nothing is published; `postrider resume` ends it"
            ),
            (true, false) => info!(outbox, "resumed by a person"),
            _ => {}
        }
        let (was, is) = (&before.paused_destinations, &controls.paused_destinations);
        for name in is.iter().filter(|name| !was.contains(name)) {
            let destination = &*inert(name.as_str(), limits::ID);
            warn!(
                outbox,
                destination, "paused by a person: what is meant for it is held"
            );
        }
        for name in was.iter().filter(|name| !is.contains(name)) {
            let destination = &*inert(name.as_str(), limits::ID);
            info!(outbox, destination, "resumed by a person");
        }
    }
}
