//! What is left to do piece by piece, and what a piece came to.

use super::keep::kept;
use crate::{Accepted, BoardError, CHUNK, Member, Notification, Occasion, Step};

/// A fan-out that was claimed.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) event_id: String,
    /// As it is kept.
    pub(crate) occasion: String,
    pub(crate) workflow: String,
    /// The last member that was looked at.
    pub(crate) cursor: Option<String>,
}

impl Claimed {
    pub(crate) fn occasion(&self) -> Result<Occasion, BoardError> {
        kept(&self.occasion, &format!("the fan-out of {:?}", self.event_id))
    }
}

/// A digest that was claimed.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) id: i64,
    pub(crate) workflow: String,
    pub(crate) user: String,
}

/// What became of a chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) stored: u64,
    pub(crate) duplicates: u64,
    pub(crate) muted: u64,
    pub(crate) collected: u64,
    /// How many members were looked at: what is to be stored for a whole page may be too much for one transaction.
    pub(crate) looked_at: usize,
}

impl Counts {
    /// The last of a page of members that was looked at, and whether there may be some behind that one: a page that is
    /// full does not say whether it was the last.
    pub(crate) fn reached<'a>(&self, members: &'a [Member]) -> (Option<&'a str>, bool) {
        let last = members.iter().take(self.looked_at).next_back();
        let more = self.looked_at < members.len() || members.len() >= CHUNK;
        (last.map(|last| last.recipient.id.as_str()), more)
    }

    pub(crate) fn accepted(self, goes_on: bool, one: Option<Notification>) -> Accepted {
        Accepted {
            stored: self.stored,
            duplicates: self.duplicates,
            muted: self.muted,
            collected: self.collected,
            goes_on,
            one,
        }
    }

    pub(crate) fn step(self, event_id: &str, finished: bool) -> Step {
        Step {
            event_id: event_id.to_owned(),
            stored: self.stored,
            duplicates: self.duplicates,
            muted: self.muted,
            collected: self.collected,
            finished,
        }
    }
}
