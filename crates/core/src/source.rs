//! The consuming side of a broker.

use crate::{BoxFuture, Message, StoreErrorKind};

/// A message on its way to a handler, not yet acknowledged.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The message as it was published.
    pub message: Message,
    /// Names this delivery to [`Source::settle`]; worthless after a reconnect.
    pub tag: u64,
    /// How often it was delivered before, as far as the broker tells.
    pub redelivered: u32,
}

/// What a consumer decided about a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its effect is committed: never deliver it again.
    Done,
    /// Deliver it again later.
    Again,
    /// Give it to the broker's own dead-letter place.
    Reject,
}

/// The broker could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct SourceError {
    /// What kind of trouble it is; the words are those of the stores.
    pub kind: StoreErrorKind,
    /// What was being done.
    pub text: Box<str>,
}

/// Where messages come from.
///
/// Delivery is at least once. A message stays with the broker until it is settled with [`Verdict::Done`]; a connection
/// that ends first gives back everything unsettled. A tag of an earlier connection is ignored.
pub trait Source: Send + Sync {
    /// Waits for at least one message and returns at most `max`. Cancel safe: a dropped call loses no message.
    fn receive(&self, max: usize) -> BoxFuture<'_, Result<Vec<Incoming>, SourceError>>;

    /// Tells the broker what became of deliveries. Call it after the effect is committed, never before.
    fn settle(&self, verdicts: Vec<(u64, Verdict)>) -> BoxFuture<'_, Result<(), SourceError>>;

    /// Disconnects; what is unsettled is delivered again to another consumer.
    fn close(&self) -> BoxFuture<'_, ()>;
}
