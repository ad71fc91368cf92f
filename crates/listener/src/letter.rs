//! Dead letters: what cannot take effect, kept where people find it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Address, Answer, ErrorKind, Failure, MAX_ERROR_TEXT, Message, Sink, header, inert};

/// How long a confirm may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Where messages go that cannot take effect.
#[derive(Clone)]
#[non_exhaustive]
pub enum DeadLetters {
    /// They are published there, with the reason in their headers, and acknowledged when that is confirmed. While it
    /// cannot be done they stay with the broker that they came from.
    To {
        /// Through which broker; it may be another than the one they came from.
        sink: Arc<dyn Sink>,
        /// Where within it.
        address: Address,
    },
    /// They are rejected, and their own broker puts them where its settings say. **A broker without such a setting
    /// drops them**, the reason is in the log only, and RabbitMQ may lose some on the way unless the queue is a quorum
    /// queue with the strategy `at-least-once`.
    Broker,
}

impl DeadLetters {
    /// [`DeadLetters::To`] this place.
    pub fn to(sink: Arc<dyn Sink>, address: Address) -> Self {
        DeadLetters::To { sink, address }
    }
}

impl fmt::Debug for DeadLetters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeadLetters::To { address, .. } => f.debug_tuple("To").field(address).finish(),
            DeadLetters::Broker => f.write_str("Broker"),
        }
    }
}

/// The kinds of reasons for a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// It has no id, or cannot be opened.
    Malformed,
    /// The handler said that it will never work.
    Rejected,
    /// The handler failed as often as it may.
    Attempts,
    /// The broker delivered it more often than it may: it may be what ends the process.
    Redelivered,
    /// Its id belongs to another event, which has taken effect.
    Reused,
}

impl Cause {
    /// The word used in headers, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::Malformed => "malformed",
            Cause::Rejected => "rejected",
            Cause::Attempts => "attempts",
            Cause::Redelivered => "redelivered",
            Cause::Reused => "id_reused",
        }
    }
}

/// Why a message cannot take effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The kind.
    pub cause: Cause,
    /// For people: bounded, control characters escaped.
    pub text: Box<str>,
}

impl Reason {
    pub(crate) fn new(cause: Cause, text: impl AsRef<str>) -> Self {
        Self {
            cause,
            text: inert(text.as_ref(), MAX_ERROR_TEXT),
        }
    }
}

/// The message as it came, with the reason in its headers and another address.
pub(crate) fn letter(
    mut message: Message,
    reason: &Reason,
    consumer: &str,
    attempts: u32,
    to: &Address,
) -> Message {
    let from: Vec<String> = message
        .address
        .0
        .iter()
        .map(|(part, value)| format!("{part}={value}"))
        .collect();
    // A letter that was sent back and is dead again tells of its last death only.
    message
        .headers
        .retain(|(name, _)| !header::DEAD.contains(&&**name));
    let mut push = |name: &str, value: &str| message.headers.push((name.to_owned(), value.to_owned()));
    push(header::DEAD_CAUSE, reason.cause.as_str());
    push(header::DEAD_REASON, &reason.text);
    push(header::DEAD_CONSUMER, consumer);
    push(header::DEAD_ATTEMPTS, &attempts.to_string());
    if !from.is_empty() {
        push(header::DEAD_FROM, &inert(&from.join(" "), MAX_ERROR_TEXT));
    }
    message.address = to.clone();
    message
}

/// Publishes one letter and waits for its confirm. One at a time a call: letters of foreign messages may lack the id by
/// which some brokers tell the answers of a batch apart.
pub(crate) async fn publish(sink: Arc<dyn Sink>, letter: Message) -> Result<(), Failure> {
    match tokio::time::timeout(TIMEOUT, sink.publish(Arc::from([letter]))).await {
        Ok(answers) => match answers.into_iter().next() {
            Some(Answer::Confirmed(_)) => Ok(()),
            Some(Answer::Failed(failure)) => Err(failure),
            None => Err(Failure::new(ErrorKind::ConnectionLost, "the sink gave no answer")),
        },
        Err(_) => {
            let text = format!("no confirm within {TIMEOUT:?}");
            Err(Failure::new(ErrorKind::TimedOut, text))
        }
    }
}
