//! What boards say when something fails, and what they make of it.

use std::error::Error;

use postrider_core::{EnqueueError, HandlerError, StoreError, StoreErrorKind, causes};

use crate::BoardError;
use crate::people::why;

/// The public error for one of a driver, with the name of what was being done.
pub(crate) fn failed(
    kind: StoreErrorKind,
    error: impl Error + Send + Sync + 'static,
    doing: &str,
) -> StoreError {
    match kind {
        StoreErrorKind::Schema => {
            let text = format!("{doing}: the tables of notifications are missing");
            let said = StoreError::new(kind, text).with_source(error);
            said.with_advice("make the tables with `postrider notify migrate`")
        }
        _ => StoreError::new(kind, format!("{doing} failed")).with_source(error),
    }
}

/// The error of a producer in the words of a store, of the kind that the driver's own error `E` has. An id of ours in
/// the outbox that is taken is no duplicate: its notification is new.
pub(crate) fn not_enqueued<E: Error + 'static>(
    error: EnqueueError,
    kind: impl Fn(&E) -> StoreErrorKind,
) -> StoreError {
    let chain = std::iter::successors(Some(&error as &(dyn Error + 'static)), |&error| error.source());
    let found = chain.filter_map(|one| one.downcast_ref()).map(kind).next();
    let text = "putting deliveries into the outbox failed";
    StoreError::new(found.unwrap_or(StoreErrorKind::Other), text).with_source(error)
}

/// What a handler answers.
pub(crate) fn verdict(accepted: Result<(), BoardError>) -> Result<(), HandlerError> {
    match accepted {
        Ok(()) => Ok(()),
        Err(BoardError::Occasion(reason)) => Err(HandlerError::reject(reason)),
        Err(error) => Err(error.into()),
    }
}

impl BoardError {
    /// The same as an error of the one that was worked on, which has to stand aside for a while: the next may well
    /// succeed. None where the database is in trouble, and no other would fare better.
    pub(crate) fn aside(&self) -> Option<Self> {
        match self {
            Self::Occasion(reason) => Some(Self::Occasion(reason.clone())),
            Self::Directory(_) => Some(Self::Directory(why(self).into())),
            Self::Store(error) => match error.kind() {
                StoreErrorKind::Invalid | StoreErrorKind::Other => Some(Self::Occasion(causes(error))),
                _ => None,
            },
            Self::Reused | Self::Duplicates { .. } => None,
        }
    }
}
