//! The transactional outbox: the library that services depend on.
//!
//! A service that changes its database and tells others about it has two writes to make, and a crash between them makes
//! one of them a lie. With Postrider there is one: the event is inserted beside the business row, in the same
//! transaction. A [`Relay`] then carries it to the brokers that others listen to: at least once, in order for each key,
//! within milliseconds.
//!
//! ```
//! # #[cfg(all(feature = "sqlite", feature = "memory"))]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use postrider::memory::MemorySink;
//! use postrider::sqlite::{Outbox, SqliteOptions, SqliteStore};
//! use postrider::{DomainEvent, Relay, Schema};
//!
//! // A new kind of event is one struct.
//! #[derive(serde::Serialize)]
//! struct OrderPlaced {
//!     order: u64,
//!     total: u64,
//! }
//!
//! impl DomainEvent for OrderPlaced {
//!     const EVENT_TYPE: &'static str = "OrderPlaced";
//!     const AGGREGATE_TYPE: &'static str = "ORDER";
//!     fn aggregate_id(&self) -> String {
//!         self.order.to_string()
//!     }
//! }
//!
//! // The outbox lives in the service's own database.
//! let directory = tempfile::tempdir()?;
//! let path = directory.path().join("shop.db");
//! let store = SqliteStore::open(&path, SqliteOptions::default())?;
//! store.up().await?;
//!
//! // The service commits the order and the event together, or neither.
//! let mut shop = rusqlite::Connection::open(&path)?;
//! shop.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, total INTEGER)")?;
//! let tx = shop.transaction()?;
//! tx.execute("INSERT INTO orders VALUES (42, 1250)", [])?;
//! let id = Outbox::default().enqueue(&tx, &OrderPlaced { order: 42, total: 1250 }.to_event()?)?;
//! tx.commit()?;
//!
//! // What is rolled back is never published.
//! let tx = shop.transaction()?;
//! Outbox::default().enqueue(&tx, &OrderPlaced { order: 43, total: 99 }.to_event()?)?;
//! tx.rollback()?;
//!
//! // A service runs `relay.run(token)` beside its work; a test drains and looks.
//! let sink = MemorySink::new();
//! let relay = Relay::builder().store(Arc::new(store)).sink(Arc::new(sink.clone())).build()?;
//! let report = relay.drain().await;
//! assert_eq!(report.published, 1);
//!
//! let messages = sink.messages();
//! assert_eq!(messages.len(), 1);
//! assert_eq!(messages[0].event_id, id);
//! assert_eq!(messages[0].header("event-type"), Some("OrderPlaced"));
//! assert!(messages[0].body.ends_with(br#""payload":{"order":42,"total":1250}}"#));
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "sqlite", feature = "memory")))]
//! # fn main() {}
//! ```
//!
//! # What is where
//!
//! The words, the traits and the relay are at the root. Every store and broker is a module, and a feature of the same
//! name:
//!
//! | feature | module | on by default |
//! |---|---|---|
//! | `sqlite` | `sqlite`: the outbox in a SQLite file, produced with `rusqlite` | yes |
//! | `postgres` | `postgres`: the outbox in PostgreSQL, produced with `tokio-postgres` | no |
//! | `sqlx`, `diesel-async` | the same, produced with these | no |
//! | `file` | `file`: JSON lines in files and on standard output | yes |
//! | `memory` | `memory`: a broker in memory that tests look into | yes |
//! | `rabbitmq` | `rabbitmq`: RabbitMQ, publishing and consuming | no |
//! | `listener` | `listener`: what a broker delivers takes effect once | no |
//! | `admin` | `admin`: health, statistics and metrics over HTTP | no |
//!
//! # In a service's own tests
//!
//! [`Relay::drain`] publishes everything that is due and returns; `memory::MemorySink` keeps what arrived and fails on
//! request: one message, all messages of a kind, the whole broker, or only the answer.

#[doc(inline)]
pub use postrider_core::*;
#[doc(inline)]
pub use postrider_relay::*;
/// What ends a [`Relay::run`].
pub use tokio_util::sync::CancellationToken;

#[cfg(feature = "admin")]
pub use postrider_admin as admin;
#[cfg(feature = "file")]
pub use postrider_file as file;
#[cfg(feature = "listener")]
pub use postrider_listener as listener;
#[cfg(feature = "memory")]
pub use postrider_memory as memory;
#[cfg(feature = "postgres")]
pub use postrider_postgres as postgres;
#[cfg(feature = "rabbitmq")]
pub use postrider_rabbitmq as rabbitmq;
#[cfg(feature = "sqlite")]
pub use postrider_sqlite as sqlite;
