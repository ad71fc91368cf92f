//! The shop of the demo: each thing that happens is one transaction with its own row and the event, or neither.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use postrider_core::{Event, StoreError, StoreErrorKind, Timestamp};
use postrider_notify::http::Send;
use postrider_notify::{BoardError, Occasion, To};
use postrider_relay::Nudge;
use postrider_sqlite::Outbox;
use rusqlite::{Connection, TransactionBehavior, params};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::sample::{AUDIENCES, KINDS, Kind, payload};
use crate::failure::Failure;

/// One transaction in this many rolls back on purpose, with its event in it.
const ROLLBACK_EVERY: u64 = 20;
/// One thing in this many is told to everybody.
const BROADCAST_EVERY: u64 = 10;
/// How far the shop may fall behind its rate and still catch up.
const MAX_DEBT: Duration = Duration::from_millis(100);

const TABLE: &str = "
CREATE TABLE happened (
    event_id   TEXT PRIMARY KEY,
    event_type TEXT NOT NULL,
    user_id    TEXT, -- none: everybody of the audience
    audience   TEXT NOT NULL,
    resource   TEXT, -- what it is about, where that makes a second one a duplicate
    at         INTEGER NOT NULL
) STRICT;";

pub struct Shop {
    connection: Connection,
    outbox: Outbox,
    /// Woken after each commit, once there is one.
    pub relay: Option<Nudge>,
    pub rolled_back: u64,
    random: u64,
    orders: u64,
}

/// One thing that happens.
struct Happening {
    event_id: Option<String>,
    event_type: String,
    audience: String,
    /// None: everybody of the audience.
    user: Option<String>,
    resource: Option<String>,
    payload: Map<String, Value>,
}

impl Shop {
    pub fn open(path: &Path) -> Result<Shop, Failure> {
        let connection = Connection::open(path).map_err(failed)?;
        connection.busy_timeout(Duration::from_secs(10)).map_err(failed)?;
        connection.execute_batch(TABLE).map_err(failed)?;
        Ok(Shop {
            connection,
            outbox: Outbox::default(),
            relay: None,
            rolled_back: 0,
            random: 0x9e37_79b9_7f4a_7c15,
            orders: 0,
        })
    }

    /// Something happens to somebody, or to everybody.
    fn next(&mut self) -> Result<(), Failure> {
        self.orders += 1;
        let broadcast = self.random().is_multiple_of(BROADCAST_EVERY);
        let kinds: Vec<&Kind> = KINDS.iter().filter(|kind| kind.broadcast == broadcast).collect();
        let kind = self.pick(&kinds);
        let people = AUDIENCES.iter().find(|(name, _)| *name == kind.audience);
        let people = people.map_or(&[][..], |(_, people)| people);
        let (user, follower) = (self.pick(people), self.pick(AUDIENCES[0].1));
        let give_up = self.random().is_multiple_of(ROLLBACK_EVERY);
        let happening = Happening {
            event_id: None,
            event_type: kind.event_type.to_owned(),
            audience: kind.audience.to_owned(),
            user: (!kind.broadcast).then(|| user.0.to_owned()),
            resource: kind.resource.map(|_| follower.1.to_owned()),
            payload: payload(self.orders, follower.1),
        };
        self.happen(happening, give_up)
    }

    /// The whole of what a service does: its own row and the event, in its own transaction.
    fn happen(&mut self, it: Happening, give_up: bool) -> Result<(), Failure> {
        let mut payload = it.payload;
        let (kind, aggregate) = match &it.user {
            Some(user) => ("USER", user.as_str()),
            None => ("BROADCAST", "everybody"),
        };
        payload.insert("recipientType".to_owned(), kind.into());
        let mut event = Event::builder(&it.event_type)
            .aggregate(&it.audience, aggregate)
            .payload(&payload);
        if let Some(id) = &it.event_id {
            event = event.id(id.as_str());
        }
        let event = event.build()?;
        let tx = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        let insert = "INSERT INTO happened (event_id, event_type, user_id, audience, resource, at)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let (id, now) = (event.id.as_str(), Timestamp::now().0);
        let row = params![id, it.event_type, it.user, it.audience, it.resource, now];
        tx.execute(insert, row).map_err(failed)?;
        self.outbox
            .enqueue(&tx, &event)
            .map_err(|error| Failure::backend("the demo's shop cannot enqueue").because(&error))?;
        if give_up {
            // The card was declined, say: nobody may ever be told.
            self.rolled_back += 1;
            return tx.rollback().map_err(failed);
        }
        tx.commit().map_err(failed)?;
        if let Some(relay) = &self.relay {
            relay.nudge();
        }
        Ok(())
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random() as usize % of.len()]
    }

    /// Xorshift: the demo needs variety, not randomness.
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 11
    }
}

/// Lets things happen at a rate, on a thread of its own, until it is stopped.
pub fn start(shop: Arc<Mutex<Shop>>, rate: u32, stop: CancellationToken) -> JoinHandle<Result<(), Failure>> {
    thread::spawn(move || {
        let pause = Duration::from_secs(1) / rate;
        let mut due = Instant::now();
        while !stop.is_cancelled() {
            shop.lock().unwrap_or_else(PoisonError::into_inner).next()?;
            due = (due + pause).max(Instant::now().checked_sub(MAX_DEBT).unwrap_or(due));
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        Ok(())
    })
}

/// What the buttons of the page do: the same as the shop itself.
pub fn sender(shop: Arc<Mutex<Shop>>) -> Send {
    Arc::new(move |occasion: Occasion| {
        let shop = Arc::clone(&shop);
        Box::pin(async move {
            let happening = of(occasion);
            let done = tokio::task::spawn_blocking(move || {
                let mut shop = shop.lock().unwrap_or_else(PoisonError::into_inner);
                shop.happen(happening, false)
            });
            let refused = |text: String| BoardError::Store(StoreError::new(StoreErrorKind::Other, text));
            match done.await {
                Ok(done) => done.map_err(|failure| refused(failure.to_string())),
                Err(error) => Err(refused(error.to_string())),
            }
        })
    })
}

fn of(occasion: Occasion) -> Happening {
    let kind = KINDS.iter().find(|kind| kind.event_type == occasion.event_type);
    let follower = occasion.payload.get("follower").and_then(Value::as_str);
    let resource = kind
        .and_then(|kind| kind.resource)
        .and(follower)
        .map(str::to_owned);
    let user = match occasion.to {
        To::User(user) => Some(user),
        To::Topic(_) => None,
    };
    Happening {
        event_id: Some(occasion.event_id),
        event_type: occasion.event_type,
        audience: occasion.audience,
        user,
        resource,
        payload: occasion.payload,
    }
}

fn failed(error: rusqlite::Error) -> Failure {
    Failure::backend("the demo's shop cannot use its database").because(&error)
}
