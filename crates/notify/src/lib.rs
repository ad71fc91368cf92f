//! Notifications on top of Postrider.
//!
//! Three layers, each of them made of the parts that any service has:
//!
//! 1. Business events in an outbox are carried to a queue per audience, or straight to layer 2 where there is no
//!    broker. A message says what happened; it names no recipients.
//! 2. A listener per audience turns an [`Occasion`] into notifications: recipients, preferences, templates. They are
//!    stored in the transaction of the inbox, one for a user and an event, with what is to be delivered by channel.
//! 3. Each delivery is an event in an outbox of its own, whose destinations are the channels: email, push, and the feed
//!    that is read over HTTP. Retries, dead letters and metrics are those of the relay.

mod address;
pub mod app;
mod board;
mod channel;
mod check;
pub mod deliver;
mod directory;
mod dispatch;
#[cfg(test)]
mod examples;
mod feed;
pub mod http;
mod moment;
mod occasion;
mod people;
mod plan;
#[cfg(feature = "postgres")]
mod postgres;
mod render;
#[cfg(feature = "sqlite")]
mod sqlite;
mod tally;
mod text;
mod worker;
mod workflow;

pub use board::{Accepted, Aside, Board, BoardError, CHUNK, Duplicates, FanOut, Purged, Standing, Step};
pub use channel::Channel;
pub use directory::{Directory, Member, Preference, Preferences, Recipient};
pub use dispatch::Dispatch;
pub use feed::{Delivery, DeliveryState, Entry, Feed, Mark, Notification, Which};
pub use occasion::{Occasion, To};
pub use people::{People, PeopleError};
#[cfg(feature = "postgres")]
pub use postgres::PgBoard;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteBoard;
pub use tally::{Counted, Tally};
pub use worker::{Told, Worker};
pub use workflow::{Audience, Digest, Wording, Workflow, WorkflowError, Workflows};
