//! What an operator asks a running relay over HTTP: is it alive, is it healthy, how much waits, how fast does it go.
//!
//! [`Admin`] watches relays and answers `/health/live`, `/health/ready`, `/health/outbox`, `/health/listener`, `/stats`
//! and `/metrics`. The binary serves it for `postrider run` and `postrider listen`; a service that embeds a relay
//! merges [`Admin::router`] into its own, or calls [`Admin::serve`].
//!
//! ```no_run
//! # use std::sync::Arc;
//! # async fn example(store: Arc<postrider_testkit::MemoryStore>, sink: Arc<dyn postrider_core::Sink>)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! use postrider_admin::{Admin, Options};
//! use postrider_relay::Relay;
//! use tokio_util::sync::CancellationToken;
//!
//! let admin = Admin::new(Options::default());
//! let relay = Relay::builder().store(store.clone()).sink(sink).observer(admin.observer()).build()?;
//! admin.watch(&relay, store);
//!
//! let stop = CancellationToken::new();
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:7787").await?;
//! tokio::spawn(admin.serve(listener, stop.clone()));
//! relay.run(stop).await;
//! # Ok(())
//! # }
//! ```
//!
//! Nothing here is on the way of an event: a slow or hostile client, a full table or a missing database makes an answer
//! late or wrong, never a publish.

mod admin;
mod dial;
mod document;
mod gauges;
mod guard;
mod health;
mod lasting;
mod listeners;
mod listening;
mod metrics;
mod notified;
mod rate;
mod router;
mod sample;
mod series;
mod serve;
mod webhook;

pub use admin::{Admin, Options};
pub use dial::Dial;
pub use guard::{RefusedAddress, check_address, has_token, names_this_machine};
pub use health::{FailingCall, Health, Level, OpenCircuit, Reason, Seen, Thresholds, Trouble, judge, look};
pub use notified::Notified;
pub use serve::Serving;
pub use webhook::{Answered, Unanswered, Webhook};
