//! Making, printing and removing the tables.

use postrider_core::{Console, Schema, Store, StoreErrorKind};
use postrider_sqlite::{Outbox, SqliteOptions, SqliteStore};

use crate::support::{Db, event, everything, heartbeat, parks};

#[tokio::test]
async fn calls_before_the_migration_say_what_to_do() {
    let db = Db::without_tables(SqliteOptions::default());
    let errors = [
        db.store.read(everything()).await.expect_err("no tables"),
        db.store.heartbeat(heartbeat("one")).await.expect_err("no tables"),
        db.store.settle(Default::default()).await.expect_err("no tables"),
        db.store.stats().await.expect_err("no tables"),
    ];
    for error in errors {
        assert_eq!(error.kind(), StoreErrorKind::Schema);
        assert!(error.advice().contains("postrider migrate up"), "{error}");
    }
    let status = db.store.status().await.expect("a status");
    assert_eq!((status.installed, status.wanted), (0, 3));
}

#[tokio::test]
async fn up_is_done_once_and_down_takes_everything_away() {
    let db = Db::without_tables(SqliteOptions::default());
    assert_eq!(db.store.up().await.expect("made"), [1, 2, 3]);
    assert_eq!(db.store.up().await.expect("nothing to do"), [] as [u32; 0]);
    let status = db.store.status().await.expect("a status");
    assert_eq!((status.installed, status.queued, status.parked), (3, 0, 0));
    assert_eq!(db.store.down().await.expect("removed"), [3, 2, 1]);
    let left = "SELECT count(*) FROM sqlite_schema WHERE name LIKE '%outbox%'";
    assert_eq!(db.number(left), 0);
    assert_eq!(db.store.up().await.expect("made again"), [1, 2, 3]);
}

#[tokio::test]
async fn down_is_refused_while_rows_would_be_lost() {
    let db = Db::new().await;
    db.enqueue(&[event("a", "k"), event("b", "k"), event("c", "k")]);
    let relay = db.relay("one").await;
    let rows = relay.queued().await;
    let wait = postrider_core::Park::waiting("d".into(), false);
    relay.settle(vec![parks(&rows[0], vec![wait])], vec![]).await;
    let status = db.store.status().await.expect("a status");
    assert_eq!((status.queued, status.parked), (2, 1));
    let error = db.store.down().await.expect_err("refused");
    assert!(error.to_string().contains("2 queued and 1 parked"), "{error}");
    assert_eq!(
        db.store.status().await.expect("a status").installed,
        3,
        "nothing was removed"
    );
}

/// Fault C12. Programs are rolled out behind their migrations, so one of them works on the tables of the next.
#[tokio::test]
async fn a_schema_one_version_ahead_is_worked_on() {
    let db = Db::new().await;
    let wanted = db.store.status().await.expect("a status").wanted;
    db.sql(&format!(
        "INSERT INTO outbox_migrations VALUES ({}, 'the next', 0)",
        wanted + 1
    ));
    db.store.heartbeat(heartbeat("one")).await.expect("a heartbeat");
    db.store.read(everything()).await.expect("a read");
    assert!(db.store.up().await.expect("nothing to do").is_empty());
    assert!(db.store.status().await.expect("a status").is_usable());
}

/// Faults A23, C12 and G12.
#[tokio::test]
async fn a_newer_schema_is_refused_by_every_call() {
    let db = Db::new().await;
    db.sql("INSERT INTO outbox_migrations VALUES (99, 'from the future', 0)");
    let errors = [
        db.store.read(everything()).await.expect_err("newer"),
        db.store.heartbeat(heartbeat("one")).await.expect_err("newer"),
        db.store.up().await.expect_err("newer"),
        db.store.down().await.expect_err("newer"),
    ];
    for error in errors {
        assert_eq!(error.kind(), StoreErrorKind::Schema);
        assert!(error.to_string().contains("version 99, newer"), "{error}");
    }
    assert_eq!(db.store.status().await.expect("a status").installed, 99);
    // An older one names the way out.
    db.sql("DELETE FROM outbox_migrations WHERE version > 1");
    let error = db.store.read(everything()).await.expect_err("older");
    assert!(error.advice().contains("postrider migrate up"), "{error}");
}

/// Fault A24.
#[tokio::test]
async fn several_processes_migrate_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("shop.db");
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let path = path.clone();
            std::thread::spawn(move || {
                let store = SqliteStore::open(path, SqliteOptions::default()).expect("opened");
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .build()
                    .expect("a runtime");
                runtime.block_on(store.up()).expect("migrated")
            })
        })
        .collect();
    let taken: Vec<_> = threads
        .into_iter()
        .flat_map(|thread| thread.join().expect("no panic"))
        .collect();
    assert_eq!(taken, [1, 2, 3], "each step is taken by one of them");
}

#[tokio::test]
async fn what_is_printed_is_what_is_applied() {
    let printed = Db::without_tables(SqliteOptions::default());
    for (n, step) in (1..).zip(printed.store.migrations()) {
        assert_eq!(step.version, n);
        printed.sql(&step.up);
    }
    assert_eq!(printed.store.status().await.expect("a status").installed, 3);
    assert_eq!(printed.store.up().await.expect("nothing to do"), [] as [u32; 0]);
    let applied = Db::new().await;
    let schema = "SELECT group_concat(sql, ';') FROM (SELECT sql FROM sqlite_schema ORDER BY name)";
    assert_eq!(printed.text(schema), applied.text(schema));
    for step in printed.store.migrations().into_iter().rev() {
        printed.sql(&step.down);
    }
    assert_eq!(
        printed.number("SELECT count(*) FROM sqlite_schema WHERE name LIKE '%outbox%'"),
        0
    );
}

#[tokio::test]
async fn another_prefix_is_another_outbox_in_the_same_file() {
    let db = Db::new().await;
    let options = SqliteOptions::default().prefix("Select");
    let other = SqliteStore::open(db.path(), options).expect("a reserved word is quoted");
    other.up().await.expect("made");
    let mut connection = db.connect();
    let tx = connection.transaction().expect("a transaction");
    Outbox::new("Select")
        .expect("a prefix")
        .enqueue(&tx, &event("a", "k"))
        .expect("enqueued");
    tx.commit().expect("committed");
    assert_eq!(other.read(everything()).await.expect("a page").queued.len(), 1);
    assert_eq!(db.store.read(everything()).await.expect("a page").queued.len(), 0);
}

#[test]
fn a_prefix_that_is_no_identifier_is_refused_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = SqliteOptions::default().prefix("out\"box");
    let error = SqliteStore::open(folder.path().join("x.db"), options).expect_err("refused");
    assert!(error.to_string().contains("prefix"), "{error}");
    assert!(!folder.path().join("x.db").exists(), "before any file is made");
}
