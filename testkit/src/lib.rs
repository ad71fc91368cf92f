//! Conformance suites, fault wrappers and the ledger checker of Postrider.
//!
//! - [`model`]: an outbox database in memory, pure and deterministic: what the `Store` contract means.
//! - [`store`] and [`sink`]: the suites that every store and every broker passes.
//! - [`faulty`]: scripted faults for any sink and any store.
//! - [`memory`]: the model behind a lock and a clock, as a store.

#[macro_use]
mod suite;

pub mod faulty;
pub mod memory;
pub mod model;
pub mod sink;
pub mod store;

pub use memory::MemoryStore;
pub use model::Model;
