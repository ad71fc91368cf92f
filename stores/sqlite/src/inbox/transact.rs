//! A transaction of the caller's on the connection of the effects: begin, run, commit, and again while it is busy.

use std::any::Any;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use postrider_core::{StoreError, StoreErrorKind, Turns};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::{SqliteEffects, once};
use crate::error::store_error;

impl SqliteEffects {
    /// Runs work in a transaction of its own, without a record in the inbox: for what a service does beside its
    /// listener, on the same connection and with the same care. It is committed when the work succeeds and undone when
    /// it fails or panics.
    ///
    /// While the file is busy it is run again, so it must leave nothing behind but what it does in its transaction, and
    /// it must not end that. A call that is dropped before its turn is not run; one that has begun is finished.
    ///
    /// ```
    /// use postrider_core::{StoreError, StoreErrorKind};
    /// use postrider_sqlite::{Inbox, SqliteEffects, SqliteOptions, error_kind};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("shop.db");
    /// let effects = SqliteEffects::open(&path, SqliteOptions::default(), Inbox::default())?;
    /// let said = |error| StoreError::new(error_kind(&error), "opening the shop failed").with_source(error);
    /// effects.transaction(move |tx| tx.execute_batch("CREATE TABLE shops (open INTEGER)").map_err(said)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn transaction<T, E>(
        &self,
        work: impl Fn(&Transaction<'_>) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: Error + From<StoreError> + Send + 'static,
    {
        self.turns(TransactionBehavior::Immediate, work).await
    }

    /// The same for work that only reads: it sees one state of the database, and waits for nobody who writes from
    /// another process.
    pub async fn read<T, E>(
        &self,
        work: impl Fn(&Transaction<'_>) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: Error + From<StoreError> + Send + 'static,
    {
        self.turns(TransactionBehavior::Deferred, work).await
    }

    async fn turns<T, E>(
        &self,
        behavior: TransactionBehavior,
        work: impl Fn(&Transaction<'_>) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: Error + From<StoreError> + Send + 'static,
    {
        let (mut turns, work) = (Turns::default(), Arc::new(work));
        loop {
            let work = Arc::clone(&work);
            let call = move |connection: &mut Connection| guarded(connection, behavior, &*work);
            let called = self.worker().call("running a transaction", move |session| {
                Ok(call(&mut session.connection))
            });
            let error = match called.await? {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(error)) => error,
                // A panic is the caller's, as it would be had the work run here.
                Err(panic) => resume_unwind(panic),
            };
            let is_busy = once::trouble(&error) == Some(StoreErrorKind::Busy);
            match turns.next().filter(|_| is_busy) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(error),
            }
        }
    }
}

/// The transaction is rolled back by unwinding.
fn guarded<T, E: From<StoreError>>(
    connection: &mut Connection,
    behavior: TransactionBehavior,
    work: &dyn Fn(&Transaction<'_>) -> Result<T, E>,
) -> Result<Result<T, E>, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(|| transact(connection, behavior, work)))
}

fn transact<T, E: From<StoreError>>(
    connection: &mut Connection,
    behavior: TransactionBehavior,
    work: &dyn Fn(&Transaction<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let said = |error| store_error(error, "running a transaction");
    let tx = connection.transaction_with_behavior(behavior).map_err(said)?;
    let done = work(&tx)?;
    if tx.is_autocommit() {
        return Err(once::undone().into());
    }
    tx.commit().map_err(said)?;
    Ok(done)
}
