//! A database of its own on a server that the tests share, and what tests say to it.

use std::sync::Arc;

use postrider_core::{Event, Schema};
use postrider_memory::MemorySink;
use postrider_postgres::{Outbox, PgOptions, PgStore};
use postrider_testkit::by_hand;
pub(crate) use postrider_testkit::by_hand::{act, again, decided, event, heartbeat, parks, sent};
use postrider_testkit::servers::{Postgres, TestDatabase};
pub(crate) use postrider_testkit::wait::{PATIENCE, until};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};
use tokio_util::sync::CancellationToken;

/// A relay without an engine, which owns every shard.
pub(crate) type Relay = by_hand::Relay<PgStore>;

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
        Relay::begin(self.store.clone(), name).await
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
        Self::start_into(MemorySink::new(), store)
    }

    pub(crate) fn start_into(sink: MemorySink, store: PgStore) -> Running {
        let token = CancellationToken::new();
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
