//! An effect of the caller's, once: begin, record, run, commit, and again where that may help.

use std::error::Error;

use postrider_core::{OnceError, StoreError, StoreErrorKind, Turns};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Transaction};

use super::Inbox;
use crate::error;

impl Inbox {
    /// Runs an effect once: begins, records, runs, commits. None when the event has taken effect before. After a
    /// serialisation failure, a deadlock or a lock that could not be had it is tried again, so the effect must leave
    /// nothing behind but what it does in its transaction.
    pub async fn once<T, E>(
        &self,
        client: &mut Client,
        consumer: &str,
        event_id: &str,
        effect: impl AsyncFnMut(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<Option<T>, OnceError<E>>
    where
        E: Error + 'static,
    {
        self.once_with_hash(client, consumer, event_id, None, effect)
            .await
    }

    /// The same, with the hash of the payload: see [`Inbox::first_with_hash`].
    pub async fn once_with_hash<T, E>(
        &self,
        client: &mut Client,
        consumer: &str,
        event_id: &str,
        hash: Option<&str>,
        mut effect: impl AsyncFnMut(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<Option<T>, OnceError<E>>
    where
        E: Error + 'static,
    {
        let mut turns = Turns::default();
        loop {
            let done = self
                .attempt(client, (consumer, event_id, hash), &mut effect)
                .await;
            let may_pass = match &done {
                Err(OnceError::Store(error)) => is_passing(error),
                Err(OnceError::Effect(error)) => is_passing(error),
                Err(OnceError::Reused(_)) | Ok(_) => false,
            };
            if !may_pass || !may_take(&mut turns).await {
                return done;
            }
        }
    }

    async fn attempt<T, E>(
        &self,
        client: &mut Client,
        (consumer, event_id, hash): (&str, &str, Option<&str>),
        effect: &mut impl AsyncFnMut(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<Option<T>, OnceError<E>> {
        let failed = |error| OnceError::Store(self.explain(error, "running an effect once"));
        let tx = client.transaction().await.map_err(failed)?;
        let first = self.first_with_hash(&tx, consumer, event_id, hash).await;
        if !first.map_err(OnceError::from)? {
            return Ok(None);
        }
        let done = effect(&tx).await.map_err(OnceError::Effect)?;
        match commit(tx).await {
            Ok(()) => Ok(Some(done)),
            Err(error) => match undone(error.code()) {
                Some(undone) => Err(OnceError::Store(undone.with_source(error))),
                None => Err(failed(error)),
            },
        }
    }
}

/// What fails in front of a commit that would be none. To `COMMIT` in a transaction that a failed statement has undone
/// PostgreSQL answers with `ROLLBACK`, and where there is none any more with a warning; the driver takes both for
/// success. An effect that passes over an error, or ends its transaction, would be lost: the record that it happened is
/// nowhere, and its message acknowledged.
pub(super) const BEFORE_COMMIT: &str = "SAVEPOINT postrider_before_commit";

/// Commits, or says that it was not to be.
pub(super) async fn commit(tx: Transaction<'_>) -> Result<(), tokio_postgres::Error> {
    tx.batch_execute(&format!("{BEFORE_COMMIT}; COMMIT")).await?;
    // It is over, and its destructor would end it once more.
    std::mem::forget(tx);
    Ok(())
}

/// Whether a constraint was violated.
pub(super) fn is_violation(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|state| state.code().starts_with("23"))
}

/// What is said of a transaction that could not be committed, if it was the effect that had undone or ended it.
pub(super) fn undone(state: Option<&SqlState>) -> Option<StoreError> {
    let (text, advice) = match state {
        Some(state) if *state == SqlState::IN_FAILED_SQL_TRANSACTION => (
            "the effect went on after one of its statements had failed, and PostgreSQL undoes the whole transaction \
             then: nothing was committed",
            "let the effect return the error, or put the statement that may fail behind a savepoint",
        ),
        Some(state) if *state == SqlState::NO_ACTIVE_SQL_TRANSACTION => (
            "the effect ended its transaction: what came before that is committed or gone as it said, with the \
             record of the event, and what came after it was committed statement by statement",
            "let the effect not end its transaction (COMMIT or ROLLBACK): whoever called it does",
        ),
        _ => return None,
    };
    Some(StoreError::new(StoreErrorKind::Other, text).with_advice(advice))
}

/// Whether trying the same transaction again may help: another one stood in the way. The error counts, and what is
/// behind it. A statement that took too long is not among them: it would take as long again.
pub(super) fn is_passing(error: &(dyn Error + 'static)) -> bool {
    let stood_in_the_way = |error: &tokio_postgres::Error| {
        let state = error.code().map(SqlState::code);
        matches!(state, Some("40001" | "40P01" | "55P03"))
    };
    chain(error).any(|one| one.downcast_ref().is_some_and(stood_in_the_way))
}

/// What kind of trouble of a database is behind an error.
pub(super) fn trouble(error: &(dyn Error + 'static)) -> Option<StoreErrorKind> {
    chain(error).find_map(|one| one.downcast_ref().map(error::kind))
}

pub(super) fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// Waits for the next turn; false when there is none.
pub(super) async fn may_take(turns: &mut Turns) -> bool {
    match turns.next() {
        Some(pause) => tokio::time::sleep(pause).await,
        None => return false,
    }
    true
}
