//! Where notifications are stored: the contract that every store keeps, and its suite checks.
//!
//! What stores have in common is beside it: `means` is what they work with besides a database, `rules` is what is
//! unique, `statement` fills templates, `shown` is what is read, `work` and `keep` are what goes on piece by piece, and
//! `fault` is what fails.

pub(crate) mod fault;
pub(crate) mod keep;
pub(crate) mod means;
pub(crate) mod rules;
pub(crate) mod shown;
pub(crate) mod statement;
pub(crate) mod work;

use std::time::Duration;

use postrider_core::{BoxFuture, StoreError};
use serde::Serialize;

use crate::{Directory, Feed, Notification, Occasion, PeopleError, Tally};

/// Where notifications are stored.
///
/// **Unique.** One notification for a user and an event. Where the workflow names a resource, one for a user, category,
/// resource and period besides; the event's type is part of the resource. One delivery for a notification and channel.
/// A conflict with one of these is a duplicate: success, counted, answered with what is there. A violation of anything
/// else is an error, never a duplicate.
///
/// **Whole.** A notification, its deliveries and the events in the outbox that deliver them are committed together. An
/// occasion is accepted in the transaction that stores its first chunk; what is left is a fan-out in the same
/// transaction, with the id of the last member that was looked at, and every further chunk moves that on in its own.
/// So a crash anywhere repeats nothing and skips nobody.
///
/// **Bounded.** A chunk is at most [`CHUNK`] members, whatever the size of the topic, and fewer where what they are
/// told is long: some megabytes of words. What is collected for a digest is bounded in the same way, when it is kept
/// and when it is read.
///
/// **Apart.** A fan-out or a digest that cannot go on as it is leaves nothing behind but the reason, which is
/// committed, and stands aside for a while. It holds up no other.
///
/// **Preferences** are read with the members of a chunk, in its transaction: a change counts for all that is stored
/// after it.
pub trait Board: Directory + Feed {
    /// Makes the tables, the indexes and the view of each audience where they are missing. Where rows are there that a
    /// unique index of ours would refuse, nothing is changed and the error is [`BoardError::Duplicates`].
    fn migrate(&self) -> BoxFuture<'_, Result<(), BoardError>>;

    /// The statements of [`Board::migrate`], for teams with a tool of their own.
    fn sql(&self) -> String;

    /// Takes an occasion in a transaction of its own: what a handler of a listener does in that of the inbox.
    fn accept(&self, occasion: Occasion) -> BoxFuture<'_, Result<Accepted, BoardError>>;

    /// The same for a request whose key became the id of the event: the first that is accepted counts. Another with the
    /// same id that says something else is [`BoardError::Reused`], also where both come at once. It is known for as
    /// long as notifications are kept. A request that concerned nobody is not remembered.
    fn request(&self, occasion: Occasion) -> BoxFuture<'_, Result<Accepted, BoardError>>;

    /// Stores the next chunk of the oldest fan-out that nobody else works on; None when there is none. The errors
    /// [`BoardError::Occasion`] and [`BoardError::Directory`] are of this fan-out, which stands aside: the next call
    /// takes another. One of a workflow that this board does not know is left to others for ten minutes.
    fn step(&self) -> BoxFuture<'_, Result<Option<Step>, BoardError>>;

    /// How far the fan-out of an event is. None where there is none: all was stored at once, or the event is not known.
    fn fan_out<'a>(&'a self, event_id: &'a str) -> BoxFuture<'a, Result<Option<FanOut>, StoreError>>;

    /// Has fan-outs that stand aside tried again; answers how many. They could not go on with the workflows of their
    /// time, so whoever starts with other ones calls this: the event itself does not come again.
    fn resume(&self) -> BoxFuture<'_, Result<u64, BoardError>>;

    /// Makes the notification of one digest whose window is over; false when there is none. The errors
    /// [`BoardError::Occasion`] and [`BoardError::Directory`] are of this digest, which is put off: the next call takes
    /// another. One of a workflow that this board does not know is left to others for ten minutes.
    fn digest(&self) -> BoxFuture<'_, Result<bool, BoardError>>;

    /// What is not done yet, and how much of that stands aside.
    fn standing(&self) -> BoxFuture<'_, Result<Standing, StoreError>>;

    /// What it counted since this process began.
    fn tally(&self) -> &Tally;

    /// How long until the next digest of a workflow that it knows is due; None when none is collected.
    fn next_digest(&self) -> BoxFuture<'_, Result<Option<Duration>, BoardError>>;

    /// Removes what is older than this, at most so many of each: notifications with their deliveries, finished
    /// fan-outs, digests that were told, and what keys were used for. A notification with a delivery that is not
    /// settled stays.
    fn purge(&self, older_than: Duration, limit: u32) -> BoxFuture<'_, Result<Purged, BoardError>>;
}

/// The members of one chunk, at most: a transaction of some thousand rows, which takes tens of milliseconds.
pub const CHUNK: usize = 1_000;

/// What became of an occasion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// How many notifications were stored at once.
    pub stored: u64,
    /// How many were there before.
    pub duplicates: u64,
    /// How many members wanted none.
    pub muted: u64,
    /// How many were put into a digest.
    pub collected: u64,
    /// Whether members are left for [`Board::step`].
    pub goes_on: bool,
    /// For an occasion with one recipient, the notification: the new one, or the one that was there.
    pub one: Option<Notification>,
}

impl Accepted {
    /// Whether it concerned nobody.
    pub(crate) fn is_nothing(&self) -> bool {
        self.stored + self.duplicates + self.muted + self.collected == 0 && !self.goes_on
    }
}

/// What one chunk did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The event.
    pub event_id: String,
    /// The workflow that it goes by.
    pub workflow: String,
    /// The counts of this chunk.
    pub stored: u64,
    /// Those that were there before.
    pub duplicates: u64,
    /// Those that wanted none.
    pub muted: u64,
    /// Those that went into a digest.
    pub collected: u64,
    /// Whether the fan-out is finished.
    pub finished: bool,
}

/// How far a fan-out is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FanOut {
    /// How many notifications it stored so far.
    pub stored: u64,
    /// Whether it is finished.
    pub finished: bool,
    /// Why it does not go on, where it cannot.
    pub problem: Option<String>,
}

/// What is not done yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// Fan-outs that are not finished.
    pub fan_outs: u64,
    /// Those of them that cannot go on as they are.
    pub fan_outs_aside: u64,
    /// Digests that are not told yet.
    pub digests: u64,
    /// Those of them that could not be told the last time.
    pub digests_aside: u64,
    /// The first of those that stand aside, at most [`Standing::MOST`] of each kind.
    pub aside: Vec<Aside>,
}

impl Standing {
    /// How many of each kind are named.
    pub const MOST: usize = 10;
}

/// Something that cannot go on as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Aside {
    /// The event of a fan-out, or the one that a digest becomes.
    pub event_id: String,
    /// Why.
    pub problem: String,
}

/// What a purge removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Notifications.
    pub notifications: u64,
    /// Fan-outs that were finished.
    pub fan_outs: u64,
    /// Digests that were told.
    pub digests: u64,
    /// Keys of requests.
    pub requests: u64,
}

impl Purged {
    /// Whether anything went: then there may be more.
    pub fn any(&self) -> bool {
        self.notifications + self.fan_outs + self.digests + self.requests > 0
    }
}

/// Rows that stand in the way of a unique index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicates {
    /// The columns that must be unique together.
    pub columns: &'static str,
    /// The first of the groups, at most 20: their values, and how many rows have them.
    pub groups: Vec<(String, u64)>,
}

/// Why something was not stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BoardError {
    /// It cannot be told as it is: no workflow is for it, its templates cannot be filled with it, or the database
    /// refuses what is stored for it alone.
    #[error("{0}")]
    Occasion(String),
    /// The id of the event is that of a request that said something else; nothing was stored.
    #[error("this key was used for something else; use a new key for what is new")]
    Reused,
    /// A unique index cannot be made over what is there.
    #[error(
        "the rows of {table} are not unique by ({columns}): {listed}; remove all but one of each group, then migrate \
         again",
        columns = .duplicates.columns,
        listed = list(.duplicates)
    )]
    Duplicates {
        /// The table.
        table: &'static str,
        /// What is in the way.
        duplicates: Duplicates,
    },
    /// The directory of people, which is not ours, did not answer as it must; nothing was stored. It is asked again.
    #[error("the directory of people cannot be used at the moment")]
    Directory(#[source] PeopleError),
    /// The database failed; everything is as before.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn list(duplicates: &Duplicates) -> String {
    let groups = duplicates.groups.iter();
    let groups: Vec<String> = groups
        .map(|(values, rows)| format!("{values} ({rows} rows)"))
        .collect();
    groups.join(", ")
}
