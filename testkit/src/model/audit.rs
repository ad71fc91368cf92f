//! What people did.

use std::time::Duration;

use postrider_core::{AuditEntry, AuditPage, Cursor, EventId, JobId};

use super::{Model, time};

/// Something that a person did, before it is written down.
pub(super) struct Deed<'a> {
    pub(super) actor: &'a str,
    pub(super) action: &'a str,
    pub(super) detail: String,
    pub(super) touched: u64,
    pub(super) job: Option<JobId>,
    pub(super) event_id: Option<EventId>,
}

impl<'a> Deed<'a> {
    pub(super) fn of(actor: &'a str, action: &'a str, detail: String) -> Self {
        Self {
            actor,
            action,
            detail,
            touched: 0,
            job: None,
            event_id: None,
        }
    }
}

impl Model {
    /// What people did, newest first, before the entry with this number.
    pub fn audit(&self, limit: usize, before: Option<u64>) -> AuditPage {
        let before = before.unwrap_or(u64::MAX);
        let mut older = self.audit.range(..before).rev();
        let page: Vec<_> = older.by_ref().take(limit).collect();
        let last = page.last().map(|(number, _)| **number);
        AuditPage {
            next: last
                .filter(|_| older.next().is_some())
                .map(|last| Cursor(last.to_string())),
            entries: page.into_iter().map(|(_, entry)| entry.clone()).collect(),
        }
    }

    pub(super) fn note(&mut self, now: Duration, deed: Deed<'_>) {
        let entry = AuditEntry {
            at: time(now),
            actor: deed.actor.to_owned(),
            action: deed.action.to_owned(),
            detail: deed.detail,
            touched: deed.touched,
            job: deed.job,
            event_id: deed.event_id,
        };
        self.audit.insert(self.next_entry, entry);
        self.next_entry += 1;
    }
}
