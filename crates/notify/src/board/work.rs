//! What is left to do piece by piece, and what a piece came to.

use std::time::Duration;

use super::keep::kept;
use crate::people::{self, Page, why};
use crate::{Accepted, BoardError, CHUNK, Member, Notification, Occasion, People, Step, To};

/// For how long a process leaves what goes by a workflow that it does not know to those that know it: while a new
/// configuration is being rolled out, others do. After that it says what is missing.
pub(crate) const LEFT_TO_OTHERS: Duration = Duration::from_secs(600);

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

    /// Asks a directory that is not ours for its next people.
    pub(crate) async fn ask(self, own: &dyn People) -> Asked<Self> {
        let page = match self.occasion() {
            Ok(occasion) => people::page(own, (&occasion.to, self.cursor.as_deref(), CHUNK)).await,
            // One that cannot be read is said to be so by whoever goes on with it.
            Err(_) => Ok(Page::default()),
        };
        Asked::new(self, page)
    }

    /// The step of whoever asked, where another was faster.
    pub(crate) fn nothing(&self) -> Step {
        Counts::default().step(self, false)
    }
}

/// A digest that was claimed.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) id: i64,
    pub(crate) workflow: String,
    pub(crate) user: String,
}

impl Due {
    /// Whom it is for.
    pub(crate) fn to(&self) -> To {
        To::User(self.user.clone())
    }

    /// Asks a directory that is not ours for whom it is for.
    pub(crate) async fn ask(self, own: &dyn People) -> Asked<Self> {
        let page = people::page(own, (&self.to(), None, 1)).await;
        Asked::new(self, page)
    }
}

/// What a directory that is not ours said of something that was claimed: its next people, or why it could not say.
#[derive(Debug)]
pub(crate) struct Asked<T> {
    pub(crate) of: T,
    /// Words, because a transaction that is run again says it again.
    page: Result<Page, String>,
}

impl<T> Asked<T> {
    fn new(of: T, page: Result<Page, BoardError>) -> Self {
        let page = page.map_err(|error| why(&error));
        Self { of, page }
    }

    pub(crate) fn page(&self) -> Result<&Page, BoardError> {
        let page = self.page.as_ref();
        page.map_err(|reason| BoardError::Directory(reason.as_str().into()))
    }
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
    /// The last of a page of members that was looked at, and whether there may be some behind that one: in the page, or
    /// behind it where it is not the last.
    pub(crate) fn reached<'a>(&self, (members, is_last): (&'a [Member], bool)) -> (Option<&'a str>, bool) {
        let last = members.iter().take(self.looked_at).next_back();
        let more = self.looked_at < members.len() || !is_last;
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

    pub(crate) fn step(self, of: &Claimed, finished: bool) -> Step {
        Step {
            event_id: of.event_id.clone(),
            workflow: of.workflow.clone(),
            stored: self.stored,
            duplicates: self.duplicates,
            muted: self.muted,
            collected: self.collected,
            finished,
        }
    }
}
