//! The words, the traits with their contracts, errors, envelopes and routes of Postrider.
//!
//! This crate does no I/O and knows no runtime. Stores implement [`Store`], [`Console`] and [`Schema`];
//! brokers implement [`Sink`] and [`Source`]; the relay's engine speaks only in the types of this crate.
//!
//! ```
//! use postrider_core::Event;
//!
//! let event = Event::builder("OrderPlaced")
//!     .aggregate("ORDER", "42")
//!     .json(r#"{"total": 1250}"#)
//!     .header("correlation-id", "req-7")
//!     .build()?;
//! assert_eq!(event.order_key().as_str(), "ORDER\u{1f}42");
//! # Ok::<(), postrider_core::InvalidEvent>(())
//! ```

mod answer;
mod console;
#[doc(hidden)]
pub mod crash;
mod destination;
mod doorbell;
mod effects;
mod envelope;
mod event;
mod filter;
mod fingerprint;
mod inbox;
pub mod json;
mod lease;
mod message;
mod name;
mod nearest;
mod payload;
mod produce;
mod progress;
mod received;
mod records;
mod redact;
mod remedy;
mod retry;
mod route;
mod row;
mod schema;
mod secret;
mod setters;
mod settle;
mod sink;
mod source;
mod store;
mod template;
mod text;
mod time;
mod turns;
mod typed;
mod upkeep;
mod validate;

pub use answer::{Answer, Class, ErrorKind, Failure, Policy, Receipt};
pub use console::{
    Act, AuditEntry, AuditPage, Chunk, Console, Control, Cursor, Edit, EditedAt, EventRecord, Group, Head,
    InForce, Job, JobId, JobKind, JobState, JobVerb, Left, List, Listing, LiveRelay, Moment, NewJob,
    Original, Replay, Restore, Route as RecordedRoute, Scope, Sent, SentPage, Stats, Status, Step, Story,
    Verb, What,
};
pub use destination::{DeadLetter, Destination, DestinationId, Limits};
pub use doorbell::{Doorbell, Ring};
pub use effects::{Applied, ApplyError, Blame, Effects, HandlerError};
pub use envelope::{Envelope, Opened, encode, open};
pub use event::{Event, EventBuilder, Timestamp};
pub use filter::Filter;
pub use fingerprint::fingerprint;
pub use inbox::{FirstError, OnceError, Recorded, ReusedId, refuse_unfit, to_record, unfit_record};
pub use lease::{Controls, Heartbeat, Lease, RelayId, Standing, Suspect, Token};
pub use message::{Address, AddressField, Message, header};
pub use name::{DestinationName, EventId, OrderKey};
pub use nearest::nearest;
pub use payload::Payload;
pub use produce::{EnqueueError, EnqueueErrorKind};
pub use progress::Progress;
pub use received::Received;
pub use records::{InboxConsole, Records, kept_long_enough};
pub use redact::redact_url;
pub use remedy::remedy;
pub use retry::RetryPolicy;
pub use route::{Condition, Delivery, Route, Routed, Router, RouterBuilder, RouterError};
pub use row::{Blocked, Lane, Page, ParkedRange, ParkedRow, QueuedRow, Range, Read, SentBefore, Seq, Shard};
pub use schema::{Migration, Schema, SchemaStatus, knows, wrong_version};
pub use secret::Secret;
pub use settle::{Leaves, Park, Settle, SettleParked, SettleQueued, Settled, Then};
pub use sink::{Capabilities, Sink};
pub use source::{Incoming, Source, SourceError, SourceErrorKind, Verdict};
pub use store::{BoxFuture, Store, StoreError, StoreErrorKind};
pub use template::{Template, TemplateError};
pub use text::{MAX_ERROR_TEXT, causes, inert, is_harmful};
pub use turns::Turns;
pub use typed::DomainEvent;
pub use upkeep::{
    Claim, Duty, HistoryAsk, HistoryPage, HistoryRow, Kept, KnownDuty, PastDuty, Purge, Purged, Upkeep,
};
pub use validate::{InvalidEvent, limits};
