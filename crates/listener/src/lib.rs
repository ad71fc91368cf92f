//! The listener of Postrider: what a broker delivers takes effect once.
//!
//! A [`Listener`] reads a [`Source`](postrider_core::Source) and applies every event through an
//! [`Effects`](postrider_core::Effects), which keeps the record of the event and its effect in one transaction. A
//! message is acknowledged after that transaction is committed and never before, so that a crash at any point repeats
//! the delivery and not the effect.
//!
//! What can happen to a message, and nothing else:
//!
//! - It takes effect, or had taken effect before: it is acknowledged.
//! - The handler fails: it is tried again in this process, with growing pauses, and the followers of its key wait.
//! - It cannot be opened, the handler rejects it, its attempts are used up, it was delivered too often, or its id
//!   belongs to another event: it goes to the dead letters with the reason, and is acknowledged once it is there.
//! - The database is away: nothing more is received until it is back, and no attempt is charged.
//! - The process ends: the broker delivers it again.
//!
//! ```
//! use std::sync::Arc;
//!
//! use postrider_core::{Address, Received};
//! use postrider_listener::{DeadLetters, Listener};
//! use postrider_memory::MemorySink;
//! use postrider_testkit::effects::{MemoryEffects, Work};
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! #[derive(serde::Deserialize)]
//! struct OrderPlaced {
//!     total: u64,
//! }
//!
//! let (queue, dead) = (MemorySink::queue(1_000), MemorySink::new());
//! let listener = Listener::builder(Arc::new(queue.source()), MemoryEffects::new())
//!     .consumer("billing")
//!     .handler(Arc::new(|event: Received, work: Work| {
//!         Box::pin(async move {
//!             let order: OrderPlaced = event.json()?;
//!             work.write(format!("invoice over {}", order.total));
//!             Ok(())
//!         })
//!     }))
//!     .dead_letters(DeadLetters::to(Arc::new(dead), Address::default()))
//!     .build()?;
//!
//! let token = CancellationToken::new();
//! let running = tokio::spawn({
//!     let (listener, token) = (listener.clone(), token.clone());
//!     async move { listener.run(token).await }
//! });
//! // … and when the service is told to stop:
//! token.cancel();
//! let report = running.await?;
//! assert_eq!(report.effects, 0);
//! # Ok(())
//! # }
//! ```

mod builder;
mod calls;
mod delivery;
mod desk;
mod direct;
mod health;
mod keep;
mod letter;
mod note;
mod outage;
mod shift;
mod verdict;

pub use builder::{BuildError, Listener, ListenerBuilder, Order, Replays};
pub use calls::{Call, CallError, Calls};
pub use direct::Direct;
pub use health::Health;
pub use keep::Keep;
pub use letter::{Cause, DeadLetters, Reason};
pub use note::{Note, Observer, Report};
