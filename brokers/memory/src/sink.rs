//! The publishing side, and what a test does with it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider_core::{Answer, BoxFuture, Capabilities, ErrorKind, Failure, Message, Receipt, Sink};

use crate::MemorySource;
use crate::queue::{Shared, State};
use crate::script::{Fate, Next};

/// A broker in memory; see the crate's documentation.
///
/// Cloning gives another handle to the same broker. Closing closes one handle only. Any address is taken, so that a
/// test can use the routes of production.
#[derive(Debug, Default)]
pub struct MemorySink {
    shared: Arc<Shared>,
    closed: AtomicBool,
}

/// Fewer messages than wanted arrived in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{got} of {wanted} messages arrived in time")]
pub struct TooFew {
    /// How many were wanted.
    pub wanted: usize,
    /// How many arrived.
    pub got: usize,
}

impl MemorySink {
    /// A broker that keeps every message until it is cleared.
    pub fn new() -> MemorySink {
        MemorySink::default()
    }

    /// A broker that keeps at most `capacity` messages and forgets those that a consumer is done with. While it is
    /// full, publishing fails as [`ErrorKind::Blocked`] and is tried again by the relay.
    pub fn queue(capacity: usize) -> MemorySink {
        MemorySink {
            shared: Arc::new(Shared::bounded(capacity.max(1))),
            closed: AtomicBool::new(false),
        }
    }

    /// The messages that are kept, in the order of their arrival.
    pub fn messages(&self) -> Vec<Message> {
        self.shared.lock().queue.messages()
    }

    /// The messages that a consumer rejected: what a broker would have dead-lettered.
    pub fn rejected(&self) -> Vec<Message> {
        self.shared.lock().queue.rejected()
    }

    /// Forgets all messages. The script stays.
    pub fn clear(&self) {
        self.shared.lock().queue.clear();
    }

    /// Waits until at least `n` messages have arrived since the beginning or the last [`MemorySink::clear`], and gives
    /// those that are kept.
    pub async fn wait_for(&self, n: usize, timeout: Duration) -> Result<Vec<Message>, TooFew> {
        let arrived = async {
            loop {
                let changed = self.shared.changed.notified();
                tokio::pin!(changed);
                // From here on no change is missed, so that looking before waiting is safe.
                changed.as_mut().enable();
                if self.shared.lock().queue.published() >= n {
                    return self.messages();
                }
                changed.await;
            }
        };
        tokio::time::timeout(timeout, arrived).await.map_err(|_| TooFew {
            wanted: n,
            got: self.shared.lock().queue.published(),
        })
    }

    /// Has the next message fail, with this kind. Called several times, it is about as many messages.
    pub fn fail_next(&self, kind: ErrorKind) {
        self.shared.lock().script.next.push_back(Next::Fail(kind));
    }

    /// Takes the next message and loses the answer: the relay does not know, and sends it again.
    pub fn lose_next_answer(&self) {
        self.shared.lock().script.next.push_back(Next::LoseAnswer);
    }

    /// Refuses every message for which the rule gives a kind. It takes the place of an earlier rule; it runs while the
    /// broker is locked and must not use it.
    ///
    /// ```
    /// use postrider_core::ErrorKind;
    /// # let sink = postrider_memory::MemorySink::new();
    /// sink.refuse_when(|message| (message.message_key == "42").then_some(ErrorKind::Rejected));
    /// ```
    pub fn refuse_when(&self, rule: impl Fn(&Message) -> Option<ErrorKind> + Send + Sync + 'static) {
        self.shared.lock().script.rule = Some(Arc::new(rule));
    }

    /// Takes the broker away or brings it back: while it is away, everything fails as [`ErrorKind::Unreachable`].
    pub fn set_reachable(&self, reachable: bool) {
        self.shared.lock().script.unreachable = !reachable;
    }

    /// Ends everything that was scripted: from now on every message is taken.
    pub fn accept_everything(&self) {
        self.shared.lock().script = Default::default();
    }

    /// A consumer of these messages. Several of them share the work; each message is delivered to one.
    pub fn source(&self) -> MemorySource {
        MemorySource::new(Arc::clone(&self.shared))
    }

    fn publish_now(&self, batch: &[Message]) -> Vec<Answer> {
        if self.closed.load(Ordering::Acquire) {
            return vec![Answer::failed(ErrorKind::Unreachable, "the sink is closed"); batch.len()];
        }
        let mut failed = HashSet::new();
        let mut state = self.shared.lock();
        let answer = |message| {
            if failed.contains(&order_key(message)) {
                return Answer::failed(ErrorKind::Behind, "an earlier event of its key failed");
            }
            take(&mut state, message).unwrap_or_else(|failure| {
                failed.insert(order_key(message));
                Answer::Failed(failure)
            })
        };
        let answers = batch.iter().map(answer).collect();
        drop(state);
        self.shared.changed.notify_waiters();
        answers
    }
}

impl Clone for MemorySink {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            closed: AtomicBool::new(false),
        }
    }
}

impl Sink for MemorySink {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            ordered_batches: true,
            durable: false,
            ..Capabilities::default()
        }
    }

    fn publish(&self, batch: Arc<[Message]>) -> BoxFuture<'_, Vec<Answer>> {
        Box::pin(async move { self.publish_now(&batch) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.closed.store(true, Ordering::Release) })
    }
}

fn take(state: &mut State, message: &Message) -> Result<Answer, Failure> {
    let answered = match state.script.decide(message) {
        Fate::Refused(failure) => return Err(failure),
        Fate::Taken => true,
        Fate::TakenUnanswered => false,
    };
    if state.queue.is_full() {
        return Err(Failure::new(ErrorKind::Blocked, "the queue in memory is full"));
    }
    let number = state.queue.push(message.clone());
    if answered {
        Ok(Answer::Confirmed(Receipt(Some(
            format!("memory:{number}").into(),
        ))))
    } else {
        Err(Failure::new(ErrorKind::ConnectionLost, "the test lost the answer").maybe_sent())
    }
}

fn order_key(message: &Message) -> &str {
    message.order_key.as_str()
}
