//! The consuming side.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use postrider_core::{BoxFuture, Incoming, Source, SourceError, SourceErrorKind, Verdict};

use crate::queue::{ConsumerId, Shared};

/// A consumer of a [`crate::MemorySink`]'s messages.
///
/// Messages come in order. What is not settled when the consumer is closed or dropped goes back to its place and is
/// delivered to another. A key of which one consumer has something unsettled is not given to another, so that each key
/// stays in order with any number of consumers.
#[derive(Debug)]
pub struct MemorySource {
    shared: Arc<Shared>,
    id: ConsumerId,
    closed: AtomicBool,
}

impl MemorySource {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let id = shared.lock().queue.consumer();
        Self {
            shared,
            id,
            closed: AtomicBool::new(false),
        }
    }

    /// Takes what is there, without waiting.
    pub fn try_receive(&self, max: usize) -> Result<Vec<Incoming>, SourceError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(SourceError {
                kind: SourceErrorKind::Closed,
                text: "the consumer is closed".into(),
            });
        }
        Ok(self.shared.lock().queue.deliver(self.id, max.max(1)))
    }

    fn release(&self) {
        self.closed.store(true, Ordering::Release);
        self.shared.lock().queue.release(self.id);
        self.shared.changed.notify_waiters();
    }
}

impl Source for MemorySource {
    fn receive(&self, max: usize) -> BoxFuture<'_, Result<Vec<Incoming>, SourceError>> {
        Box::pin(async move {
            loop {
                let changed = self.shared.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                // Messages are taken and returned in one poll: a dropped call has taken none.
                let received = self.try_receive(max)?;
                if !received.is_empty() {
                    return Ok(received);
                }
                changed.await;
            }
        })
    }

    fn settle(&self, verdicts: Vec<(u64, Verdict)>) -> BoxFuture<'_, Result<(), SourceError>> {
        Box::pin(async move {
            let mut state = self.shared.lock();
            for (tag, verdict) in verdicts {
                state.queue.settle(self.id, tag, verdict);
            }
            drop(state);
            self.shared.changed.notify_waiters();
            Ok(())
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.release() })
    }
}

impl Drop for MemorySource {
    fn drop(&mut self) {
        self.release();
    }
}
