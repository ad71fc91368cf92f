//! The SQLite store of Postrider: the embedded default.
//!
//! The outbox lives in the service's own database file. A service enqueues inside its own transaction with an
//! [`Outbox`]; a relay empties the outbox through a [`SqliteStore`]; a consumer records what has taken effect with an
//! [`Inbox`].
//!
//! ```
//! use postrider_core::{Event, Schema, Stats, Console};
//! use postrider_sqlite::{Outbox, SqliteOptions, SqliteStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("shop.db");
//! let store = SqliteStore::open(&path, SqliteOptions::default())?;
//! store.up().await?;
//!
//! // The service: one transaction holds the business row and the event.
//! let mut connection = rusqlite::Connection::open(&path)?;
//! let tx = connection.transaction()?;
//! tx.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, total INTEGER)")?;
//! tx.execute("INSERT INTO orders VALUES (42, 1250)", [])?;
//! let placed = Event::builder("OrderPlaced").aggregate("ORDER", 42).json(r#"{"total": 1250}"#).build()?;
//! Outbox::default().enqueue(&tx, &placed)?;
//! tx.commit()?;
//!
//! let stats: Stats = store.stats().await?;
//! assert_eq!(stats.queued, 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Producing from another language
//!
//! One `INSERT` into `outbox` in the producer's own transaction is the whole contract; every column but the first three
//! of this one may be left out or be null:
//!
//! ```sql
//! INSERT INTO outbox (event_type, aggregate_type, aggregate_id, payload)
//! VALUES ('OrderPlaced', 'ORDER', '42', '{"total": 1250}');
//! ```
//!
//! `event_id` null: the id is the random identity of this outbox and the place of the row, `<identity>-<seq>`, the
//! same at every attempt. `available_at` and `created_at` take ISO 8601 text (UTC without an offset) and numbers of
//! seconds, milliseconds or microseconds since 1970. A row that is not a valid event is accepted, and parked with its
//! reason. People and monitoring read the view `outbox_events`: one row an event, in its worst state.

mod clock;
mod config;
mod connect;
mod console;
mod decode;
mod doorbell;
mod errand;
mod error;
mod heads;
mod hold;
mod ident;
mod inbox;
mod lease;
mod patience;
#[cfg(test)]
mod plans;
mod produce;
mod read;
mod row;
mod schema;
mod settle;
mod store;
pub mod testing;
mod timed;
mod upkeep;
mod write;

pub use config::SqliteOptions;
pub use error::kind as error_kind;
pub use ident::IdentError;
pub use inbox::{Inbox, SqliteEffects, SqliteHandler, handler};
pub use postrider_core::{
    EnqueueError, EnqueueErrorKind, FirstError, OnceError, Recorded, Records, ReusedId,
};
pub use produce::Outbox;
pub use store::SqliteStore;
