//! Where notifications are stored: the contract that every store keeps, and its suite checks.
//!
//! What stores have in common is beside it: `rules` is what is unique, `statement` fills templates, `shown` is what is
//! read, `work` and `keep` are what goes on piece by piece, and `fault` is what fails.

pub(crate) mod fault;
pub(crate) mod keep;
pub(crate) mod rules;
pub(crate) mod shown;
pub(crate) mod statement;
pub(crate) mod work;

use std::time::Duration;

use postrider_core::{BoxFuture, StoreError};
use serde::Serialize;

use crate::{Directory, Feed, Notification, Occasion};

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

    /// Stores the next chunk of the oldest fan-out that nobody else works on; None when there is none. The error
    /// [`BoardError::Occasion`] is one of this fan-out, which stands aside: the next call takes another.
    fn step(&self) -> BoxFuture<'_, Result<Option<Step>, BoardError>>;

    /// How far the fan-out of an event is. None where there is none: all was stored at once, or the event is not known.
    fn fan_out<'a>(&'a self, event_id: &'a str) -> BoxFuture<'a, Result<Option<FanOut>, StoreError>>;

    /// Has fan-outs that stand aside tried again; answers how many. They could not go on with the workflows of their
    /// time, so whoever starts with other ones calls this: the event itself does not come again.
    fn resume(&self) -> BoxFuture<'_, Result<u64, BoardError>>;

    /// Makes the notification of one digest whose window is over; false when there is none. The error
    /// [`BoardError::Occasion`] is one of this digest, which is put off: the next call takes another.
    fn digest(&self) -> BoxFuture<'_, Result<bool, BoardError>>;

    /// How long until the next digest is due; None when none is collected.
    fn next_digest(&self) -> BoxFuture<'_, Result<Option<Duration>, BoardError>>;

    /// Removes what is older than this, at most so many of each: notifications with their deliveries, finished
    /// fan-outs, and digests that were told. A notification with a delivery that is not settled stays.
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

/// What one chunk did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The event.
    pub event_id: String,
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

/// What a purge removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Notifications.
    pub notifications: u64,
    /// Fan-outs that were finished.
    pub fan_outs: u64,
    /// Digests that were told.
    pub digests: u64,
}

impl Purged {
    /// Whether anything went: then there may be more.
    pub fn any(&self) -> bool {
        self.notifications + self.fan_outs + self.digests > 0
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
