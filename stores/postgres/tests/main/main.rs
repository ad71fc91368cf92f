//! The tests of the PostgreSQL store, in one binary, against a private server.
//!
//! - `commit`: commits that are cut, and producers that repeat them.
//! - `conformance`: the suite that every store passes.
//! - `crash`: a server that recovers without a restart.
//! - `console`: what operators see and do, and what a read tells of parked rows.
//! - `effects`: the suite that every inbox passes.
//! - `doorbell`: when it rings, and what is left when a call is dropped.
//! - `late`: transactions that commit late, with two relays.
//! - `inbox`: what stands in the way of an effect that happens once.
//! - `faults`: servers that stop, crash and hang.
//! - `failover`: a standby takes over that had not received everything.
//! - `full`: a full disk below the server.
//! - `history`: what keeps its days, and who drops them.
//! - `large`: rows that are too large to be events.
//! - `log`: what is written to the log.
//! - `login`: which login counts, and one that changes.
//! - `migrate`: tables that are changed while others use them.
//! - `pooler`: behind PgBouncer.
//! - `privileges`: the relay under the role that was printed for it.
//! - `reset`: databases that were changed by hand.
//! - `server`: servers that are not as they should be, and how little is asked of one that is.
//! - `sql`: what other languages insert, and what the tables do by themselves.
//! - `produce`: the sides of services.
//! - `transact`: transactions beside a listener.

mod beside;
mod commit;
mod conformance;
mod console;
mod crash;
mod doorbell;
mod effects;
mod failover;
mod faults;
mod full;
mod history;
mod inbox;
mod inbox_table;
mod large;
mod late;
mod locks;
mod log;
mod login;
mod migrate;
mod near;
mod pooler;
mod privileges;
mod produce;
mod reset;
mod server;
mod sql;
mod support;
mod transact;
