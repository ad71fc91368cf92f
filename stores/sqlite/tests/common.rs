//! A database in a folder of its own, and what tests say to it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Event, Failure, Heartbeat, Lane, Leaves, Page, Park, ParkedRange, QueuedRow, Range, Read, Receipt,
    RelayId, Schema, Seq, Settle, SettleParked, SettleQueued, Settled, Shard, Store, Then, Token,
};
use postrider_sqlite::{Outbox, SqliteOptions, SqliteStore};
use rusqlite::Connection;

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
        let beat = heartbeat(name);
        let standing = self.store.heartbeat(beat).await.expect("a heartbeat");
        let token = standing.leases.first().expect("the lease is free").token;
        Relay {
            store: self.store.clone(),
            token,
        }
    }
}

/// A relay that owns the shard.
pub(crate) struct Relay {
    pub(crate) store: SqliteStore,
    pub(crate) token: Token,
}

impl Relay {
    pub(crate) async fn page(&self) -> Page {
        self.store.read(everything()).await.expect("a page")
    }

    pub(crate) async fn queued(&self) -> Vec<QueuedRow> {
        self.page().await.queued
    }

    pub(crate) async fn settle(&self, queued: Vec<SettleQueued>, parked: Vec<SettleParked>) -> Vec<Settled> {
        let settle = Settle {
            fence: vec![(Shard(0), self.token)],
            queued,
            parked,
        };
        self.store.settle(Arc::new(settle)).await.expect("a settle")
    }

    pub(crate) async fn send_all(&self) -> usize {
        let entries: Vec<_> = self.queued().await.iter().map(|row| sent(row, "d")).collect();
        let count = entries.len();
        assert_eq!(self.settle(entries, vec![]).await, vec![Settled::Done; count]);
        count
    }
}

pub(crate) fn heartbeat(name: &str) -> Heartbeat {
    Heartbeat {
        relay: RelayId(name.into()),
        term: Duration::from_secs(60),
        held: vec![],
        release: vec![],
        claim: true,
        window: 7,
        suspects: vec![],
    }
}

pub(crate) fn everything() -> Read {
    let range = |lane| Range {
        shard: Shard(0),
        lane,
        floor: Seq(0),
        skip: vec![],
        limit: 1_000_000,
    };
    Read {
        ranges: Lane::ALL.map(range).to_vec(),
        max_bytes: usize::MAX,
        parked: ParkedRange {
            shards: vec![Shard(0)],
            heads: 1_000,
            ..ParkedRange::default()
        },
        skip_dead: vec![],
    }
}

pub(crate) fn event(id: &str, key: &str) -> Event {
    Event::builder("Tested")
        .id(id)
        .aggregate("THING", "1")
        .key(key)
        .json("{}")
        .build()
        .expect("a valid event")
}

pub(crate) fn decided(row: &QueuedRow, leaves: Leaves) -> SettleQueued {
    SettleQueued {
        shard: row.shard,
        seq: row.seq,
        event_id: row.event_id.clone(),
        key: row.key.clone(),
        leaves,
    }
}

pub(crate) fn sent(row: &QueuedRow, destination: &str) -> SettleQueued {
    let sent = vec![(destination.into(), Receipt(Some("offset 1".into())))];
    decided(row, Leaves::Decided { sent, parked: vec![] })
}

pub(crate) fn parks(row: &QueuedRow, parked: Vec<Park>) -> SettleQueued {
    decided(row, Leaves::Decided { sent: vec![], parked })
}

pub(crate) fn dead(destination: &str, failure: Failure) -> Park {
    Park::dead(Some(destination.into()), failure)
}

pub(crate) fn again(row: &postrider_core::ParkedRow, then: Then) -> SettleParked {
    SettleParked {
        shard: row.row.shard,
        seq: row.row.seq,
        destination: row.destination.clone(),
        version: row.version,
        then,
    }
}
