//! Transactions of a service's own on the connections of its effects.

use std::error::Error;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use postrider_core::{StoreError, StoreErrorKind};
use postrider_postgres::{Inbox, PgEffects, PgOptions};
use postrider_testkit::wait::within;
use tokio::sync::{Barrier, Notify};

use crate::support::{Db, PATIENCE, until};

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

impl From<tokio_postgres::Error> for Failed {
    fn from(error: tokio_postgres::Error) -> Self {
        Failed(error.into())
    }
}

impl Failed {
    fn store(&self) -> &StoreError {
        self.0.downcast_ref().expect("an error of the store")
    }
}

/// A database with two rows to quarrel about, and one connection to it: whoever leaves a transaction open is found out.
fn database(connections: usize) -> (Db, PgEffects) {
    let db = Db::without_tables(PgOptions::default());
    db.sql("CREATE TABLE rows (n integer PRIMARY KEY, v integer)");
    db.sql("INSERT INTO rows VALUES (1, 0), (2, 0)");
    let effects = PgEffects::new(
        &db.database.url,
        PgOptions::default(),
        Inbox::default(),
        connections,
    );
    (db, effects.expect("a url"))
}

async fn add(effects: &PgEffects) -> Result<u64, Failed> {
    let sql = "UPDATE rows SET v = v + 1 WHERE n = 1";
    effects
        .transaction(&sql, |tx, sql| {
            Box::pin(async move { Ok(tx.execute(*sql, &[]).await?) })
        })
        .await
}

const VALUES: &str = "SELECT string_agg(v::text, ',' ORDER BY n) FROM rows";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_is_committed_or_undone_as_it_ends() {
    let (db, effects) = database(1);
    assert_eq!(add(&effects).await.expect("committed"), 1);
    let refused = effects
        .transaction(&(), |tx, ()| {
            Box::pin(async move {
                tx.execute("UPDATE rows SET v = 9", &[]).await?;
                let text = "not today";
                Err::<(), _>(Failed(text.into()))
            })
        })
        .await;
    assert_eq!(refused.expect_err("refused").to_string(), "it failed: not today");
    assert_eq!(add(&effects).await.expect("the connection is as before"), 1);
    assert_eq!(db.sql(VALUES), "2,0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_tried_again() {
    let (db, effects) = database(2);
    let (met, calls) = (Barrier::new(2), AtomicUsize::new(0));
    let cross = async |order: [i32; 2]| {
        let given = (&met, &calls, order);
        let work = effects.transaction(&given, |tx, (met, calls, order)| {
            Box::pin(async move {
                let call = calls.fetch_add(1, Ordering::SeqCst);
                let update = "UPDATE rows SET v = v + 1 WHERE n = $1";
                tx.execute(update, &[&order[0]]).await?;
                if call < 2 {
                    met.wait().await;
                }
                tx.execute(update, &[&order[1]]).await?;
                Ok::<_, Failed>(())
            })
        });
        work.await
    };
    let (one, two) = tokio::join!(cross([1, 2]), cross([2, 1]));
    one.and(two).expect("both are committed");
    assert!(calls.load(Ordering::SeqCst) >= 3, "one of them was refused");
    assert_eq!(db.sql(VALUES), "2,2", "each once");
}

/// PostgreSQL says `ROLLBACK` to the `COMMIT` of a transaction in which a statement failed, and the driver takes that
/// for success.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_passes_over_an_error_is_not_taken_for_committed() {
    let (db, effects) = database(1);
    let careless = effects
        .transaction(&(), |tx, ()| {
            Box::pin(async move {
                tx.execute("UPDATE rows SET v = 9", &[]).await?;
                let _ = tx.execute("INSERT INTO rows VALUES (1, 1)", &[]).await;
                Ok::<_, Failed>(())
            })
        })
        .await;
    let error = careless.expect_err("nothing was committed");
    assert!(error.store().advice().contains("savepoint"), "{error}");
    add(&effects).await.expect("it goes on");
    assert_eq!(db.sql(VALUES), "1,0");
}

/// Whoever does not wait any more leaves neither a transaction nor a lock behind, and the place is free again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_dropped_leaves_no_transaction_open() {
    let (db, effects) = database(1);
    let begun = Notify::new();
    {
        let sleeps = effects.transaction(&begun, |tx, begun| {
            Box::pin(async move {
                tx.execute("UPDATE rows SET v = 9 WHERE n = 1", &[]).await?;
                begun.notify_one();
                tx.execute("SELECT pg_sleep(600)", &[]).await?;
                Ok::<_, Failed>(())
            })
        });
        let mut sleeps = pin!(sleeps);
        tokio::select! {
            ended = &mut sleeps => panic!("it does not end by itself: {ended:?}"),
            () = begun.notified() => {}
        }
    }
    let added = tokio::time::timeout(PATIENCE, add(&effects)).await;
    added.expect("the lock is free").expect("committed");
    let open = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL";
    until("no transaction", || db.number(open) == 0).await;
    assert_eq!(db.sql(VALUES), "1,0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_ends_is_replaced() {
    let (db, effects) = database(1);
    let ended = effects
        .transaction(&(), |tx, ()| {
            Box::pin(async move {
                let sql = "SELECT pg_terminate_backend(pg_backend_pid())";
                tx.execute(sql, &[]).await?;
                Ok::<_, Failed>(())
            })
        })
        .await;
    let error = ended.expect_err("the connection is gone");
    let driver = error.0.downcast_ref().expect("an error of the driver");
    assert_eq!(
        postrider_postgres::error_kind(driver),
        StoreErrorKind::Unreachable
    );
    within(PATIENCE, "it goes on by itself", async || {
        add(&effects).await.ok()
    })
    .await;
    assert_eq!(db.sql(VALUES), "1,0");
}
