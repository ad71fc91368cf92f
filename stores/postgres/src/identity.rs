//! Which server it is. After a failover or a restore the same address leads to a history that parted from the one
//! before: commits of the old one may be missing in it, among them commits whose events were published (fault A10).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::session::Session;

/// The cluster, and the timeline in it, which every promotion makes anew.
const WHO: &str = "SELECT (pg_catalog.pg_control_system()).system_identifier::text,
    pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8)";

/// What the connections of one store have met so far.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    met: Mutex<Option<Met>>,
    doubted: AtomicBool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Met {
    system: String,
    timeline: String,
}

impl Identity {
    /// Looks at the server behind a new session, and says so when it is another one than before. A service that does
    /// not tell is served all the same: nothing is decided by it.
    pub(crate) async fn look(&self, session: &Session) {
        let Ok(row) = session.client.query_typed_one(WHO, &[]).await else {
            return;
        };
        let (Ok(system), Ok(timeline)) = (row.try_get(0), row.try_get(1)) else {
            return;
        };
        self.meet(Met { system, timeline });
    }

    /// Whether the server is another one than that which the leases are from.
    pub(crate) fn is_doubted(&self) -> bool {
        self.doubted.load(Ordering::SeqCst)
    }

    /// The leases are from this server.
    pub(crate) fn trust(&self) {
        self.doubted.store(false, Ordering::SeqCst);
    }

    fn meet(&self, met: Met) {
        let mut known = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(before) = known.replace(met.clone()).filter(|before| *before != met) else {
            return;
        };
        self.doubted.store(true, Ordering::SeqCst);
        tracing::warn!(
            system = met.system,
            timeline = met.timeline,
            system_before = before.system,
            timeline_before = before.timeline,
            "the database was replaced, by a failover or a restore: commits that it does not have may have been \
             published, and what was published last may be published again"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault A10. Three connections meet the new server, and it is doubted until the leases are from it.
    #[test]
    fn another_server_is_doubted_once() {
        let identity = Identity::default();
        let doubts = |system: &str, timeline: &str| {
            identity.meet(Met {
                system: system.to_owned(),
                timeline: timeline.to_owned(),
            });
            let doubted = identity.is_doubted();
            identity.trust();
            doubted
        };
        assert!(!doubts("7", "00000001"));
        assert!(!doubts("7", "00000001"));
        assert!(doubts("7", "00000002"), "a promotion");
        assert!(!doubts("7", "00000002"));
        assert!(doubts("8", "00000002"), "another cluster");
    }
}
