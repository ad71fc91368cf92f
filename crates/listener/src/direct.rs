//! A destination without a broker: what a relay hands over takes effect at once, in this process.

use std::fmt;
use std::sync::Arc;

use postrider_core::{
    Answer, ApplyError, Blame, BoxFuture, Capabilities, Effects, Envelope, ErrorKind, Failure, HandlerError,
    Incoming, Message, Receipt, Received, Sink, StoreError, StoreErrorKind,
};

/// A [`Sink`] that lets events take effect through an inbox, for an outbox and a consumer in one process.
///
/// Confirmed means committed: the record and the effect are in the consumer's database. Whoever dies between that and
/// the settle hands the event over again, and the inbox knows it. What a listener would send to its dead letters is
/// parked in the outbox instead, where operators look; what it would try again is tried again by the relay, with the
/// order of keys that the relay keeps.
///
/// ```
/// use std::sync::Arc;
/// use postrider_listener::Direct;
/// use postrider_testkit::effects::{MemoryEffects, MemoryHandler};
///
/// let handler: Arc<MemoryHandler> = Arc::new(|event, work| {
///     Box::pin(async move {
///         work.write(event.event_id());
///         Ok(())
///     })
/// });
/// let sink = Direct::new(Arc::new(MemoryEffects::new()), "mailer", handler);
/// # let _ = sink;
/// ```
pub struct Direct<E: Effects> {
    effects: Arc<E>,
    consumer: Arc<str>,
    handler: Arc<E::Handler>,
    envelope: Envelope,
}

impl<E: Effects> fmt::Debug for Direct<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct")
            .field("consumer", &self.consumer)
            .finish_non_exhaustive()
    }
}

impl<E: Effects> Direct<E> {
    /// Effects of this handler, recorded under the name of a consumer.
    pub fn new(effects: Arc<E>, consumer: &str, handler: Arc<E::Handler>) -> Self {
        Self {
            effects,
            consumer: consumer.into(),
            handler,
            envelope: Envelope::Flat,
        }
    }

    /// The envelope of the destination; flat unless this says otherwise.
    pub fn envelope(mut self, envelope: Envelope) -> Self {
        self.envelope = envelope;
        self
    }

    fn open(&self, message: &Message) -> Result<Received, Answer> {
        let incoming = Incoming {
            message: message.clone(),
            tag: 0,
            redelivered: 0,
        };
        Received::open(self.envelope, &incoming)
            .map_err(|error| Answer::failed(ErrorKind::NotEncodable, error.to_string()))
    }

    async fn apply(&self, received: &[Received]) -> Result<(), ApplyError> {
        let (consumer, handler) = (Arc::clone(&self.consumer), Arc::clone(&self.handler));
        let applied = self.effects.apply(consumer, received.into(), handler).await?;
        if applied.len() == received.len() {
            return Ok(());
        }
        let text = "the effects did not answer for every event";
        Err(ApplyError::Store(StoreError::new(StoreErrorKind::Other, text)))
    }

    /// All in one transaction; where that fails, each in its own, so that one which fails keeps to itself.
    async fn answer(&self, received: &[Received]) -> Vec<Answer> {
        match self.apply(received).await {
            Ok(()) => received.iter().map(|_| confirmed()).collect(),
            Err(error) if received.len() < 2 || matches!(error, ApplyError::Store(_)) => {
                received.iter().map(|_| failed(&error)).collect()
            }
            Err(_) => {
                let mut answers = Vec::new();
                for one in received.chunks(1) {
                    answers.push(match self.apply(one).await {
                        Ok(()) => confirmed(),
                        Err(error) => failed(&error),
                    });
                }
                answers
            }
        }
    }
}

impl<E: Effects> Sink for Direct<E> {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn publish(&self, batch: Arc<[Message]>) -> BoxFuture<'_, Vec<Answer>> {
        Box::pin(async move {
            let opened: Vec<_> = batch.iter().map(|message| self.open(message)).collect();
            let received: Vec<Received> = opened
                .iter()
                .filter_map(|one| one.as_ref().ok())
                .cloned()
                .collect();
            let answers = match received.is_empty() {
                true => Vec::new(),
                false => self.answer(&received).await,
            };
            let mut answers = answers.into_iter();
            let answer = |one: Result<Received, Answer>| match one {
                Ok(_) => answers.next().unwrap_or_else(unanswered),
                Err(answer) => answer,
            };
            opened.into_iter().map(answer).collect()
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

fn confirmed() -> Answer {
    Answer::Confirmed(Receipt(Some("took effect".into())))
}

fn unanswered() -> Answer {
    Answer::failed(ErrorKind::Unknown, "the effects gave no answer for it")
}

/// What an effect that did not happen means to a relay. A commit whose answer was lost may have taken effect; the inbox
/// tells, and nothing has to be marked for that.
fn failed(error: &ApplyError) -> Answer {
    let kind = match error {
        ApplyError::Handler { error, .. } => kind_of_handler(error),
        ApplyError::Reused { .. } => ErrorKind::IdReused,
        ApplyError::Store(error) => match error.kind() {
            StoreErrorKind::Full | StoreErrorKind::ReadOnly => ErrorKind::Storage,
            StoreErrorKind::Busy => ErrorKind::TimedOut,
            _ => ErrorKind::Unreachable,
        },
    };
    Answer::Failed(Failure::new(kind, error.to_string()))
}

fn kind_of_handler(error: &HandlerError) -> ErrorKind {
    match (error.may_pass(), error.blamed()) {
        (false, _) => ErrorKind::NotEncodable,
        (true, Blame::Event) => ErrorKind::Rejected,
        // The relay finds out by itself whether others pass.
        (true, Blame::Unclear | Blame::Nobody) => ErrorKind::TimedOut,
    }
}
