//! The tests of the SQLite store, in one binary.
//!
//! - `conformance`: the suite that every store passes.
//! - `sql`: what other languages insert, and what people read from the view.
//! - `bad_rows`: rows that are not events.
//! - `faults`: missing tables, full disks, locked and read-only files, two processes.
//! - `schema`: making, printing and removing the tables.
//! - `plans`: how statements find their rows, and how long that takes.
//! - `history`: what it is for, and when it goes.
//! - `crash`: the process ends in the middle of a settle.
//! - `console`: audit, cursors and what the suite leaves open.
//! - `produce`, `inbox`: the sides of services.
//! - `effects`: the suite that every inbox passes.
//! - `transact`: transactions beside it.

mod bad_rows;
mod conformance;
mod console;
mod crash;
mod effects;
mod faults;
mod history;
mod inbox;
mod lifecycle;
mod listing;
mod plans;
mod produce;
mod reset;
mod schema;
mod sql;
mod support;
mod transact;
mod written;
