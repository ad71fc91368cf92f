//! What a person sees: their notifications, and what became of each.

use postrider_core::{BoxFuture, StoreError, Timestamp};
use serde::{Deserialize, Serialize};

use crate::Channel;

/// What a person does with a notification. Each implies the ones before it: what is read was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// It was on the screen.
    Seen,
    /// It was opened.
    Read,
    /// It is out of the way: not in the feed any more.
    Archived,
}

/// A notification as it is in a feed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its id; a later one is larger.
    pub id: i64,
    /// The id of the event behind it.
    pub event_id: String,
    /// What happened.
    pub event_type: String,
    /// Of which category it is.
    pub category: String,
    /// The rendered title, plain text.
    pub title: String,
    /// The rendered text, plain text.
    pub body: String,
    /// When it was stored.
    #[serde(serialize_with = "crate::moment::serialize")]
    pub created_at: Timestamp,
    /// When it was seen.
    #[serde(serialize_with = "crate::moment::optional::serialize")]
    pub seen_at: Option<Timestamp>,
    /// When it was read.
    #[serde(serialize_with = "crate::moment::optional::serialize")]
    pub read_at: Option<Timestamp>,
    /// When it was archived.
    #[serde(serialize_with = "crate::moment::optional::serialize")]
    pub archived_at: Option<Timestamp>,
}

/// How a delivery stands, derived from where its event is: the outbox, the parked ones, the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum DeliveryState {
    /// It is in the feed.
    Stored,
    /// Its event is queued, retried, held or scheduled.
    Pending {
        /// The word of `outbox_events.status`, in small letters.
        status: String,
        /// Why it is not through yet, if anything failed.
        error: Option<String>,
    },
    /// The channel took it.
    Delivered {
        /// When.
        #[serde(serialize_with = "crate::moment::optional::serialize")]
        at: Option<Timestamp>,
    },
    /// It needs a person.
    Dead {
        /// Why.
        error: String,
    },
    /// It was thrown away by an operator.
    Discarded,
    /// It was never sent, because there is no way to: no address, or one that is none.
    Impossible {
        /// Why.
        reason: String,
    },
    /// Its event left the outbox so long ago that the history does not know it any more.
    Settled,
}

/// One channel of a notification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Delivery {
    /// By which channel.
    pub channel: Channel,
    /// The event in the outbox that delivers it; None where nothing has to be sent.
    pub event_id: Option<String>,
    /// How it stands.
    #[serde(flatten)]
    pub state: DeliveryState,
}

/// All that is known of a notification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notification {
    /// As it is in the feed.
    #[serde(flatten)]
    pub entry: Entry,
    /// Whose it is.
    pub user_id: String,
    /// Of which audience the event was.
    pub audience: String,
    /// What it is about, where the workflow says so.
    pub resource_id: Option<String>,
    /// `originalEvent`, `eventId`, `resourceId`, and `fingerprint`, see [`crate::Occasion::fingerprint`].
    pub metadata: serde_json::Value,
    /// By channel.
    pub deliveries: Vec<Delivery>,
}

/// Reading and marking. Every call names the person: nothing of another's can be seen or changed.
pub trait Feed: Send + Sync {
    /// A page, newest first, without what is archived unless that is asked for, below the id named.
    fn list<'a>(
        &'a self,
        user: &'a str,
        before: Option<i64>,
        limit: usize,
        archived: bool,
    ) -> BoxFuture<'a, Result<Vec<Entry>, StoreError>>;

    /// What was stored in the last so many milliseconds and is not archived, oldest first, at most 100: what a live
    /// feed shows. Of somebody who has thousands only the latest are looked at. Ids may become visible out of order, so
    /// a reader asks for some more than it needs and leaves out what it knows.
    fn recent<'a>(&'a self, user: &'a str, within_ms: u64) -> BoxFuture<'a, Result<Vec<Entry>, StoreError>>;

    /// How many are neither read nor archived.
    fn unread<'a>(&'a self, user: &'a str) -> BoxFuture<'a, Result<u64, StoreError>>;

    /// Marks one, or all up to and including an id; answers how many changed. What is marked already stays as it is.
    fn mark<'a>(&'a self, user: &'a str, which: Which, mark: Mark) -> BoxFuture<'a, Result<u64, StoreError>>;

    /// One notification with its deliveries, by id.
    fn notification(&self, id: i64) -> BoxFuture<'_, Result<Option<Notification>, StoreError>>;

    /// The notifications of an event, at most so many, in the order of their ids.
    fn of_event<'a>(
        &'a self,
        event_id: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Notification>, StoreError>>;

    /// The one about a resource, of a user and category, newest first (`findDuplicate` of document 003).
    fn of_resource<'a>(
        &'a self,
        user: &'a str,
        category: &'a str,
        resource: &'a str,
    ) -> BoxFuture<'a, Result<Option<Notification>, StoreError>>;
}

/// Which notifications are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// This one.
    One(i64),
    /// All up to and including this one.
    UpTo(i64),
}
