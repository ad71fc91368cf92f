//! The PostgreSQL store of Postrider.

mod clock;
mod config;
mod connect;
mod console;
mod doorbell;
mod error;
mod eye;
mod heads;
mod horizon;
mod ident;
mod lease;
mod operator;
mod produce;
mod read;
mod row;
mod schema;
mod settle;
mod store;
mod tls;

pub use config::{PgOptions, PgTls};
pub use ident::IdentError;
pub use produce::{EnqueueError, EnqueueErrorKind, Outbox};
pub use store::PgStore;
