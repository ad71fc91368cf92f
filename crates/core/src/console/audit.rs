//! What people did, as the database remembers it.

use super::{Cursor, JobId};
use crate::{EventId, Timestamp};

/// One thing that a person did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// What: the word of a verb.
    pub action: String,
    /// With what and why, as JSON. Never a payload.
    pub detail: String,
    /// How many rows it touched.
    pub touched: u64,
    /// The job that it was a step of.
    pub job: Option<JobId>,
    /// The one event that it was about.
    pub event_id: Option<EventId>,
}

/// A page of the audit, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditPage {
    /// What was done.
    pub entries: Vec<AuditEntry>,
    /// Where the next page begins; none at the end.
    pub next: Option<Cursor>,
}
