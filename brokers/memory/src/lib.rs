//! An in-memory destination of Postrider, for tests and demos.
//!
//! A [`MemorySink`] keeps what is published to it, in order, and lets a test look at it, wait for it and have it fail.
//! A [`MemorySource`] of it consumes the same messages as a queue would deliver them. Clones of a sink are handles to
//! one and the same broker, so that a test keeps one and gives another to the relay.
//!
//! ```
//! # use std::time::Duration;
//! use postrider_core::{ErrorKind, Sink};
//! use postrider_memory::MemorySink;
//!
//! # async fn example(message: postrider_core::Message) -> Result<(), Box<dyn std::error::Error>> {
//! let sink = MemorySink::new();
//! sink.fail_next(ErrorKind::Rejected);
//! // … hand sink.clone() to a relay, commit an event, and see it arrive at the second attempt:
//! let messages = sink.wait_for(1, Duration::from_secs(5)).await?;
//! assert_eq!(messages[0].header("event-type"), Some("OrderPlaced"));
//! # Ok(())
//! # }
//! ```
//!
//! **Memory.** [`MemorySink::new`] keeps every message until [`MemorySink::clear`], which is what a test wants.
//! [`MemorySink::queue`] keeps at most a number of messages, forgets those that a consumer is done with, and takes no
//! more while it is full: publishing waits, nothing is dropped.

mod queue;
mod script;
mod sink;
mod source;

pub use sink::{MemorySink, TooFew};
pub use source::MemorySource;

/// The same, where it is seen as a broker with both its sides.
pub type MemoryBroker = MemorySink;
