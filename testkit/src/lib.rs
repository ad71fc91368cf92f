//! Conformance suites, fault wrappers and the ledger checker of Postrider.
//!
//! - [`model`]: an outbox database in memory, pure and deterministic: what the `Store` contract means.

pub mod model;

pub use model::Model;
