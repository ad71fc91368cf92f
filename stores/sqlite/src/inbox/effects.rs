//! What a listener does with SQLite: deliveries and their effects in one transaction.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;

use postrider_core::{
    Applied, ApplyError, BoxFuture, Effects, HandlerError, InboxConsole, Received, Recorded, StoreError,
    StoreErrorKind, Turns, to_record,
};
use rusqlite::{Connection, ErrorCode, Transaction};

use super::{Inbox, once, record};
use crate::config::SqliteOptions;
use crate::connect::{self, Role, Worker};

/// What is called for each event, with the transaction to work in; [`handler`] makes one of a closure. It runs on a
/// thread of its own and may block; while it runs nobody else writes to the file.
pub type SqliteHandler = dyn Fn(&Received, &Transaction<'_>) -> Result<(), HandlerError> + Send + Sync;

/// A handler of a closure. It must not end the transaction.
///
/// ```
/// let charge = postrider_sqlite::handler(|event, tx| {
///     tx.execute("INSERT INTO charges (order_id) VALUES (?1)", [event.aggregate_id()])?;
///     Ok(())
/// });
/// # let _ = charge;
/// ```
pub fn handler<F>(handle: F) -> Arc<SqliteHandler>
where
    F: Fn(&Received, &Transaction<'_>) -> Result<(), HandlerError> + Send + Sync + 'static,
{
    Arc::new(handle)
}

/// A consumer's database in SQLite, with a connection and a thread of its own. Clones share them: there is one writer
/// to a file, so more would only wait for each other.
#[derive(Clone)]
pub struct SqliteEffects {
    inbox: Arc<Inbox>,
    worker: Worker,
}

impl fmt::Debug for SqliteEffects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteEffects")
            .field("inbox", &self.inbox)
            .finish_non_exhaustive()
    }
}

impl SqliteEffects {
    /// Effects in this file, which is switched to the write-ahead log. Of the options those of the connection count:
    /// how long a write waits for another process, and whether a missing file is made.
    ///
    /// ```
    /// use postrider_sqlite::{Inbox, SqliteEffects, SqliteOptions};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("billing.db");
    /// let effects = SqliteEffects::open(&path, SqliteOptions::default(), Inbox::default())?;
    /// effects.migrate().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions, inbox: Inbox) -> Result<Self, StoreError> {
        let connection = connect::open(path.as_ref(), &options, Role::Writer)?;
        // The tables are the consumer's own, who may count on it: it is on wherever SQLite comes with the driver.
        connection
            .pragma_update(None, "foreign_keys", true)
            .map_err(|error| inbox.explain(error, "opening the consumer's database"))?;
        Ok(Self {
            worker: Worker::spawn("effects", connection, &options)?,
            inbox: Arc::new(inbox),
        })
    }

    /// Makes the table of the inbox where it is missing.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        InboxConsole::migrate(self).await
    }

    pub(super) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    pub(super) fn worker(&self) -> &Worker {
        &self.worker
    }
}

impl Effects for SqliteEffects {
    type Handler = SqliteHandler;

    /// A call that is dropped before its turn is not run; one that has begun is finished.
    fn apply(
        &self,
        consumer: Arc<str>,
        deliveries: Arc<[Received]>,
        handler: Arc<SqliteHandler>,
    ) -> BoxFuture<'_, Result<Vec<Applied>, ApplyError>> {
        Box::pin(async move {
            let mut turns = Turns::default();
            loop {
                let work = Work {
                    inbox: Arc::clone(&self.inbox),
                    consumer: Arc::clone(&consumer),
                    deliveries: Arc::clone(&deliveries),
                    handler: Arc::clone(&handler),
                };
                let doing = "letting an event take effect";
                let called = self
                    .worker
                    .call(doing, move |session| Ok(work.guarded(&mut session.connection)));
                let failed = match called.await {
                    Ok(Ok(Ok(applied))) => return Ok(applied),
                    Ok(Ok(Err(failed))) => failed,
                    // A panic is the caller's, as it would be had the handler run here.
                    Ok(Err(panic)) => resume_unwind(panic),
                    Err(error) => return Err(ApplyError::Store(error)),
                };
                match turns.next().filter(|_| failed.is_busy) {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => return Err(failed.error),
                }
            }
        })
    }
}

/// Why an attempt took no effect.
struct Failed {
    error: ApplyError,
    /// Whether the same again may work at once.
    is_busy: bool,
}

impl From<ApplyError> for Failed {
    fn from(error: ApplyError) -> Self {
        let is_busy = matches!(&error, ApplyError::Store(error) if error.kind() == StoreErrorKind::Busy);
        Self { error, is_busy }
    }
}

/// One attempt, on the thread of the connection.
struct Work {
    inbox: Arc<Inbox>,
    consumer: Arc<str>,
    deliveries: Arc<[Received]>,
    handler: Arc<SqliteHandler>,
}

impl Work {
    /// The transaction is rolled back by unwinding.
    fn guarded(
        &self,
        connection: &mut Connection,
    ) -> Result<Result<Vec<Applied>, Failed>, Box<dyn Any + Send>> {
        catch_unwind(AssertUnwindSafe(|| self.transact(connection)))
    }

    fn transact(&self, connection: &mut Connection) -> Result<Vec<Applied>, Failed> {
        let events = to_record(&self.deliveries)?;
        let tx = once::begin(connection).map_err(|error| self.failed(error))?;
        let marks = record::record(&tx, &self.inbox.tables, &self.consumer, &events);
        let applied = Recorded::applied(marks.map_err(|error| self.failed(error))?)?;
        for (at, (delivery, mark)) in self.deliveries.iter().zip(&applied).enumerate() {
            if *mark == Applied::Now {
                let handled = (self.handler)(delivery, &tx);
                handled.map_err(|error| handler_failed(at, error))?;
                // The next handler would write without a transaction, and without a record.
                if tx.is_autocommit() {
                    return Err(undone(at));
                }
            }
        }
        match tx.commit() {
            Ok(()) => Ok(applied),
            // A constraint that is checked at the commit speaks of what a handler did. The last that ran is named;
            // where there were more than one, each shows what it is when it is tried alone.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                let at = applied.iter().rposition(|one| *one == Applied::Now);
                let (at, error) = (at.unwrap_or(0), error.into());
                Err(ApplyError::Handler { at, error }.into())
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: rusqlite::Error) -> Failed {
        ApplyError::Store(self.inbox.explain(error, "letting an event take effect")).into()
    }
}

/// A handler went on after an error that had undone the transaction. It is known whose: each is looked at on its own.
fn undone(at: usize) -> Failed {
    let undone = once::undone();
    let error = HandlerError::retry(format!("{undone}; {}", undone.advice()));
    ApplyError::Handler { at, error }.into()
}

fn handler_failed(at: usize, error: HandlerError) -> Failed {
    let trouble = error.source().and_then(once::trouble);
    Failed {
        is_busy: trouble == Some(StoreErrorKind::Busy),
        error: ApplyError::of_handler(at, error, trouble),
    }
}
