//! What every board promises, on every store.

#[cfg(feature = "postgres")]
mod postgres;
mod suite;
