//! Mail: each delivery of a batch over one connection to a server that takes it from there.

mod answer;
mod letter;
mod options;
mod session;
mod unanswered;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider_core::{Answer, BoxFuture, Capabilities, ErrorKind, Failure, Message, Sink};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::ADDRESS;
use letter::{Letter, Writer};
pub use options::{EmailError, EmailOptions, Security};
use session::{Doorway, Outcome, Session};
use unanswered::Unanswered;

/// How long a server may take to say goodbye.
const QUIT: Duration = Duration::from_secs(1);

/// Sends mail through one server.
///
/// Confirmed means that the server has taken the mail on. A repetition has the same `Message-ID`, which is made of the
/// event's id, so that whoever receives both can tell.
///
/// What the server says of everybody (it is away, it is busy, it does not know our login, it does not like our sender)
/// is unavailability: the circuit opens and nothing is charged. What it says of one recipient is that recipient's:
/// `4xx` parks the delivery alone and is never charged, as [`ErrorKind::AddressRefused`], because a full mailbox or a
/// server that wants to see a sender twice lasts for hours at times; `5xx` is [`ErrorKind::Rejected`] and in the end a
/// dead letter.
///
/// Content that was handed over and not answered may have been taken. That is the delivery's own trouble, too: a late
/// answer is waited for, up to ten minutes, before the mail is sent again, and in the end it is a dead letter
/// ([`ErrorKind::Unanswered`]).
pub struct EmailSink {
    options: EmailOptions,
    writer: Writer,
    doorway: Doorway,
    calls: Semaphore,
    idle: Mutex<Vec<Session>>,
    unanswered: Unanswered,
    closed: AtomicBool,
}

impl EmailSink {
    /// Checks the options. Nothing is connected yet.
    pub fn new(options: EmailOptions) -> Result<Self, EmailError> {
        Ok(Self {
            writer: Writer::new(&options)?,
            doorway: Doorway::new(&options)?,
            calls: Semaphore::new(options.connections.max(1)),
            idle: Mutex::default(),
            unanswered: Unanswered::default(),
            closed: AtomicBool::new(false),
            options,
        })
    }

    async fn send_all(&self, batch: &[Message]) -> Vec<Answer> {
        let until = Instant::now() + self.options.batch_time;
        let mut letters = Vec::with_capacity(batch.len());
        for message in batch {
            letters.push(self.letter(message).await);
        }
        // The permit is held to the end: it is what bounds the connections.
        let permit = self.calls.acquire().await;
        let session = match letters.iter().any(Result::is_ok) && permit.is_ok() {
            true => self.session().await.map(Some),
            false => Ok(None),
        };
        let mut session = match session {
            Ok(session) => session,
            Err(failure) => {
                return letters
                    .into_iter()
                    .map(|letter| failed(letter, &failure))
                    .collect();
            }
        };
        let mut answers = Vec::with_capacity(letters.len());
        for (message, letter) in batch.iter().zip(letters) {
            answers.push(match (letter, session.take()) {
                (Err(answer), kept) => {
                    session = kept;
                    answer
                }
                (Ok(_), None) => not_tried("the connection ended at an earlier delivery of the batch"),
                (Ok(_), kept) if Instant::now() >= until => {
                    session = kept;
                    not_tried("the batch has taken its time")
                }
                (Ok(letter), Some(open)) => {
                    let (kept, answer) = self.hand_in(open, letter, message.event_id.as_str()).await;
                    session = kept;
                    answer
                }
            });
        }
        self.keep(session);
        answers
    }

    /// The letter of a delivery, or what is to be said of it without sending anything.
    async fn letter(&self, message: &Message) -> Result<Letter, Answer> {
        let letter = self.writer.letter(message).map_err(Answer::Failed)?;
        let id = message.event_id.as_str();
        match self.unanswered.ask(id, &self.doorway).await {
            Some(answer) => Err(answer),
            None => Ok(letter),
        }
    }

    async fn hand_in(&self, session: Session, letter: Letter, id: &str) -> (Option<Session>, Answer) {
        let (session, outcome) = Box::pin(self.doorway.hand_in(session, letter)).await;
        let answer = match outcome {
            // One that was not even offered to the end says nothing of an earlier attempt.
            Outcome::Answered(answer @ Answer::Confirmed(_)) => {
                self.unanswered.forget(id);
                answer
            }
            Outcome::Answered(answer) => answer,
            Outcome::Unanswered(why, waiting) => self.unanswered.add(id, &why, waiting),
        };
        (session, answer)
    }

    /// A connection that works: one that was kept, or a new one.
    async fn session(&self) -> Result<Session, Failure> {
        loop {
            let kept = self.idle().pop();
            let Some(mut kept) = kept else {
                return self.doorway.open().await;
            };
            if self.doorway.is_alive(&mut kept).await {
                return Ok(kept);
            }
            // Whatever ended one of them has most likely ended them all, and asking each takes time.
            self.idle().clear();
        }
    }

    fn keep(&self, session: Option<Session>) {
        let Some(session) = session else { return };
        if !self.closed.load(Ordering::SeqCst) {
            self.idle().push(session);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for EmailSink {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            ordered_batches: false,
            max_message_bytes: Some(self.options.max_message_bytes),
            concurrent_batches: self.options.connections.max(1),
            durable: true,
            address: ADDRESS,
        }
    }

    fn connect(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            match self.session().await {
                Ok(session) => self.keep(Some(session)),
                Err(failure) => {
                    let (host, error) = (&self.options.host, &failure.text);
                    let advice = failure.kind.policy().sentence;
                    tracing::warn!(host, %error, advice, "the mail server cannot be used yet");
                }
            }
        })
    }

    fn publish(&self, batch: Arc<[Message]>) -> BoxFuture<'_, Vec<Answer>> {
        Box::pin(async move {
            if batch.is_empty() {
                return Vec::new();
            }
            if self.closed.load(Ordering::SeqCst) {
                let closed = Answer::failed(ErrorKind::Unreachable, "the channel is closed");
                return vec![closed; batch.len()];
            }
            Box::pin(self.send_all(&batch)).await
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.closed.store(true, Ordering::SeqCst);
            self.unanswered.close();
            let idle = std::mem::take(&mut *self.idle());
            for mut session in idle {
                let _ = tokio::time::timeout(QUIT, session.quit()).await;
            }
        })
    }
}

impl fmt::Debug for EmailSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmailSink")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// No connection could be made: a letter that could not be written keeps its own reason.
fn failed(letter: Result<Letter, Answer>, failure: &Failure) -> Answer {
    letter.err().unwrap_or_else(|| Answer::Failed(failure.clone()))
}

/// Nothing was tried, so nothing is said of the destination: it just goes again.
fn not_tried(why: &str) -> Answer {
    Answer::failed(ErrorKind::Behind, why)
}
