//! The consuming side of a broker.

use crate::{BoxFuture, Message};

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

/// Why the broker could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceErrorKind {
    /// It cannot be reached, or the connection was lost. Receiving again connects again.
    Unreachable,
    /// It does not let us in, or not to this queue. A person has to change something; receiving again finds out.
    Denied,
    /// There is no such queue. It may be declared later; receiving again finds out.
    Missing,
    /// The source was closed: nothing comes any more.
    Closed,
}

/// The broker could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct SourceError {
    /// What kind of trouble it is.
    pub kind: SourceErrorKind,
    /// What was being done, and what to do about it.
    pub text: Box<str>,
}

/// Where messages come from.
///
/// Delivery is at least once. A message stays with the broker until it is settled with [`Verdict::Done`]; a connection
/// that ends first gives back everything unsettled. A tag of an earlier connection, and one that was settled before, is
/// ignored.
///
/// **Void tags.** When deliveries without a verdict are lost to a source, for whatever reason (its connection ended, a
/// verdict could not be written down, its part of the queue went to another), all of its tags are void, and the next
/// receive fails, once, before anything is delivered again. Whoever holds deliveries forgets them at that error, and
/// only at that: of what comes again without one, it would hold two, and work on both.
///
/// **Order.** Messages come in the order in which the broker has them. What came back (a verdict, a lost connection) is
/// delivered again before what was never delivered, as far as the broker can.
///
/// **Bounds.** A source holds a bounded number of deliveries without a verdict, or as many as whoever receives asks
/// for; while they are held, nothing more comes. What it keeps of its own is bounded by them, however many others are
/// settled meanwhile.
///
/// **Foreign messages.** A message that somebody else published may lack everything. It is delivered all the same, with
/// an empty id where it has none: whoever consumes decides what becomes of it.
pub trait Source: Send + Sync {
    /// Waits for at least one message and returns at most `max`. Cancel safe: a dropped call loses no message. After an
    /// error the next call connects again, unless the source is closed.
    fn receive(&self, max: usize) -> BoxFuture<'_, Result<Vec<Incoming>, SourceError>>;

    /// Tells the broker what became of deliveries, in any order. Call it after the effect is committed, never before.
    /// When it fails, every tag is void, and the next receive fails too: nobody has to look at the answer.
    fn settle(&self, verdicts: Vec<(u64, Verdict)>) -> BoxFuture<'_, Result<(), SourceError>>;

    /// Disconnects; what is unsettled is delivered again to another consumer. Safe to call twice; a receive under way
    /// or after it fails as [`SourceErrorKind::Closed`].
    fn close(&self) -> BoxFuture<'_, ()>;
}
