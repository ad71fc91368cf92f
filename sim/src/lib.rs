//! The seeded simulator that the engine is proven by.
//!
//! The real engine core runs on a simulated database, brokers and clock. One seed is one run: it decides the
//! workload, the mix of faults and every delay. After a stormy phase all faults end and everything must drain; then
//! promises are checked: nothing lost (L), nothing phantom (P), order per key (O), progress (V), bounds (B), and that
//! repeats are few and marked.
//!
//! ```
//! let outcome = postrider_sim::run(7, None, false);
//! assert_eq!(outcome.violations, Vec::<String>::new());
//! ```

mod bell;
mod bounds;
mod broker;
mod check;
mod copies;
mod database;
mod faults;
mod jobs;
mod judge;
mod lifecycle;
mod liveness;
mod operators;
mod plan;
mod relays;
mod rng;
mod told;
mod trace;
mod verbs;
mod world;
mod writers;

pub use faults::{Fault, Faults};
pub use postrider_relay::engine::Plant;
pub use world::{Outcome, run};
