//! The relay of Postrider: a pure engine and the driver that runs it.
//!
//! [`Relay`] carries the events of one outbox to their destinations. It needs a store and a sink; everything else has a
//! default. [`engine`] is the state machine at its centre: the simulator drives the same code.

mod builder;
mod clock;
mod driver;
pub mod engine;
mod notes;
mod pauses;
mod publish;
mod pulse;
mod settings;
mod voice;

pub use builder::{BuildError, Nudge, Relay, RelayBuilder};
pub use notes::{Observer, Report, Run};
pub use settings::{
    DEFAULT_BATCH_SIZE, DEFAULT_DRAIN_TIMEOUT, DEFAULT_LEASE, DEFAULT_POLL_INTERVAL, DEFAULT_PUBLISH_TIMEOUT,
    DEFAULT_STALLED_AFTER, DEFAULT_WINDOW, DEFAULT_WINDOW_BYTES, Profile, Settings, SettingsError,
};
