//! What every board promises, on every store.

#[cfg(feature = "sqlite")]
mod sqlite;
mod suite;
