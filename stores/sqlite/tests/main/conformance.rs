//! The suite that every store passes.

use std::sync::{Arc, mpsc};
use std::thread;

use postrider_core::{BoxFuture, Console, Event, Schema, Store, Upkeep};
use postrider_sqlite::{Outbox, SqliteOptions, SqliteStore};
use postrider_testkit::store::{Doomed, Feature, StoreCapabilities, StoreHarness, TestOutbox, Writer};
use rusqlite::{Connection, Transaction, params};
use tokio::sync::oneshot;

struct Sqlite;

impl StoreHarness for Sqlite {
    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities {
            shards: 1,
            lacks: vec![(Feature::SeveralWriters, "SQLite has one writer at a time")],
        }
    }

    fn fresh(&self) -> BoxFuture<'_, Box<dyn TestOutbox>> {
        Box::pin(async {
            let folder = tempfile::tempdir().expect("a folder");
            let outbox = File { folder };
            let store = outbox.store();
            store.up().await.expect("the tables are made");
            Box::new(outbox) as Box<dyn TestOutbox>
        })
    }
}

struct File {
    folder: tempfile::TempDir,
}

impl File {
    fn store(&self) -> SqliteStore {
        let path = self.folder.path().join("outbox.db");
        SqliteStore::open(path, SqliteOptions::default()).expect("the database opens")
    }
}

impl TestOutbox for File {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async { Arc::new(self.store()) as Arc<dyn Store> })
    }

    fn begin(&self) -> BoxFuture<'_, Box<dyn Writer>> {
        let connection = Connection::open(self.folder.path().join("outbox.db")).expect("a connection");
        Box::pin(async { Box::new(Producer::start(connection)) as Box<dyn Writer> })
    }

    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        Some(Arc::new(self.store()))
    }

    fn console(&self) -> Option<Arc<dyn Console>> {
        Some(Arc::new(self.store()))
    }

    fn doomed(&self) -> Option<Doomed> {
        let path = self.folder.path().join("outbox.db");
        Some(Doomed {
            test: "conformance::doomed",
            address: path.to_str().expect("a path").to_owned(),
        })
    }
}

/// Not a test by itself: what a process runs that is to end.
#[test]
fn doomed() {
    postrider_testkit::store::doomed(|path| {
        let store = SqliteStore::open(path, SqliteOptions::default()).expect("the database opens");
        (Arc::new(store.clone()), Arc::new(store))
    });
}

type Step = Box<dyn FnOnce(&Transaction<'_>) -> Result<(), String> + Send>;

enum Order {
    Run(Step, oneshot::Sender<Result<(), String>>),
    End { commit: bool, done: oneshot::Sender<()> },
}

/// A producer on a thread of its own, because a transaction of `rusqlite` borrows its connection.
struct Producer {
    orders: mpsc::Sender<Order>,
}

impl Producer {
    fn start(connection: Connection) -> Self {
        let (orders, taken) = mpsc::channel();
        thread::spawn(move || produce(connection, &taken));
        Self { orders }
    }

    fn run(&mut self, step: Step) -> BoxFuture<'_, Result<(), String>> {
        let (reply, answer) = oneshot::channel();
        self.orders
            .send(Order::Run(step, reply))
            .expect("the producer lives");
        Box::pin(async { answer.await.expect("the producer answers") })
    }

    fn end(&self, commit: bool) -> BoxFuture<'static, ()> {
        let (done, answer) = oneshot::channel();
        self.orders
            .send(Order::End { commit, done })
            .expect("the producer lives");
        Box::pin(async { answer.await.expect("the producer ends") })
    }
}

fn produce(mut connection: Connection, orders: &mpsc::Receiver<Order>) {
    let tx = connection.transaction().expect("a transaction");
    for order in orders {
        match order {
            Order::Run(step, reply) => drop(reply.send(step(&tx))),
            Order::End { commit, done } => {
                let ended = if commit { tx.commit() } else { tx.rollback() };
                ended.expect("the transaction ends");
                let _ = done.send(());
                return;
            }
        }
    }
}

impl Writer for Producer {
    fn insert<'a>(&'a mut self, event: &'a Event) -> BoxFuture<'a, Result<(), String>> {
        let event = event.clone();
        self.run(Box::new(move |tx| {
            let enqueued = Outbox::default().enqueue(tx, &event);
            enqueued.map(drop).map_err(|error| error.to_string())
        }))
    }

    fn insert_bad<'a>(&'a mut self, event: &'a Event) -> BoxFuture<'a, Result<(), String>> {
        self.insert_plain(event, "{not json", None)
    }

    fn insert_replay<'a>(
        &'a mut self,
        event: &'a Event,
        replay: &'a str,
    ) -> BoxFuture<'a, Result<(), String>> {
        self.insert_plain(event, "{}", Some(replay))
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.end(true)
    }

    fn rollback(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.end(false)
    }
}

impl Producer {
    /// Inserts as another language would.
    fn insert_plain(
        &mut self,
        event: &Event,
        headers: &'static str,
        replay: Option<&str>,
    ) -> BoxFuture<'_, Result<(), String>> {
        let (event, replay) = (event.clone(), replay.map(str::to_owned));
        self.run(Box::new(move |tx| {
            let payload = String::from_utf8_lossy(event.payload.as_bytes()).into_owned();
            let values = params![
                event.id.as_str(),
                event.event_type,
                event.aggregate_type,
                event.aggregate_id,
                event.key,
                payload,
                headers,
                event.priority,
                replay,
            ];
            let inserted = tx.execute(
                "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, event_key, payload, headers,
                        priority, replay_id)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                values,
            );
            inserted.map(drop).map_err(|error| error.to_string())
        }))
    }
}

postrider_testkit::store_suite!(Sqlite);
