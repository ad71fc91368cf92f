//! The tests of the PostgreSQL store, in one binary, against a private server.
//!
//! - `conformance`: the suite that every store passes.
//! - `drain`: how fast the statements are, without an engine.

mod common;
mod conformance;
mod drain;
