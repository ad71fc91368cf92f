//! The tests of the PostgreSQL store, in one binary, against a private server.
//!
//! - `conformance`: the suite that every store passes.
//! - `console`: what operators see and do, and what a read tells of parked rows.
//! - `doorbell`: when it rings, and what is left when a call is dropped.
//! - `late`: transactions that commit late, with two relays.
//! - `faults`: servers that stop, crash and hang.
//! - `pooler`: behind PgBouncer.
//! - `privileges`: the relay under the role that was printed for it.
//! - `reset`: databases that were changed by hand.
//! - `server`: servers that are not as they should be, and how little is asked of one that is.
//! - `sql`: what other languages insert, and what the tables do by themselves.
//! - `produce`: the sides of services.

mod common;
mod conformance;
mod console;
mod doorbell;
mod faults;
mod late;
mod locks;
mod pooler;
mod privileges;
mod produce;
mod reset;
mod server;
mod sql;
