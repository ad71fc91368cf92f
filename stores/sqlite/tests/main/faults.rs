//! Files that are missing, locked, full, read-only or damaged; two processes on one file.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_core::{Schema, Settle, Settled, Shard, Store, StoreErrorKind};
use postrider_sqlite::{SqliteOptions, SqliteStore};

use crate::support::{Db, event, everything, heartbeat, sent};

#[test]
fn a_missing_file_is_made_only_when_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("missing.db");
    let careful = SqliteOptions::default().create(false);
    let error = SqliteStore::open(&path, careful).expect_err("not there");
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);
    assert!(error.to_string().contains("missing.db"), "{error}");
    assert!(!path.exists());
    SqliteStore::open(&path, SqliteOptions::default()).expect("made");
    assert!(path.exists());
    let nowhere = folder.path().join("no/such/folder.db");
    let error = SqliteStore::open(nowhere, SqliteOptions::default()).expect_err("no folder");
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);
}

#[test]
fn a_database_in_memory_is_refused() {
    for path in [":memory:", ""] {
        let error = SqliteStore::open(path, SqliteOptions::default()).expect_err("refused");
        assert!(error.to_string().contains("file"), "{error}");
    }
}

#[test]
fn a_file_that_is_no_database_is_called_damaged() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "these are notes, not tables. ".repeat(100)).expect("written");
    let error = SqliteStore::open(&path, SqliteOptions::default()).expect_err("refused");
    assert_eq!(error.kind(), StoreErrorKind::Corrupt);
}

#[tokio::test]
async fn a_read_only_file_is_said_to_be_read_only() {
    use std::io::{Seek, SeekFrom, Write};
    let db = Db::new().await;
    db.enqueue(&[event("a", "k")]);
    let path = db.path();
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("copy.db");
    db.sql("PRAGMA wal_checkpoint(TRUNCATE)");
    std::fs::copy(path, &copy).expect("copied");
    // Permissions do not bind the super-user, but this byte binds SQLite: a write format that it does not know.
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .open(&copy)
        .expect("opened");
    file.seek(SeekFrom::Start(18)).expect("found");
    file.write_all(&[3]).expect("written");
    drop(file);
    let store = SqliteStore::open(&copy, SqliteOptions::default()).expect("opened");
    assert_eq!(
        store.read(everything()).await.expect("a page").queued.len(),
        1,
        "it can be read"
    );
    let error = store.heartbeat(heartbeat("one")).await.expect_err("read-only");
    assert_eq!(error.kind(), StoreErrorKind::ReadOnly, "{error}");
    assert!(error.advice().contains("write access"), "{error}");
}

/// Fault A33.
#[tokio::test]
async fn a_locked_database_is_busy_and_readable() {
    let db = Db::with(SqliteOptions::default().busy_timeout(Duration::from_millis(50))).await;
    let connection = db.connect();
    connection.execute_batch("BEGIN IMMEDIATE").expect("locked");
    let began = Instant::now();
    let error = db.store.heartbeat(heartbeat("one")).await.expect_err("busy");
    assert_eq!(error.kind(), StoreErrorKind::Busy);
    assert!(began.elapsed() >= Duration::from_millis(50), "it waits first");
    assert!(
        db.store.read(everything()).await.is_ok(),
        "a reader never waits for a writer"
    );
    connection.execute_batch("ROLLBACK").expect("unlocked");
    assert!(db.store.heartbeat(heartbeat("one")).await.is_ok());
}

#[tokio::test]
async fn two_processes_share_one_file_and_one_owns_it() {
    let db = Db::new().await;
    let other = SqliteStore::open(db.path(), SqliteOptions::default()).expect("opened");
    db.enqueue(&[event("a", "k")]);
    let owner = db.relay("one").await;
    let standing = other.heartbeat(heartbeat("two")).await.expect("a heartbeat");
    assert!(standing.leases.is_empty());
    let row = other.read(everything()).await.expect("a page").queued.remove(0);
    let settle = |token| {
        Arc::new(Settle {
            fence: vec![(Shard(0), token)],
            queued: vec![sent(&row, "d")],
            parked: vec![],
        })
    };
    let none = postrider_core::Token(0);
    assert_eq!(
        other.settle(settle(none)).await.expect("answered"),
        [Settled::Fenced]
    );
    assert_eq!(
        owner
            .store
            .settle(settle(owner.fence[0].1))
            .await
            .expect("answered"),
        [Settled::Done]
    );
    assert_eq!(
        other.settle(settle(owner.fence[0].1)).await.expect("answered"),
        [Settled::Gone]
    );
}

/// Fault A1.
#[tokio::test]
async fn a_transaction_that_rolls_back_leaves_nothing() {
    let db = Db::new().await;
    let mut connection = db.connect();
    let tx = connection.transaction().expect("a transaction");
    postrider_sqlite::Outbox::default()
        .enqueue(&tx, &event("a", "k"))
        .expect("enqueued");
    assert_eq!(
        db.store.read(everything()).await.expect("a page").queued.len(),
        0,
        "not before the commit"
    );
    tx.rollback().expect("rolled back");
    assert_eq!(db.store.read(everything()).await.expect("a page").queued.len(), 0);
    assert_eq!(db.store.status().await.expect("a status").queued, 0);
}
