//! A consumer with an inbox: each event's effect happens once, in the transaction that records it.

use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use postrider_core::{Incoming, Source, Verdict};
use postrider_memory::MemorySource;
use postrider_sqlite::Inbox;
use rusqlite::{Connection, TransactionBehavior, params};
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::board::Board;
use crate::failure::Failure;

/// The name under which the inbox records what took effect.
const NAME: &str = "shipping";
/// Messages of one transaction: under load the commits are shared, without load nobody waits for more.
const BATCH: usize = 64;

/// `arrival` is the log of deliveries in the order they came, doubles included; `shipment` is the effect. Neither has a
/// unique key: a double must show in the account, not be refused here.
const TABLES: &str = "
CREATE TABLE arrival (
    n        INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id TEXT NOT NULL,
    customer TEXT NOT NULL,
    place    INTEGER NOT NULL
) STRICT;
CREATE TABLE shipment (id INTEGER PRIMARY KEY, event_id TEXT NOT NULL, customer TEXT NOT NULL) STRICT;";

/// The message, as far as this consumer cares.
#[derive(Deserialize)]
struct Body {
    payload: Order,
}

#[derive(Deserialize)]
struct Order {
    customer: String,
    place: i64,
}

pub struct Consumer {
    connection: Connection,
    inbox: Inbox,
    source: MemorySource,
    board: Arc<Board>,
}

impl Consumer {
    pub fn open(path: &Path, source: MemorySource, board: Arc<Board>) -> Result<Consumer, Failure> {
        let connection = super::open(path)?;
        connection.execute_batch(TABLES).map_err(failed)?;
        let inbox = Inbox::default();
        inbox
            .migrate(&connection)
            .map_err(|error| Failure::store("inbox", &error))?;
        Ok(Consumer {
            connection,
            inbox,
            source,
            board,
        })
    }

    /// Consumes on a thread of its own, until it is stopped.
    pub fn start(mut self, stop: CancellationToken) -> JoinHandle<Result<(), Failure>> {
        let runtime = Handle::current();
        thread::spawn(move || {
            while let Some(received) = runtime.block_on(stop.run_until_cancelled(self.source.receive(BATCH)))
            {
                let batch =
                    received.map_err(|error| Failure::backend("the demo's broker").because(&error))?;
                self.board.arrived(batch.len());
                let effects = self.take_effect(&batch)?;
                let now = Instant::now();
                effects
                    .iter()
                    .for_each(|event_id| self.board.effect(event_id, now));
                // Only after the commit: a message is not given up before its effect is safe.
                let done = batch
                    .iter()
                    .map(|incoming| (incoming.tag, Verdict::Done))
                    .collect();
                runtime
                    .block_on(self.source.settle(done))
                    .map_err(|error| Failure::backend("the demo's broker").because(&error))?;
            }
            Ok(())
        })
    }

    /// Logs every arrival and makes each new event take effect, in one transaction.
    fn take_effect<'a>(&mut self, batch: &'a [Incoming]) -> Result<Vec<&'a str>, Failure> {
        let tx = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        let mut effects = Vec::with_capacity(batch.len());
        for incoming in batch {
            let event_id = incoming.message.event_id.as_str();
            let body: Body = serde_json::from_slice(&incoming.message.body).map_err(|error| {
                Failure::backend("the demo's consumer cannot read a message").because(&error)
            })?;
            let Order { customer, place } = body.payload;
            tx.prepare_cached("INSERT INTO arrival (event_id, customer, place) VALUES (?1, ?2, ?3)")
                .and_then(|mut it| it.execute(params![event_id, customer, place]))
                .map_err(failed)?;
            let first = self
                .inbox
                .first(&tx, NAME, event_id)
                .map_err(|error| Failure::store("inbox", &error))?;
            if first {
                tx.prepare_cached("INSERT INTO shipment (event_id, customer) VALUES (?1, ?2)")
                    .and_then(|mut it| it.execute(params![event_id, customer]))
                    .map_err(failed)?;
                effects.push(event_id);
            }
        }
        tx.commit().map_err(failed)?;
        Ok(effects)
    }
}

fn failed(error: rusqlite::Error) -> Failure {
    Failure::backend("the demo's consumer cannot use its database").because(&error)
}
