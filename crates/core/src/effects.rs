//! A database in which the effects of events happen once.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{BoxFuture, Received, StoreError, causes};

/// A database in which the effects of events happen once.
///
/// The record of an event and its effect are in one transaction of one database, so both are there or neither. That is
/// why the handler works in a transaction which this trait begins and commits, and why the type of the handler belongs
/// to the database: each hands out transactions of its own kind.
pub trait Effects: Send + Sync + 'static {
    /// What is called for each event that has not taken effect, with the transaction to work in.
    type Handler: ?Sized + Send + Sync + 'static;

    /// How many deliveries a call of [`Effects::apply`] may have, at least 1: as many as are all or nothing together.
    /// No bound unless this says otherwise. Where effects cannot be undone it is 1, or those that came before one that
    /// fails would have happened, and nobody would know.
    fn most(&self) -> usize {
        usize::MAX
    }

    /// In one transaction: records these deliveries, runs the handler for each that was not recorded before, in their
    /// order, and commits. The record is inserted before the handler runs, so of two deliveries of one event at once
    /// the second waits and then finds it recorded.
    ///
    /// All or nothing: after an error nothing has taken effect, except that a commit whose answer was lost may have;
    /// the same call again finds out. Serialisation failures, deadlocks and a busy database are tried again inside, so
    /// a handler must leave nothing behind but what it does in its transaction.
    ///
    /// The same event twice among the deliveries takes effect once.
    ///
    /// Answers once for each delivery, in their order. An answer that is missing counts as an error: nobody could tell
    /// whether that delivery may be acknowledged.
    fn apply(
        &self,
        consumer: Arc<str>,
        deliveries: Arc<[Received]>,
        handler: Arc<Self::Handler>,
    ) -> BoxFuture<'_, Result<Vec<Applied>, ApplyError>>;
}

/// What became of one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It took effect now.
    Now,
    /// It had taken effect before; the handler was not called.
    Before,
}

/// Why nothing took effect.
#[derive(Debug)]
pub enum ApplyError {
    /// The handler refused one of the deliveries.
    Handler {
        /// Which.
        at: usize,
        /// What it said.
        error: HandlerError,
    },
    /// The id of one of the deliveries was recorded with another payload: two events have one id.
    Reused {
        /// Which.
        at: usize,
        /// The hash that was recorded.
        recorded: String,
    },
    /// The database failed. When that was the commit, whether it took effect is not known.
    Store(StoreError),
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApplyError::Handler { error, .. } => write!(f, "the handler failed: {error}"),
            ApplyError::Reused { recorded, .. } => write!(
                f,
                "an event with this id and another payload (SHA-256 {recorded}) has taken effect; have its producer \
                 give every event an id of its own"
            ),
            ApplyError::Store(error) => write!(f, "the inbox could not be used: {error}"),
        }
    }
}

impl std::error::Error for ApplyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ApplyError::Handler { error, .. } => error.source.as_deref().map(|error| error as _),
            ApplyError::Reused { .. } => None,
            ApplyError::Store(error) => Some(error),
        }
    }
}

/// Whom a failure is charged to. What is charged to an event counts towards its last attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Blame {
    /// The event.
    #[default]
    Event,
    /// The event if others took effect since it failed last; while nothing works, it is not the event's fault.
    Unclear,
    /// Nobody: it came at a bad time.
    Nobody,
}

/// Why a handler did not do its work. Made by `?` from any error, which means "try again", or by
/// [`HandlerError::reject`] where trying again cannot help.
///
/// ```
/// use postrider_core::HandlerError;
///
/// fn total(text: &str) -> Result<u64, HandlerError> {
///     text.parse().map_err(|error| HandlerError::reject(format!("{text:?} is not a total: {error}")))
/// }
/// assert!(!total("-1").is_err_and(|error| error.may_pass()));
/// ```
pub struct HandlerError {
    text: String,
    passing: bool,
    blame: Blame,
    pause: Option<Duration>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl HandlerError {
    /// It may work later.
    pub fn retry(reason: impl Into<String>) -> Self {
        Self {
            text: reason.into(),
            passing: true,
            blame: Blame::Event,
            pause: None,
            source: None,
        }
    }

    /// It will never work with this event: it goes to the dead letters at once.
    pub fn reject(reason: impl Into<String>) -> Self {
        Self {
            passing: false,
            ..Self::retry(reason)
        }
    }

    /// The same, when it is known how long to wait at least. What was agreed on as the longest pause still holds.
    pub fn not_before(mut self, pause: Duration) -> Self {
        self.pause = Some(pause);
        self
    }

    /// The same, charged to whom it may concern; to the event unless this says otherwise.
    pub fn blame(mut self, blame: Blame) -> Self {
        self.blame = blame;
        self
    }

    /// Whom it is charged to.
    pub fn blamed(&self) -> Blame {
        self.blame
    }

    /// How long to wait at least before it is tried again, where that is known.
    pub fn pause(&self) -> Option<Duration> {
        self.pause
    }

    /// Whether trying again may help.
    pub fn may_pass(&self) -> bool {
        self.passing
    }

    /// The error behind it, for a database that recognises its own.
    pub fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|error| error as _)
    }
}

/// Not an [`std::error::Error`] itself: that would forbid making it from any error.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self {
            // The text of many drivers leaves out what was behind it.
            text: causes(&error),
            passing: true,
            blame: Blame::Event,
            pause: None,
            source: Some(Box::new(error)),
        }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerError")
            .field("text", &self.text)
            .field("may_pass", &self.passing)
            .finish_non_exhaustive()
    }
}
