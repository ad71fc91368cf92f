//! What the engine needs of a database.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::{Doorbell, Heartbeat, Page, Read, Settle, Settled, Standing};

/// A boxed future. The boundary is per batch, so one allocation a call costs nothing that can be measured.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An outbox as the relay sees it.
///
/// **Calls.** The engine has at most one read, one settle and one heartbeat under way per outbox, and may have one of
/// each at a time. Dropping a future abandons the call; whatever the database had already taken may still happen, and
/// the engine counts on that: every call may be repeated.
///
/// **Time.** Every duration that crosses this trait is relative to the database's clock at the moment of the call.
/// Implementations never look at their own.
///
/// **Errors.** An error says nothing about whether a write happened. A call that does not answer is given up by the
/// driver after a while, and repeated.
pub trait Store: Send + Sync {
    /// Registers or renews the relay, releases and claims shards, and answers with everything the relay owns.
    ///
    /// A shard may be claimed when nobody owns it or its owner's row has expired by the database's clock. Every
    /// change of owner raises the token. No more than the fair share is claimed: shards divided by live relays,
    /// rounded up. Taking over from an expired owner counts as unclean: `unclean` grows by one and `maybe_sent` is
    /// the expired relay's window; a release resets both. A relay that does not claim counts in nobody's share, and
    /// what it owns without holding is freed with its counts kept for the next owner: that is how a relay lets go of
    /// a shard of which it is unsure. What this very call releases it does not claim again.
    fn heartbeat(&self, beat: Heartbeat) -> BoxFuture<'_, Result<Standing, StoreError>>;

    /// How long one of the other calls may take before the store itself ends it; none: that is not its to say. Three of
    /// them must fit into a lease, or a relay that hangs in one loses its shards.
    fn longest_call(&self) -> Option<Duration> {
        None
    }

    /// Reads queued rows above the floors and parked rows that are due, all in one snapshot.
    ///
    /// A parked row is due when it is the head (lowest `seq`) of its key, lane and destination, counting rows without
    /// a destination as heads of every destination of their key, is not dead, its next attempt has come, and its
    /// destination is not named in `not_for`. Dead rows of a destination in `skip_dead` are passed over. Rows without
    /// a destination are due by the same rule among themselves.
    ///
    /// Behind a head come, in order, the rows that would be due if they were the head themselves; the first that
    /// would not be ends them. Parked rows take from `max_bytes` first: what is returned is busy at the next read, so
    /// they cannot starve the queue, whereas a steady backlog would starve them.
    ///
    /// A row that cannot be read as an event is returned with the reason in place of the event, never left out.
    fn read(&self, read: Read) -> BoxFuture<'_, Result<Page, StoreError>>;

    /// Writes what became of a batch in one transaction; answers one [`Settled`] per entry, queued entries first.
    ///
    /// For a shard whose token is not the one named, nothing is written. A queued row is matched by `seq` and
    /// `event_id`, a parked one by `seq`, `destination` and `version` (`Sent` and `Duplicate` ignore the version, but
    /// for edits since). The
    /// parked rows of a queued entry are inserted only if this very settle removed it from `outbox`. A settle decides
    /// nothing about other rows. Writing anything for a shard resets its `unclean` count and its suspect.
    fn settle(&self, settle: Arc<Settle>) -> BoxFuture<'_, Result<Vec<Settled>, StoreError>>;

    /// How the store wakes a sleeping relay; none when it can only be polled.
    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        None
    }
}

/// What kind of trouble a database is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// It cannot be reached, or the connection was lost.
    Unreachable,
    /// It is there but asks to come back later: busy, locked, deadlocked, serialisation failure.
    Busy,
    /// No space is left.
    Full,
    /// It may not be written.
    ReadOnly,
    /// The tables are missing or of another version.
    Schema,
    /// The credentials do not allow this.
    Denied,
    /// The file or the data is damaged.
    Corrupt,
    /// What was asked for cannot be done; nothing was changed.
    Invalid,
    /// Anything else.
    Other,
}

impl StoreErrorKind {
    /// The word used in logs, metrics and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            StoreErrorKind::Unreachable => "unreachable",
            StoreErrorKind::Busy => "busy",
            StoreErrorKind::Full => "full",
            StoreErrorKind::ReadOnly => "read_only",
            StoreErrorKind::Schema => "schema",
            StoreErrorKind::Denied => "denied",
            StoreErrorKind::Corrupt => "corrupt",
            StoreErrorKind::Invalid => "invalid",
            StoreErrorKind::Other => "other",
        }
    }

    /// What the operator should do.
    pub fn advice(self) -> &'static str {
        match self {
            StoreErrorKind::Unreachable => "check that the database is running and that its address is right",
            StoreErrorKind::Busy => {
                "nothing to do: the call is repeated; if it lasts, look for a long transaction"
            }
            StoreErrorKind::Full => "free disk space on the database's volume; publishing goes on by itself",
            StoreErrorKind::ReadOnly => "give the relay write access: it must record what was published",
            StoreErrorKind::Schema => "run `postrider migrate up`",
            StoreErrorKind::Denied => "check the user, the password and the grants of the relay's role",
            StoreErrorKind::Corrupt => "stop writing and restore the database from a backup",
            StoreErrorKind::Invalid => "nothing was changed; correct what was asked for and try again",
            StoreErrorKind::Other => "read the cause, and correct what it names",
        }
    }
}

/// A call on the database failed. Whether it took effect is not known.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    text: Box<str>,
    advice: Option<&'static str>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl StoreError {
    /// The answer of a store to what it was not taught yet.
    pub fn unsupported() -> Self {
        let text = "this store cannot do that yet; the documentation of the store says what it can";
        Self::new(StoreErrorKind::Other, text)
    }

    /// An error of a kind, with a sentence that says what was being done.
    pub fn new(kind: StoreErrorKind, text: impl Into<Box<str>>) -> Self {
        Self {
            kind,
            text: text.into(),
            advice: None,
            source: None,
        }
    }

    /// The same, with the driver's error attached.
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same, with what the operator should do, where that of its kind does not fit.
    pub fn with_advice(mut self, advice: &'static str) -> Self {
        self.advice = Some(advice);
        self
    }

    /// What kind of trouble it is.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// What the operator should do. It is no part of the text, so that it is said once.
    pub fn advice(&self) -> &'static str {
        self.advice.unwrap_or_else(|| self.kind.advice())
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
