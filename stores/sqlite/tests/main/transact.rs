//! Transactions of a service's own on the connection of its effects.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider_core::{StoreError, StoreErrorKind};
use postrider_sqlite::{Inbox, SqliteEffects, SqliteOptions};
use rusqlite::Connection;

/// The error of a service.
#[derive(Debug)]
struct Failed(Box<dyn Error + Send + Sync>);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it failed: {}", self.0)
    }
}

impl Error for Failed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Failed(error.into())
    }
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Failed(error.into())
    }
}

struct Shop {
    folder: tempfile::TempDir,
}

impl Shop {
    fn new() -> Self {
        let shop = Self {
            folder: tempfile::tempdir().expect("a folder"),
        };
        let sql = "PRAGMA journal_mode = WAL; CREATE TABLE rows (n INTEGER PRIMARY KEY)";
        shop.connect().execute_batch(sql).expect("a table");
        shop
    }

    fn connect(&self) -> Connection {
        Connection::open(self.folder.path().join("shop.db")).expect("a connection")
    }

    /// With a connection that gives up at once: to wait is the transaction's business.
    fn effects(&self) -> SqliteEffects {
        let options = SqliteOptions::default().busy_timeout(Duration::from_millis(1));
        SqliteEffects::open(self.folder.path().join("shop.db"), options, Inbox::default()).expect("opened")
    }

    fn rows(&self) -> i64 {
        let count = self
            .connect()
            .query_row("SELECT count(*) FROM rows", [], |row| row.get(0));
        count.expect("a count")
    }
}

#[tokio::test]
async fn what_succeeds_is_committed_and_what_fails_is_undone() {
    let shop = Shop::new();
    let effects = shop.effects();
    let done = effects.transaction(|tx| Ok::<_, Failed>(tx.execute("INSERT INTO rows VALUES (1)", [])?));
    assert_eq!(done.await.expect("committed"), 1);
    let failed = effects.transaction(|tx| {
        tx.execute("INSERT INTO rows VALUES (2)", [])?;
        Ok::<_, Failed>(tx.execute("INSERT INTO rows VALUES (1)", [])?)
    });
    let error = failed.await.expect_err("the second is refused");
    assert!(
        error.0.is::<rusqlite::Error>(),
        "it is the error of the work: {error}"
    );
    assert_eq!(shop.rows(), 1);
}

#[tokio::test]
async fn a_panic_reaches_the_caller_and_leaves_nothing() {
    let shop = Shop::new();
    let effects = shop.effects();
    let other = effects.clone();
    let panicked = tokio::spawn(async move {
        let work = other.transaction(|tx| {
            tx.execute("INSERT INTO rows VALUES (1)", [])?;
            match tx.changes() {
                1 => panic!("a bug"),
                _ => Ok::<_, Failed>(()),
            }
        });
        work.await
    });
    assert!(panicked.await.expect_err("it panicked").is_panic());
    assert_eq!(shop.rows(), 0);
    let goes_on = effects.transaction(|tx| Ok::<_, Failed>(tx.execute("INSERT INTO rows VALUES (1)", [])?));
    assert_eq!(goes_on.await.expect("the same goes on"), 1);
}

/// Somebody else writes for longer than the connection waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_file_is_waited_for() {
    let shop = Shop::new();
    let effects = shop.effects();
    let holder = shop.connect();
    holder.execute_batch("BEGIN IMMEDIATE").expect("held");
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let waiting = tokio::spawn({
        let effects = effects.clone();
        async move {
            let work = effects.transaction(move |tx| {
                counted.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Failed>(tx.execute("INSERT INTO rows VALUES (1)", [])?)
            });
            work.await
        }
    });
    // A reader waits for nobody.
    let reader = shop.effects();
    let read = reader.read(|tx| {
        let count = tx.query_row("SELECT count(*) FROM rows", [], |row| row.get::<_, i64>(0));
        Ok::<_, Failed>(count?)
    });
    assert_eq!(read.await.expect("read"), 0);
    assert!(!waiting.is_finished());
    holder.execute_batch("ROLLBACK").expect("let go");
    assert_eq!(waiting.await.expect("no panic").expect("in the end"), 1);
    assert_eq!(
        tries.load(Ordering::SeqCst),
        1,
        "the work begins when it has the lock"
    );
}

/// The work itself meets the lock, behind an error of the service's own: all of it is run again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_meets_the_lock_is_run_again() {
    let shop = Shop::new();
    let (effects, holder) = (shop.effects(), std::sync::Mutex::new(Some(shop.connect())));
    holder
        .lock()
        .expect("mine")
        .as_ref()
        .expect("there")
        .execute_batch("BEGIN IMMEDIATE")
        .expect("held");
    // A transaction that begins with a read and turns to write is refused while another writes.
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let work = effects.read(move |tx| {
        let _: i64 = tx.query_row("SELECT count(*) FROM rows", [], |row| row.get(0))?;
        if counted.fetch_add(1, Ordering::SeqCst) == 1 {
            // It is let go while the second try runs, and the third finds it free.
            holder.lock().expect("mine").take();
        }
        Ok::<_, Failed>(tx.execute("INSERT INTO rows VALUES (1)", [])?)
    });
    assert_eq!(work.await.expect("in the end"), 1);
    assert!(tries.load(Ordering::SeqCst) >= 2);
    assert_eq!(shop.rows(), 1);
}

#[tokio::test]
async fn work_that_ends_its_transaction_is_an_error() {
    let shop = Shop::new();
    let effects = shop.effects();
    let ended = effects.transaction(|tx| Ok::<_, Failed>(tx.execute_batch("ROLLBACK")?));
    let error = ended.await.expect_err("it was ended");
    let store = error
        .0
        .downcast_ref::<StoreError>()
        .expect("an error of the store");
    assert_eq!(store.kind(), StoreErrorKind::Other);
}
