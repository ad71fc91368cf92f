//! The suite that every inbox passes, and what only a file does.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Applied, ApplyError, Blame, BoxFuture, Effects, InboxConsole, Received, Records, StoreErrorKind,
};
use postrider_sqlite::{Inbox, SqliteEffects, SqliteHandler, SqliteOptions, handler};
use postrider_testkit::inbox::{
    Applies, COMMITS, EffectsHarness, ROLLS_BACK, Script, TRIPS, TestInbox, received,
};
use rusqlite::{Connection, TransactionBehavior};

struct Sqlite;

impl EffectsHarness for Sqlite {
    fn fresh(&self) -> BoxFuture<'_, Box<dyn TestInbox>> {
        Box::pin(async { Box::new(Fresh::new()) as Box<dyn TestInbox> })
    }
}

struct Fresh {
    folder: tempfile::TempDir,
}

impl Fresh {
    fn new() -> Self {
        let fresh = Self {
            folder: tempfile::tempdir().expect("a folder"),
        };
        let connection = fresh.connect();
        Inbox::default().migrate(&connection).expect("the table is made");
        let sql = "CREATE TABLE effects (n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT)";
        connection.execute_batch(sql).expect("a table of effects");
        fresh
    }

    fn connect(&self) -> Connection {
        Connection::open(self.folder.path().join("billing.db")).expect("a connection")
    }

    fn effects(&self, options: SqliteOptions) -> SqliteEffects {
        let path = self.folder.path().join("billing.db");
        SqliteEffects::open(path, options, Inbox::default()).expect("opened")
    }
}

impl TestInbox for Fresh {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Applies>> {
        let effects = self.effects(SqliteOptions::default());
        Box::pin(async { Arc::new(Handles(effects)) as Arc<dyn Applies> })
    }

    fn effects(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async {
            let connection = self.connect();
            let mut statement = connection
                .prepare("SELECT id FROM effects ORDER BY n")
                .expect("a table");
            let ids = statement.query_map([], |row| row.get(0)).expect("effects");
            ids.collect::<Result<_, _>>().expect("ids")
        })
    }

    fn console(&self) -> BoxFuture<'_, Arc<dyn InboxConsole>> {
        let effects = self.effects(SqliteOptions::default());
        Box::pin(async { Arc::new(effects) as Arc<dyn InboxConsole> })
    }

    fn count(&self, records: Records) -> BoxFuture<'_, u64> {
        let counted = Inbox::default().count(&self.connect(), &records);
        Box::pin(async { counted.expect("a number") })
    }

    fn forget(&self, records: Records) -> BoxFuture<'_, u64> {
        let gone = Inbox::default().forget_all(&self.connect(), &records);
        Box::pin(async { gone.expect("forgotten") })
    }

    fn age(&self, id: &'static str, by: Duration) -> BoxFuture<'_, ()> {
        let sql = "UPDATE inbox SET processed_at = processed_at - CAST(?2 * 1000000 AS INTEGER) WHERE event_id = ?1";
        let aged = self.connect().execute(sql, (id, by.as_secs_f64()));
        Box::pin(async { assert!(aged.expect("aged") > 0) })
    }
}

struct Handles(SqliteEffects);

impl Applies for Handles {
    fn most(&self) -> usize {
        self.0.most()
    }

    fn apply(
        &self,
        consumer: &str,
        deliveries: Vec<Received>,
        script: Arc<Script>,
    ) -> BoxFuture<'_, Result<Vec<Applied>, ApplyError>> {
        // The handler is on a thread of its own, and what a script waits for is on this runtime.
        let runtime = tokio::runtime::Handle::current();
        let handler = handler(move |event, tx| {
            tx.execute("INSERT INTO effects (id) VALUES (?1)", [event.event_id()])?;
            match event.event_id() {
                TRIPS => {
                    let again = "INSERT OR ROLLBACK INTO inbox (consumer, event_id)
                        SELECT consumer, event_id FROM inbox";
                    assert!(tx.execute(again, []).is_err(), "it is there already");
                }
                ROLLS_BACK => tx.execute_batch("ROLLBACK")?,
                COMMITS => tx.execute_batch("COMMIT")?,
                _ => {}
            }
            runtime.block_on(script(event))
        });
        self.0.apply(consumer.into(), deliveries.into(), handler)
    }
}

postrider_testkit::inbox_suite!(Sqlite);

fn inserts() -> Arc<SqliteHandler> {
    handler(|event, tx| {
        tx.execute("INSERT INTO effects (id) VALUES (?1)", [event.event_id()])?;
        Ok(())
    })
}

async fn apply(effects: &SqliteEffects, handler: Arc<SqliteHandler>) -> Result<Vec<Applied>, ApplyError> {
    let deliveries = Arc::new([received("a")]);
    effects.apply("billing".into(), deliveries, handler).await
}

/// Fault A33. Somebody else writes for longer than this connection waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_file_is_tried_again() {
    let fresh = Fresh::new();
    let effects = fresh.effects(SqliteOptions::default().busy_timeout(Duration::from_millis(1)));
    let mut other = fresh.connect();
    let held = other
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .expect("the lock");
    let mut applying = tokio::spawn(async move { apply(&effects, inserts()).await });
    // What does not happen cannot be waited for: in this time there are several attempts.
    let early = tokio::time::timeout(Duration::from_millis(100), &mut applying).await;
    assert!(early.is_err(), "it neither ended nor failed: {early:?}");
    held.commit().expect("released");
    assert_eq!(applying.await.expect("no panic").unwrap(), [Applied::Now]);
}

/// Fault D15. A handler that meets a full disk is not to blame, unless others take effect meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_costs_no_event_an_attempt() {
    let fresh = Fresh::new();
    let effects = fresh.effects(SqliteOptions::default());
    let full = handler(|_, tx| {
        tx.query_row("PRAGMA max_page_count = 1", [], |_| Ok(()))?;
        tx.execute("INSERT INTO effects (id) VALUES (hex(zeroblob(100000)))", [])?;
        Ok(())
    });
    match apply(&effects, full).await {
        Err(ApplyError::Handler { at: 0, error }) => assert_eq!(error.blamed(), Blame::Unclear, "{error}"),
        other => panic!("the disk is full: {other:?}"),
    }
    let heals = handler(|_, tx| {
        tx.query_row("PRAGMA max_page_count = 1000000", [], |_| Ok(()))?;
        tx.execute("INSERT INTO effects (id) VALUES ('a')", [])?;
        Ok(())
    });
    assert_eq!(apply(&effects, heals).await.unwrap(), [Applied::Now]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_consumers_own_constraints_hold() {
    let fresh = Fresh::new();
    let sql =
        "CREATE TABLE orders (id INTEGER PRIMARY KEY); CREATE TABLE lines (o INTEGER REFERENCES orders)";
    fresh.connect().execute_batch(sql).expect("tables");
    for when in ["OFF", "ON"] {
        let wrong = handler(move |_, tx| {
            tx.pragma_update(None, "defer_foreign_keys", when)?;
            tx.execute("INSERT INTO lines VALUES (7)", [])?;
            Ok(())
        });
        let failed = apply(&fresh.effects(SqliteOptions::default()), wrong).await;
        assert!(
            matches!(failed, Err(ApplyError::Handler { at: 0, .. })),
            "{when}: {failed:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_table_is_said_and_may_come() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("new.db");
    let effects = SqliteEffects::open(&path, SqliteOptions::default(), Inbox::default()).expect("opened");
    match apply(&effects, inserts()).await {
        Err(ApplyError::Store(error)) => {
            assert_eq!(error.kind(), StoreErrorKind::Schema);
            assert!(error.advice().contains("inbox migrate"), "{}", error.advice());
        }
        other => panic!("there is no table: {other:?}"),
    }
    effects.migrate().await.expect("the table is made");
    let nothing = handler(|_, _| Ok(()));
    assert_eq!(apply(&effects, nothing).await.unwrap(), [Applied::Now]);
    let refused = SqliteEffects::open(
        folder.path().join("none.db"),
        SqliteOptions::default().create(false),
        Inbox::default(),
    );
    assert_eq!(refused.expect_err("no file").kind(), StoreErrorKind::Unreachable);
}
