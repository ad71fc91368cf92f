//! A sink that discards: what remains is the cost of the store and of the engine.

use std::sync::{Arc, Mutex, PoisonError};

use postrider_core::{Answer, BoxFuture, Capabilities, Message, Receipt, Sink};

use crate::rates::Rates;

/// Confirms everything at once and counts it.
#[derive(Debug, Default)]
pub(crate) struct NullSink {
    rates: Mutex<Rates>,
}

impl NullSink {
    /// What it has seen.
    pub(crate) fn rates(&self) -> Rates {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Sink for NullSink {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            ordered_batches: true,
            ..Capabilities::default()
        }
    }

    fn publish(&self, batch: Arc<[Message]>) -> BoxFuture<'_, Vec<Answer>> {
        self.rates
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .count(batch.len());
        let answers = vec![Answer::Confirmed(Receipt::default()); batch.len()];
        Box::pin(std::future::ready(answers))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
