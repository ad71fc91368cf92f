//! Effects outside of the database: each is called, and recorded when it has happened.

use std::fmt;
use std::sync::Arc;

use postrider_core::{
    Applied, ApplyError, BoxFuture, Effects, HandlerError, InboxConsole, Received, Recorded, StoreError,
    StoreErrorKind, Turns, to_record,
};

/// Something outside of the database that is called for an event: another service, a device, a person.
pub trait Call: Send + Sync {
    /// Calls it. It must bound its own time.
    fn call<'a>(&'a self, event: &'a Received) -> BoxFuture<'a, Result<(), CallError>>;
}

/// Why a call came to nothing.
#[derive(Debug)]
pub enum CallError {
    /// It was refused, or may have failed because of the event.
    Handler(HandlerError),
    /// Whoever is called is away, and would be for any event: nothing is charged, and nothing more is received until a
    /// call gets through.
    Away {
        /// What happened.
        text: String,
        /// What to do about it.
        advice: &'static str,
    },
}

/// [`Effects`] that happen elsewhere, with an inbox in front of them.
///
/// The inbox is asked, then the call is made, then the event is recorded; no transaction is open while the call lasts.
/// So an event that is recorded is never called for again. What no order of these steps can give is a call and a record
/// that are one: **whoever dies between the two calls again**, as do two listeners that have the same event at the same
/// moment. The other side tells such a call by the event's id, which must be handed to it.
///
/// ```
/// use std::sync::Arc;
///
/// use postrider_core::{BoxFuture, Received};
/// use postrider_listener::{Call, CallError, Calls};
/// use postrider_testkit::effects::MemoryEffects;
///
/// struct Print;
///
/// impl Call for Print {
///     fn call<'a>(&'a self, event: &'a Received) -> BoxFuture<'a, Result<(), CallError>> {
///         Box::pin(async move {
///             println!("{}", event.event_id());
///             Ok(())
///         })
///     }
/// }
///
/// // `PgEffects` and `SqliteEffects` have an inbox in a database; the handler of the listener is the call.
/// let calls = Calls::new(Arc::new(MemoryEffects::new()));
/// # let _ = (calls, Print);
/// ```
#[derive(Clone)]
pub struct Calls {
    inbox: Arc<dyn InboxConsole>,
}

impl Calls {
    /// With this inbox in front.
    pub fn new(inbox: Arc<dyn InboxConsole>) -> Self {
        Self { inbox }
    }

    async fn one(
        &self,
        consumer: &str,
        at: usize,
        (id, hash): (&str, Option<&str>),
        event: &Received,
        handler: &dyn Call,
    ) -> Result<Applied, ApplyError> {
        let names = || (consumer.to_owned(), id.to_owned(), hash.map(str::to_owned));
        let (whose, which, its_hash) = names();
        let known = self.inbox.look(whose, which, its_hash).await;
        match known.map_err(ApplyError::Store)? {
            None | Some(Recorded::Now) => {}
            Some(Recorded::Before) => return Ok(Applied::Before),
            Some(Recorded::Reused { recorded }) => return Err(ApplyError::Reused { at, recorded }),
        }
        handler.call(event).await.map_err(|error| match error {
            CallError::Handler(error) => ApplyError::Handler { at, error },
            CallError::Away { text, advice } => {
                let error = StoreError::new(StoreErrorKind::Unreachable, text);
                ApplyError::Store(error.with_advice(advice))
            }
        })?;
        tracing::debug!(consumer, event_id = event.event_id(), "called, to be recorded");
        // It has happened. To give up now would make it happen again, so a database that is away is waited for.
        let (mut turns, mut asked) = (Turns::default(), false);
        loop {
            let (whose, which, its_hash) = names();
            let error = match self.inbox.record(whose, which, its_hash).await {
                // Somebody else who had the same event at the same moment called, too, and is counted; unless it was
                // we, and the answer was lost.
                Ok(Recorded::Before) if !asked => return Ok(Applied::Before),
                Ok(_) => return Ok(Applied::Now),
                Err(error) => error,
            };
            asked = true;
            match turns.next() {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(ApplyError::Store(error)),
            }
        }
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").finish_non_exhaustive()
    }
}

impl Effects for Calls {
    type Handler = dyn Call;

    /// A call cannot be undone because its neighbour failed.
    fn most(&self) -> usize {
        1
    }

    /// One after the other. After an error those before it are recorded, and are not called for again.
    fn apply(
        &self,
        consumer: Arc<str>,
        deliveries: Arc<[Received]>,
        handler: Arc<dyn Call>,
    ) -> BoxFuture<'_, Result<Vec<Applied>, ApplyError>> {
        Box::pin(async move {
            let events = to_record(&deliveries)?;
            let mut applied = Vec::with_capacity(events.len());
            for (at, (event, received)) in events.into_iter().zip(&*deliveries).enumerate() {
                applied.push(self.one(&consumer, at, event, received, &*handler).await?);
            }
            Ok(applied)
        })
    }
}
