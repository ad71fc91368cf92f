//! The suite that every store passes.

use std::sync::Arc;

use postrider_core::{BoxFuture, Console, Event, Payload, Schema, Store, Upkeep};
use postrider_postgres::{Outbox, PgOptions, PgStore};
use postrider_testkit::servers::{Postgres, TestDatabase};
use postrider_testkit::store::{Doomed, StoreCapabilities, StoreHarness, TestOutbox, Writer};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::{Client, NoTls, Transaction};

const SHARDS: u16 = 8;

struct Pg {
    short_reads: bool,
}

impl StoreHarness for Pg {
    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities {
            shards: SHARDS,
            lacks: vec![],
        }
    }

    fn fresh(&self) -> BoxFuture<'_, Box<dyn TestOutbox>> {
        Box::pin(async {
            let outbox = Fresh {
                database: Postgres::shared().database(),
                short_reads: self.short_reads,
            };
            outbox.store().up().await.expect("the tables are made");
            Box::new(outbox) as Box<dyn TestOutbox>
        })
    }
}

struct Fresh {
    database: TestDatabase,
    short_reads: bool,
}

impl Fresh {
    fn store(&self) -> PgStore {
        let options = PgOptions::default().shards(SHARDS).short_reads(self.short_reads);
        PgStore::lazy(&self.database.url, options).expect("the url is read")
    }
}

impl TestOutbox for Fresh {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async { Arc::new(self.store()) as Arc<dyn Store> })
    }

    fn begin(&self) -> BoxFuture<'_, Box<dyn Writer>> {
        Box::pin(async {
            let (client, connection) = tokio_postgres::connect(&self.database.url, NoTls)
                .await
                .expect("a connection");
            tokio::spawn(connection);
            Box::new(Producer::start(client)) as Box<dyn Writer>
        })
    }

    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        Some(Arc::new(self.store()))
    }

    fn console(&self) -> Option<Arc<dyn Console>> {
        Some(Arc::new(self.store()))
    }

    fn doomed(&self) -> Option<Doomed> {
        Some(Doomed {
            test: "conformance::doomed",
            address: self.database.url.clone(),
        })
    }
}

/// Not a test by itself: what a process runs that is to end.
#[test]
fn doomed() {
    postrider_testkit::store::doomed(|url| {
        let store = PgStore::lazy(url, PgOptions::default().shards(SHARDS)).expect("the url is read");
        (Arc::new(store.clone()), Arc::new(store))
    });
}

enum Order {
    Insert(Event, oneshot::Sender<Result<(), String>>),
    /// As another language would: with these headers, as part of this replay.
    Plain(
        Event,
        &'static str,
        Option<String>,
        oneshot::Sender<Result<(), String>>,
    ),
    End {
        commit: bool,
        done: oneshot::Sender<()>,
    },
}

/// A producer in a task of its own, because a transaction borrows its connection.
struct Producer {
    orders: mpsc::UnboundedSender<Order>,
}

impl Producer {
    fn start(client: Client) -> Self {
        let (orders, taken) = mpsc::unbounded_channel();
        tokio::spawn(produce(client, taken));
        Self { orders }
    }

    fn ask(
        &self,
        order: impl FnOnce(oneshot::Sender<Result<(), String>>) -> Order,
    ) -> BoxFuture<'_, Result<(), String>> {
        let (reply, answer) = oneshot::channel();
        let _ = self.orders.send(order(reply));
        Box::pin(async { answer.await.expect("the producer answers") })
    }

    fn end(&self, commit: bool) -> BoxFuture<'static, ()> {
        let (done, answer) = oneshot::channel();
        let _ = self.orders.send(Order::End { commit, done });
        Box::pin(async { answer.await.expect("the producer ends") })
    }
}

async fn produce(mut client: Client, mut orders: mpsc::UnboundedReceiver<Order>) {
    let tx = client.transaction().await.expect("a transaction");
    while let Some(order) = orders.recv().await {
        match order {
            Order::Insert(event, reply) => {
                let enqueued = Outbox::default().enqueue(&tx, &event).await;
                let _ = reply.send(enqueued.map(drop).map_err(|error| error.to_string()));
            }
            Order::Plain(event, headers, replay, reply) => {
                let _ = reply.send(insert_plain(&tx, &event, headers, replay.as_deref()).await);
            }
            Order::End { commit, done } => {
                let ended = if commit {
                    tx.commit().await
                } else {
                    tx.rollback().await
                };
                ended.expect("the transaction ends");
                let _ = done.send(());
                return;
            }
        }
    }
}

impl Writer for Producer {
    fn insert<'a>(&'a mut self, event: &'a Event) -> BoxFuture<'a, Result<(), String>> {
        self.ask(|reply| Order::Insert(event.clone(), reply))
    }

    fn insert_bad<'a>(&'a mut self, event: &'a Event) -> BoxFuture<'a, Result<(), String>> {
        self.ask(|reply| Order::Plain(event.clone(), "{not json", None, reply))
    }

    fn insert_replay<'a>(
        &'a mut self,
        event: &'a Event,
        replay: &'a str,
    ) -> BoxFuture<'a, Result<(), String>> {
        self.ask(|reply| Order::Plain(event.clone(), "{}", Some(replay.to_owned()), reply))
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.end(true)
    }

    fn rollback(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.end(false)
    }
}

async fn insert_plain(
    tx: &Transaction<'_>,
    event: &Event,
    headers: &str,
    replay: Option<&str>,
) -> Result<(), String> {
    let payload = match &event.payload {
        Payload::Text(text) => Some(text.as_str()),
        _ => None,
    };
    let inserted = tx
        .execute(
        "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, event_key, payload, headers, priority,
             replay_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        &[
            &event.id.as_str(),
            &event.event_type,
            &event.aggregate_type,
            &event.aggregate_id,
            &event.key,
            &payload,
            &headers,
            &event.priority,
            &replay,
        ],
    )
    .await;
    inserted.map(drop).map_err(|error| error.to_string())
}

postrider_testkit::store_suite!(Pg { short_reads: true });

/// The short way of a read is taken whenever it does, so without this the long one would be held to little.
mod range_by_range {
    use super::Pg;

    postrider_testkit::store_suite!(Pg { short_reads: false });
}
