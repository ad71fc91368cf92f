//! Conformance suites, fault wrappers and the ledger checker of Postrider.
//!
//! - [`model`]: an outbox database in memory, pure and deterministic: what the `Store` contract means.
//! - [`memory`]: the model behind a lock and a clock, as a store.

pub mod memory;
pub mod model;
pub mod store;

pub use memory::MemoryStore;
pub use model::Model;
