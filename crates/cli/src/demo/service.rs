//! A small order service: each order is one transaction that commits the order and its event, or neither.

use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use postrider_core::{DomainEvent, EventId};
use postrider_relay::Nudge;
use postrider_sqlite::Outbox;
use rusqlite::{Connection, TransactionBehavior, params};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::board::Board;
use crate::failure::Failure;

/// One transaction in this many rolls back on purpose, with its event in it.
const ROLLBACK_EVERY: u64 = 20;
/// Keys that order is kept by.
const CUSTOMERS: u64 = 16;
/// How far the service may fall behind its rate and still catch up, so that one slow disk write is not a burst.
const MAX_DEBT: Duration = Duration::from_millis(100);

const TABLES: &str = "
CREATE TABLE customers (customer TEXT PRIMARY KEY, orders INTEGER NOT NULL) STRICT;
CREATE TABLE orders (
    id       INTEGER PRIMARY KEY,
    customer TEXT NOT NULL,
    place    INTEGER NOT NULL, -- 1 for the customer's first order, and so on
    kind     TEXT NOT NULL,
    total    INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    UNIQUE (customer, place)
) STRICT;";

/// What both kinds of event carry.
#[derive(Serialize)]
struct Order {
    order: i64,
    customer: String,
    place: i64,
    total: i64,
}

macro_rules! order_event {
    ($name:ident) => {
        #[derive(Serialize)]
        #[serde(transparent)]
        struct $name(Order);

        impl DomainEvent for $name {
            const EVENT_TYPE: &'static str = stringify!($name);
            const AGGREGATE_TYPE: &'static str = "ORDER";

            fn aggregate_id(&self) -> String {
                self.0.order.to_string()
            }

            // A customer's orders arrive in the order they were placed.
            fn key(&self) -> Option<String> {
                Some(self.0.customer.clone())
            }
        }
    };
}

order_event!(DeliveryOrdered);
order_event!(PickupOrdered);

pub struct Service {
    connection: Connection,
    outbox: Outbox,
    board: Arc<Board>,
    relay: Nudge,
    random: u64,
}

impl Service {
    pub fn open(path: &Path, board: Arc<Board>, relay: Nudge) -> Result<Service, Failure> {
        let connection = super::open(path)?;
        connection.execute_batch(TABLES).map_err(failed)?;
        for n in 0..CUSTOMERS {
            connection
                .execute("INSERT INTO customers VALUES (?1, 0)", [customer(n)])
                .map_err(failed)?;
        }
        Ok(Service {
            connection,
            outbox: Outbox::default(),
            board,
            relay,
            random: 0x9e37_79b9_7f4a_7c15,
        })
    }

    /// Takes orders at a rate, on a thread of its own, until it is stopped.
    pub fn start(mut self, rate: u32, stop: CancellationToken) -> JoinHandle<Result<(), Failure>> {
        thread::spawn(move || {
            let pause = Duration::from_secs(1) / rate;
            let mut due = Instant::now();
            while !stop.is_cancelled() {
                self.take_order()?;
                due = (due + pause).max(Instant::now().checked_sub(MAX_DEBT).unwrap_or(due));
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            Ok(())
        })
    }

    fn take_order(&mut self) -> Result<(), Failure> {
        let (customer, total) = (
            customer(self.random() % CUSTOMERS),
            500 + i64::from(self.random() as u16 % 9_500),
        );
        let (pickup, give_up) = (
            self.random().is_multiple_of(3),
            self.random().is_multiple_of(ROLLBACK_EVERY),
        );
        let tx = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        let event_id = place_order(&tx, &self.outbox, customer, total, pickup)?;
        if give_up {
            // The card was declined, say: neither the order nor its event may ever be seen.
            tx.rollback().map_err(failed)?;
            self.board.rolled_back();
        } else {
            tx.commit().map_err(failed)?;
            self.board.committed(event_id.as_str());
            self.relay.nudge();
        }
        Ok(())
    }

    /// Xorshift: the demo needs variety, not randomness.
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 11
    }
}

fn customer(n: u64) -> String {
    format!("customer-{n:02}")
}

/// The whole of what a service does: its own rows and the event, in its own transaction.
fn place_order(
    tx: &rusqlite::Transaction<'_>,
    outbox: &Outbox,
    customer: String,
    total: i64,
    pickup: bool,
) -> Result<EventId, Failure> {
    let count = "UPDATE customers SET orders = orders + 1 WHERE customer = ?1 RETURNING orders";
    let place: i64 = tx
        .prepare_cached(count)
        .and_then(|mut it| it.query_row([&customer], |row| row.get(0)))
        .map_err(failed)?;
    let insert = "INSERT INTO orders (customer, place, kind, total, event_id) VALUES (?1, ?2, ?3, ?4, '')";
    let kind = if pickup {
        PickupOrdered::EVENT_TYPE
    } else {
        DeliveryOrdered::EVENT_TYPE
    };
    let order = tx
        .prepare_cached(insert)
        .and_then(|mut it| it.insert(params![customer, place, kind, total]))
        .map_err(failed)?;
    let order = Order {
        order,
        customer,
        place,
        total,
    };
    let id = order.order;
    let event = if pickup {
        PickupOrdered(order).to_event()
    } else {
        DeliveryOrdered(order).to_event()
    }?;
    tx.prepare_cached("UPDATE orders SET event_id = ?1 WHERE id = ?2")
        .and_then(|mut it| it.execute(params![event.id.as_str(), id]))
        .map_err(failed)?;
    outbox
        .enqueue(tx, &event)
        .map_err(|error| Failure::backend("the demo's service cannot enqueue").because(&error))
}

fn failed(error: rusqlite::Error) -> Failure {
    Failure::backend("the demo's service cannot use its database").because(&error)
}
