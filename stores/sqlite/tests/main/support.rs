//! A database in a folder of its own, and what tests say to it.

use std::path::PathBuf;
use std::time::Duration;

use postrider_core::{Event, Failure, Park, Read, Schema, Shard};
use postrider_sqlite::{Outbox, SqliteOptions, SqliteStore};
use postrider_testkit::by_hand;
pub(crate) use postrider_testkit::by_hand::{act, again, decided, event, heartbeat, parks, sent};
use rusqlite::Connection;

/// A relay without an engine, which owns the shard.
pub(crate) type Relay = by_hand::Relay<SqliteStore>;

pub(crate) struct Db {
    pub(crate) store: SqliteStore,
    folder: tempfile::TempDir,
}

impl Db {
    pub(crate) async fn new() -> Self {
        Self::with(SqliteOptions::default()).await
    }

    pub(crate) async fn with(options: SqliteOptions) -> Self {
        let db = Self::without_tables(options);
        db.store.up().await.expect("the tables are made");
        db
    }

    pub(crate) fn without_tables(options: SqliteOptions) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SqliteStore::open(folder.path().join("shop.db"), options).expect("a database");
        Self { store, folder }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    /// A connection of a service.
    pub(crate) fn connect(&self) -> Connection {
        let connection = Connection::open(self.path()).expect("a connection");
        connection
            .busy_timeout(Duration::from_secs(5))
            .expect("a time-out");
        connection
    }

    pub(crate) fn sql(&self, sql: &str) {
        self.connect().execute_batch(sql).expect("the statements run");
    }

    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.connect()
            .query_row(sql, [], |row| row.get(0))
            .expect("a number")
    }

    pub(crate) fn text(&self, sql: &str) -> Option<String> {
        self.connect()
            .query_row(sql, [], |row| row.get(0))
            .expect("a text")
    }

    pub(crate) fn enqueue(&self, events: &[Event]) {
        let mut connection = self.connect();
        let tx = connection.transaction().expect("a transaction");
        Outbox::default().enqueue_all(&tx, events).expect("enqueued");
        tx.commit().expect("committed");
    }

    pub(crate) async fn relay(&self, name: &str) -> Relay {
        let relay = Relay::begin(self.store.clone(), name).await;
        assert!(!relay.fence.is_empty(), "the lease is free");
        relay
    }
}

pub(crate) fn everything() -> Read {
    by_hand::everything([Shard(0)])
}

pub(crate) fn dead(destination: &str, failure: Failure) -> Park {
    Park::dead(Some(destination.into()), failure)
}
