//! Which server it is. After a failover or a restore the same address leads to a history that parted from the one
//! before: commits of the old one may be missing in it, among them commits whose events were published (fault A10).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider_core::RelayId;
use tokio::time::Instant;

use crate::session::Session;

/// The cluster, and the timeline in it, which every promotion makes anew.
const WHO: &str = "SELECT (pg_catalog.pg_control_system()).system_identifier::text,
    pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8)";

/// What the connections of one store have met so far.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    met: Option<Met>,
    /// How often the server was another one than before.
    replaced: u64,
    /// The relays of this store: from which server each has its leases, and when they end.
    relays: BTreeMap<RelayId, (u64, Instant)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Met {
    system: String,
    timeline: String,
}

impl Identity {
    /// Looks at the server behind a new session, and says so when it is another one than before; answers which one it
    /// is, as a number. A service that does not tell is served all the same: nothing is decided by it.
    pub(crate) async fn look(&self, session: &Session) -> u64 {
        let row = session.client.query_typed_one(WHO, &[]).await;
        let told = row.and_then(|row| {
            let (system, timeline) = (row.try_get(0)?, row.try_get(1)?);
            Ok(Met { system, timeline })
        });
        match told {
            Ok(met) => self.meet(met),
            Err(_) => self.state().replaced,
        }
    }

    /// Whether a relay has its leases from another server than this one.
    pub(crate) fn is_doubted(&self, relay: &RelayId, server: u64) -> bool {
        let known = self.state().relays.get(relay).map_or(0, |(known, _)| *known);
        known != server
    }

    /// Whether another server was met since. A session can outlive the failover that it should have ended with.
    pub(crate) fn is_past(&self, server: u64) -> bool {
        self.state().replaced > server
    }

    /// Whether any relay that may be at work has its leases from a server before this one.
    pub(crate) fn are_doubted(&self, server: u64) -> bool {
        let now = Instant::now();
        let relays = &self.state().relays;
        relays
            .values()
            .any(|(known, ends)| *known < server && *ends > now)
    }

    /// The relay has its leases from this server, for so long.
    pub(crate) fn trust(&self, relay: &RelayId, server: u64, term: Duration) {
        let now = Instant::now();
        let mut state = self.state();
        // Those that ended without a word must not be waited for, nor gather.
        state.relays.retain(|_, (_, ends)| *ends > now);
        state.relays.insert(relay.clone(), (server, now + term));
    }

    /// The relay has no leases any more.
    pub(crate) fn forget(&self, relay: &RelayId) {
        self.state().relays.remove(relay);
    }

    fn meet(&self, met: Met) -> u64 {
        let mut state = self.state();
        let before = state.met.replace(met.clone());
        let Some(before) = before.filter(|before| *before != met) else {
            return state.replaced;
        };
        state.replaced += 1;
        tracing::warn!(
            system = met.system,
            timeline = met.timeline,
            system_before = before.system,
            timeline_before = before.timeline,
            "the database was replaced, by a failover or a restore: commits that it does not have may have been \
             published, and what was published last may be published again"
        );
        state.replaced
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: Duration = Duration::from_secs(60);

    fn meet(identity: &Identity, system: &str, timeline: &str) -> u64 {
        identity.meet(Met {
            system: system.to_owned(),
            timeline: timeline.to_owned(),
        })
    }

    /// Fault A10. Three connections meet the new server, and it is doubted until the leases are from it.
    #[test]
    fn another_server_is_doubted_once() {
        let identity = Identity::default();
        let relay = RelayId("one".into());
        let doubts = |system: &str, timeline: &str| {
            let server = meet(&identity, system, timeline);
            let doubted = identity.is_doubted(&relay, server);
            assert_eq!(identity.are_doubted(server), doubted);
            identity.trust(&relay, server, TERM);
            doubted
        };
        assert!(!doubts("7", "00000001"));
        assert!(!doubts("7", "00000001"));
        assert!(doubts("7", "00000002"), "a promotion");
        assert!(!doubts("7", "00000002"));
        assert!(doubts("8", "00000002"), "another cluster");
    }

    /// Fault A10. Relays of one process share a store, and each has leases of its own to doubt.
    #[test]
    fn every_relay_doubts_another_server() {
        let identity = Identity::default();
        let (one, two) = (RelayId("one".into()), RelayId("two".into()));
        let first = meet(&identity, "7", "00000001");
        identity.trust(&one, first, TERM);
        identity.trust(&two, first, TERM);
        let second = meet(&identity, "7", "00000002");
        identity.trust(&one, second, TERM);
        assert!(!identity.is_doubted(&one, second));
        assert!(identity.is_doubted(&two, second), "it has not renewed yet");
        assert!(identity.are_doubted(second), "nothing is read before it has");
        // Replaced once more while a heartbeat to the second was under way.
        let third = meet(&identity, "7", "00000003");
        assert!(identity.is_past(second) && !identity.is_past(third));
        identity.trust(&two, second, TERM);
        assert!(identity.is_doubted(&two, third));
    }

    #[test]
    fn a_relay_that_is_gone_is_not_waited_for() {
        let identity = Identity::default();
        let (one, two) = (RelayId("one".into()), RelayId("two".into()));
        let first = meet(&identity, "7", "00000001");
        identity.trust(&one, first, TERM);
        identity.trust(&two, first, Duration::ZERO);
        let second = meet(&identity, "7", "00000002");
        assert!(identity.are_doubted(second));
        identity.forget(&one);
        assert!(
            !identity.are_doubted(second),
            "one has ended, and the lease of the other"
        );
    }
}
