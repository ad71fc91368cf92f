//! The publishing side of a broker.

use std::sync::Arc;

use crate::{AddressField, Answer, BoxFuture, Failure, Message};

/// What a sink can do, as data: it chooses the conformance tests that apply and feeds the README's matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Within one batch, after a message has failed, no later message of the same key is confirmed. The engine then
    /// hands several events of one key over at once; without it, one at a time.
    pub ordered_batches: bool,
    /// The largest message it takes, headers included, where that is known before publishing.
    pub max_message_bytes: Option<usize>,
    /// How many publish calls it works on at a time; more are not started.
    pub concurrent_batches: usize,
    /// Whether confirmed means that the message survives a crash of the destination.
    pub durable: bool,
    /// The parts of an address that a route may or must give.
    pub address: &'static [AddressField],
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            ordered_batches: false,
            max_message_bytes: None,
            concurrent_batches: 4,
            durable: true,
            address: &[],
        }
    }
}

/// Where messages go.
///
/// **Concurrency.** `publish` may be called again while earlier calls are under way. Each destination of each outbox
/// keeps to `concurrent_batches`; a sink that several of them share, and that must not work on more at a time, queues
/// by itself. Of one outbox and destination, two calls under way never hold messages of the same key and lane, so
/// their order to each other does not matter.
///
/// **Confirmed** means that the destination has the message as durably as its settings allow and will not drop it by
/// itself. A message that reached nobody (no queue bound, no such topic) is never confirmed.
///
/// **Failures.** A failure names a kind, and whether the message may have been sent all the same. A sink does not
/// retry, does not sleep and does not decide what a failure means: the engine does.
///
/// **Cancelling.** Dropping the future abandons what has not left yet. Messages that had left may still arrive.
pub trait Sink: Send + Sync {
    /// What it can do. Constant over the life of the sink.
    fn capabilities(&self) -> Capabilities;

    /// Connects, and declares what is to be declared, so that a mistake shows when a relay starts and not with the
    /// first event. A destination that is away is no error: it is tried again by itself.
    fn connect(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Why it has no connection at the moment, where it keeps one: with nothing to publish, nobody else finds out that
    /// the password is wrong. Asked whenever somebody asks how an outbox is, so it must not wait for anything.
    fn trouble(&self) -> Option<Failure> {
        None
    }

    /// Publishes a batch and answers for every message, in the batch's order. An empty batch answers nothing and
    /// touches nothing.
    fn publish(&self, batch: Arc<[Message]>) -> BoxFuture<'_, Vec<Answer>>;

    /// Flushes and disconnects. Safe to call twice; a publish after it fails as unavailable.
    fn close(&self) -> BoxFuture<'_, ()>;
}
