//! The PostgreSQL store of Postrider.
//!
//! The outbox lives in the service's own database. A service enqueues inside its own transaction with an [`Outbox`]; a
//! relay empties the outbox through a [`PgStore`]; a consumer records what has taken effect with an [`Inbox`].
//!
//! ```no_run
//! use postrider_core::{Console, Event, Schema};
//! use postrider_postgres::{Outbox, PgOptions, PgStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let url = "postgres://shop@127.0.0.1/shop";
//! let store = PgStore::connect(url, PgOptions::default()).await?;
//! store.up().await?;
//!
//! // The service: one transaction holds the business row and the event.
//! let (mut client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
//! tokio::spawn(connection);
//! let tx = client.transaction().await?;
//! tx.execute("INSERT INTO orders (id, total) VALUES (42, 1250)", &[]).await?;
//! let placed = Event::builder("OrderPlaced").aggregate("ORDER", 42).json(r#"{"total": 1250}"#).build()?;
//! Outbox::default().enqueue(&tx, &placed).await?;
//! tx.commit().await?;
//!
//! assert_eq!(store.stats().await?.queued, 1);
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
//! SELECT outbox_send('OrderPlaced', 'ORDER', '42', '{"total": 1250}');
//! ```
//!
//! `event_id` null: the database makes a time-ordered UUID. A row that is not a valid event is accepted, and parked
//! with its reason. People and monitoring read the view `outbox_events`: one row an event, in its worst state.
//!
//! # Poolers
//!
//! The relay keeps prepared statements and settings in its sessions. Behind a pooler that gives every transaction to
//! another session, name a direct way in [`PgOptions::listen_url`], or set [`PgOptions::poll_only`]: with either,
//! nothing is prepared or set on a session of the pooler, and with the first there is a doorbell too. A service that
//! prepares transactions for two-phase commit needs `poll_only` too: PostgreSQL refuses to prepare one that has rung.

mod clock;
mod config;
mod connect;
mod console;
mod decode;
mod doorbell;
mod durability;
mod error;
mod growth;
mod heads;
mod horizon;
mod ident;
mod identity;
mod inbox;
mod lease;
mod near;
mod operator;
mod overdue;
#[cfg(test)]
mod plans;
mod produce;
mod read;
mod row;
mod schema;
mod session;
mod settle;
mod size;
mod store;
mod supervise;
pub mod testing;
mod tls;
mod upkeep;
mod write;

pub use config::{PgOptions, PgTls};
pub use error::kind as error_kind;
pub use ident::IdentError;
pub use inbox::{Inbox, PgEffects, PgHandler, handler};
#[cfg(feature = "sqlx")]
pub use inbox::{SqlxPgEffects, SqlxPgHandler, sqlx_handler};
pub use postrider_core::{
    EnqueueError, EnqueueErrorKind, FirstError, OnceError, Recorded, Records, ReusedId,
};
pub use produce::Outbox;
pub use store::PgStore;
