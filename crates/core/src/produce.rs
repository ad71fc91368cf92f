//! Why an event was not enqueued, in every store.

use std::error::Error as StdError;
use std::fmt;

use crate::{EventId, InvalidEvent, StoreError, StoreErrorKind};

/// What kind of failure an enqueue is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnqueueErrorKind {
    /// The event breaks a limit; nothing was sent to the database.
    Invalid(InvalidEvent),
    /// An event with this id is in the outbox already.
    DuplicateId(EventId),
    /// The connection is not in a transaction: the event would be committed apart from what it speaks of.
    NoTransaction,
    /// The outbox table is missing or of another version.
    Schema,
    /// Anything else that the database says.
    Store,
}

/// An event was not enqueued. After [`EnqueueErrorKind::Invalid`] the transaction is as it was before the call. After
/// anything else some databases, PostgreSQL among them, take nothing more in it: roll it back.
#[derive(Debug)]
pub struct EnqueueError {
    kind: EnqueueErrorKind,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl EnqueueError {
    /// For stores: a failure with the driver's error behind it.
    pub fn new(kind: EnqueueErrorKind, source: impl StdError + Send + Sync + 'static) -> Self {
        Self {
            kind,
            source: Some(Box::new(source)),
        }
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> &EnqueueErrorKind {
        &self.kind
    }
}

impl From<InvalidEvent> for EnqueueError {
    fn from(invalid: InvalidEvent) -> Self {
        Self {
            kind: EnqueueErrorKind::Invalid(invalid),
            source: None,
        }
    }
}

impl From<StoreError> for EnqueueError {
    fn from(error: StoreError) -> Self {
        let kind = match error.kind() {
            StoreErrorKind::Schema => EnqueueErrorKind::Schema,
            _ => EnqueueErrorKind::Store,
        };
        Self::new(kind, error)
    }
}

impl fmt::Display for EnqueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            EnqueueErrorKind::Invalid(invalid) => {
                write!(f, "the event is not valid and was not enqueued: {invalid}")
            }
            EnqueueErrorKind::DuplicateId(id) => write!(
                f,
                "an event with the id {id} is queued already; give every event an id of its own, or take this as \
                 success if it is the same event enqueued twice"
            ),
            EnqueueErrorKind::NoTransaction => f.write_str(
                "the connection is not in a transaction; enqueue inside the one that the event belongs to",
            ),
            EnqueueErrorKind::Schema => {
                f.write_str("the outbox table is missing or of another version; run `postrider migrate up`")
            }
            EnqueueErrorKind::Store => f.write_str(
                "the database did not take the event; roll the transaction back and try it again as a whole",
            ),
        }
    }
}

impl StdError for EnqueueError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match (&self.kind, &self.source) {
            (EnqueueErrorKind::Invalid(invalid), _) => Some(invalid),
            (_, Some(source)) => Some(&**source),
            (_, None) => None,
        }
    }
}
