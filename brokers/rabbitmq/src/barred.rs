//! Exchanges that the broker closes a channel for, because they do not exist or are not open to us.
//!
//! Every message to one of them costs its neighbours their channel. So once such an exchange is known, its messages are
//! kept apart: now and then one of them tries alone, and the others are answered with what is known.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use postrider_core::Failure;
use tokio::time::Instant;

/// How often one message tries an exchange again.
const TRY_EVERY: Duration = Duration::from_millis(500);
/// Exchanges remembered. Names come from templates, so that there may be any number of them.
const MOST: usize = 256;

/// The exchanges that are known to be barred.
#[derive(Default)]
pub(crate) struct Barred {
    known: Mutex<HashMap<String, Bar>>,
}

struct Bar {
    failure: Failure,
    try_at: Instant,
}

/// What to do with a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Nothing is known against its exchange.
    Free,
    /// It tries alone.
    Try,
    /// It is not published; this is why.
    Held(Failure),
}

impl Barred {
    /// Whether a message to this exchange may go. Of several that ask at the same time, one may try.
    pub(crate) fn pass(&self, exchange: &str, may_try: bool) -> Pass {
        let now = Instant::now();
        match self.known().get_mut(exchange) {
            None => Pass::Free,
            Some(bar) if may_try && bar.try_at <= now => {
                bar.try_at = now + TRY_EVERY;
                Pass::Try
            }
            Some(bar) => Pass::Held(bar.failure.clone()),
        }
    }

    /// The broker closed a channel because of this exchange. The next message may try at once, as it may have come
    /// back already; if that fails too, the waiting begins.
    pub(crate) fn bar(&self, exchange: String, failure: Failure) {
        // The default exchange is always there.
        if exchange.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut known = self.known();
        if let Some(bar) = known.get_mut(&exchange) {
            bar.failure = failure;
            bar.try_at = now + TRY_EVERY;
            return;
        }
        tracing::warn!(exchange, reason = %failure.text, "messages to an exchange of RabbitMQ are held back");
        if known.len() >= MOST {
            // The one that was not asked for the longest.
            let oldest = known.iter().min_by_key(|(_, bar)| bar.try_at);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                known.remove(&oldest);
            }
        }
        known.insert(exchange, Bar { failure, try_at: now });
    }

    /// A message got through to it.
    pub(crate) fn forget(&self, exchange: &str) {
        if self.known().remove(exchange).is_some() {
            tracing::info!(exchange, "an exchange of RabbitMQ takes messages again");
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Bar>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use postrider_core::ErrorKind;

    use super::*;

    fn missing() -> Failure {
        Failure::new(ErrorKind::AddressNotFound, "there is no such exchange")
    }

    #[tokio::test(start_paused = true)]
    async fn one_message_tries_and_the_others_are_held() {
        let barred = Barred::default();
        let pass = || barred.pass("x", true);
        assert_eq!(pass(), Pass::Free);
        barred.bar("x".to_owned(), missing());
        assert_eq!(barred.pass("x", false), Pass::Held(missing()));
        assert_eq!([pass(), pass()], [Pass::Try, Pass::Held(missing())]);
        assert_eq!(barred.pass("y", true), Pass::Free);
        tokio::time::advance(TRY_EVERY / 2).await;
        barred.bar("x".to_owned(), missing());
        tokio::time::advance(TRY_EVERY / 2).await;
        assert_eq!(pass(), Pass::Held(missing()), "it waits from the failed try on");
        tokio::time::advance(TRY_EVERY / 2).await;
        assert_eq!(pass(), Pass::Try);
        barred.forget("x");
        assert_eq!([pass(), pass()], [Pass::Free, Pass::Free]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_default_exchange_is_never_held_and_the_memory_is_bounded() {
        let barred = Barred::default();
        barred.bar(String::new(), missing());
        assert_eq!(barred.pass("", true), Pass::Free);
        for n in 0..=MOST {
            barred.bar(format!("x{n}"), missing());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(barred.known().len(), MOST);
        assert_eq!(barred.pass("x0", true), Pass::Free);
        assert_eq!(barred.pass("x1", false), Pass::Held(missing()));
    }
}
