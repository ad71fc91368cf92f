//! Conformance suites, fault wrappers and the ledger checker of Postrider.
//!
//! - [`model`]: an outbox database in memory, pure and deterministic: what the `Store` contract means.
//! - [`store`], [`sink`], [`source`] and [`inbox`]: the suites that every store, both sides of every broker and every
//!   inbox pass.
//! - [`by_hand`]: a relay without an engine, for tests of a store.
//! - [`effects`]: a database in memory in which effects happen once.
//! - [`faulty`]: scripted faults for any sink and any store.
//! - [`forward`]: consoles that stand before another one.
//! - [`ledger`]: the checker that counts what was lost, invented, doubled and reordered.
//! - [`crash`] and [`process`]: real processes, ended at named points, killed and frozen.
//! - [`servers`] and [`proxy`]: real servers, and a network between them and us that fails on request.
//! - [`wait`] and [`log`]: waiting for conditions instead of sleeping, and looking through what was logged.
//! - [`memory`]: the model behind a lock and a clock, as a store.
//! - [`paged`]: a console whose listings take many pages.

#[macro_use]
mod suite;

pub mod by_hand;
pub mod crash;
pub mod effects;
pub mod faulty;
pub mod forward;
pub mod inbox;
pub mod ledger;
pub mod log;
pub mod memory;
pub mod model;
pub mod paged;
pub mod process;
pub mod proxy;
pub mod servers;
pub mod sink;
pub mod source;
pub mod store;
pub mod wait;

pub use memory::MemoryStore;
pub use model::Model;
