//! A database of its own on a server that the tests share, and what tests say to it.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Event, Heartbeat, Lane, Leaves, Page, Park, ParkedRange, ParkedRow, QueuedRow, Range, Read, Receipt,
    RelayId, Schema, Seq, Settle, SettleParked, SettleQueued, Settled, Shard, Store, Then, Token,
};
use postrider_memory::MemorySink;
use postrider_postgres::{Outbox, PgOptions, PgStore};
use postrider_testkit::servers::{Postgres, TestDatabase};
pub(crate) use postrider_testkit::wait::{PATIENCE, until};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};
use tokio_util::sync::CancellationToken;

pub(crate) struct Db {
    pub(crate) store: PgStore,
    pub(crate) database: TestDatabase,
}

impl Db {
    pub(crate) async fn new() -> Self {
        Self::with(few_shards()).await
    }

    pub(crate) async fn with(options: PgOptions) -> Self {
        let db = Self::without_tables(options);
        db.store.up().await.expect("the tables are made");
        db
    }

    pub(crate) fn without_tables(options: PgOptions) -> Self {
        let database = Postgres::shared().database();
        let store = PgStore::lazy(&database.url, options).expect("a url");
        Self { store, database }
    }

    /// Another handle, as another process has it.
    pub(crate) fn open(&self, options: PgOptions) -> PgStore {
        PgStore::lazy(&self.database.url, options).expect("a url")
    }

    /// A connection of a service.
    pub(crate) async fn connect(&self) -> Client {
        connect(&self.database.url).await
    }

    pub(crate) fn sql(&self, sql: &str) -> String {
        Postgres::shared().sql(&self.database.name, sql)
    }

    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.sql(sql).parse().expect("a number")
    }

    pub(crate) async fn enqueue(&self, events: &[Event]) {
        let mut client = self.connect().await;
        let tx = client.transaction().await.expect("a transaction");
        Outbox::default()
            .enqueue_all(&tx, events)
            .await
            .expect("enqueued");
        tx.commit().await.expect("committed");
    }

    pub(crate) async fn relay(&self, name: &str) -> Relay {
        let standing = self.store.heartbeat(heartbeat(name)).await.expect("a heartbeat");
        let fence = standing
            .leases
            .iter()
            .map(|lease| (lease.shard, lease.token))
            .collect();
        Relay {
            store: self.store.clone(),
            fence,
        }
    }
}

/// A relay of the engine at work, from a store into the memory.
pub(crate) struct Running {
    pub(crate) sink: MemorySink,
    token: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) fn start(store: PgStore) -> Running {
        let (sink, token) = (MemorySink::new(), CancellationToken::new());
        let relay = postrider_relay::Relay::builder()
            .store(Arc::new(store))
            .sink(Arc::new(sink.clone()))
            .build()
            .expect("a relay");
        let ends = token.clone();
        let task = tokio::spawn(async move {
            relay.run(ends).await;
        });
        Running { sink, token, task }
    }

    /// What has arrived, in its order.
    pub(crate) fn ids(&self) -> Vec<String> {
        let messages = self.sink.messages();
        messages
            .iter()
            .map(|message| message.event_id.to_string())
            .collect()
    }

    /// Waits until so many have arrived, repeats among them.
    pub(crate) async fn arrived(&self, count: usize) {
        let arrived = self.sink.wait_for(count, PATIENCE).await;
        arrived.unwrap_or_else(|few| panic!("{few}"));
    }

    pub(crate) async fn stop(self) {
        self.token.cancel();
        self.task.await.expect("the relay ends");
    }
}

pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// The defaults, with few shards: most tests read all of them in one go.
pub(crate) fn few_shards() -> PgOptions {
    PgOptions::default().shards(4)
}

/// A relay that owns every shard.
pub(crate) struct Relay {
    pub(crate) store: PgStore,
    pub(crate) fence: Vec<(Shard, Token)>,
}

impl Relay {
    pub(crate) fn everything(&self) -> Read {
        let ranges = self.fence.iter().flat_map(|(shard, _)| {
            Lane::ALL.map(|lane| Range {
                shard: *shard,
                lane,
                floor: Seq(0),
                skip: vec![],
                limit: 1_000_000,
            })
        });
        Read {
            ranges: ranges.collect(),
            max_bytes: usize::MAX,
            parked: ParkedRange {
                shards: self.fence.iter().map(|(shard, _)| *shard).collect(),
                heads: 1_000,
                ..ParkedRange::default()
            },
            skip_dead: vec![],
        }
    }

    pub(crate) async fn page(&self) -> Page {
        self.store.read(self.everything()).await.expect("a page")
    }

    /// Everything queued, by place.
    pub(crate) async fn queued(&self) -> Vec<QueuedRow> {
        let mut rows = self.page().await.queued;
        rows.sort_by_key(|row| row.seq);
        rows
    }

    pub(crate) async fn settle(&self, queued: Vec<SettleQueued>, parked: Vec<SettleParked>) -> Vec<Settled> {
        let settle = Settle {
            fence: self.fence.clone(),
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

pub(crate) fn again(row: &ParkedRow, then: Then) -> SettleParked {
    SettleParked {
        shard: row.row.shard,
        seq: row.row.seq,
        destination: row.destination.clone(),
        version: row.version,
        then,
    }
}
