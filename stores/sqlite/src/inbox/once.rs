//! An effect of the caller's, once: begin, record, run, commit, and again while the database is busy.

use std::error::Error;

use postrider_core::{OnceError, StoreError, StoreErrorKind, Turns};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::Inbox;
use crate::error;

impl Inbox {
    /// Runs an effect once: begins, records, runs, commits. None when the event has taken effect before. While the
    /// database is busy it is tried again, so the effect must leave nothing behind but what it does in its transaction.
    pub fn once<T, E>(
        &self,
        connection: &mut Connection,
        consumer: &str,
        event_id: &str,
        effect: impl FnMut(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<Option<T>, OnceError<E>> {
        self.once_with_hash(connection, consumer, event_id, None, effect)
    }

    /// The same, with the hash of the payload: see [`Inbox::first_with_hash`].
    pub fn once_with_hash<T, E>(
        &self,
        connection: &mut Connection,
        consumer: &str,
        event_id: &str,
        hash: Option<&str>,
        mut effect: impl FnMut(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<Option<T>, OnceError<E>> {
        let mut turns = Turns::default();
        loop {
            let done = self.attempt(connection, (consumer, event_id, hash), &mut effect);
            let pause = match &done {
                Err(OnceError::Store(error)) if error.kind() == StoreErrorKind::Busy => turns.next(),
                _ => None,
            };
            match pause {
                Some(pause) => std::thread::sleep(pause),
                None => return done,
            }
        }
    }

    fn attempt<T, E>(
        &self,
        connection: &mut Connection,
        (consumer, event_id, hash): (&str, &str, Option<&str>),
        effect: &mut impl FnMut(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<Option<T>, OnceError<E>> {
        let failed = |error| OnceError::Store(self.explain(error, "running an effect once"));
        let tx = begin(connection).map_err(failed)?;
        let first = self.first_with_hash(&tx, consumer, event_id, hash);
        if !first.map_err(OnceError::from)? {
            return Ok(None);
        }
        let done = effect(&tx).map_err(OnceError::Effect)?;
        if tx.is_autocommit() {
            return Err(OnceError::Store(undone()));
        }
        tx.commit().map_err(failed)?;
        Ok(Some(done))
    }
}

/// A deferred transaction that turns into a writer is refused at once, whatever the busy timeout says.
pub(super) fn begin(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

/// What is said of an effect whose transaction is gone: a conflict or a trigger rolled it back, the disk was full, a
/// statement was interrupted, or the effect ended it itself. Its record is gone too.
pub(super) fn undone() -> StoreError {
    let text = "the effect went on after SQLite had rolled its transaction back: nothing is recorded, and what it \
        wrote after that was committed on its own";
    StoreError::new(StoreErrorKind::Other, text).with_advice(
        "let the effect return the error of the statement that failed, and not end its transaction",
    )
}

/// What kind of trouble of a database is behind an error.
pub(super) fn trouble(error: &(dyn Error + 'static)) -> Option<StoreErrorKind> {
    let kind = |one: &(dyn Error + 'static)| {
        let store = one.downcast_ref().map(StoreError::kind);
        store.or_else(|| one.downcast_ref().map(error::kind))
    };
    std::iter::successors(Some(error), |&error| error.source()).find_map(kind)
}
