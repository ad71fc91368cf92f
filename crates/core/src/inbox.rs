//! Why an effect did not happen, in every store.

use std::fmt;

use crate::StoreError;

/// An effect did not happen; its transaction was rolled back, and the event counts as not seen.
#[derive(Debug)]
pub enum OnceError<E> {
    /// The effect itself failed.
    Effect(E),
    /// The database failed. When that was the commit, whether it took effect is not known: deliver the event again.
    Store(StoreError),
}

impl<E: fmt::Display> fmt::Display for OnceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OnceError::Effect(error) => write!(f, "the effect failed and was rolled back: {error}"),
            OnceError::Store(error) => write!(f, "the inbox could not be used: {error}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for OnceError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OnceError::Effect(error) => Some(error),
            OnceError::Store(error) => Some(error),
        }
    }
}
