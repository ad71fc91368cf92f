//! What became of a batch: who was confirmed, who came back, and who cannot be told.
//!
//! RabbitMQ confirms a message that has no queue, after it has returned it. The client hands a returned message to
//! whichever confirm it completes next, so that a single confirm says nothing; the ids of all messages that came back
//! over a whole batch say everything.

use std::collections::HashSet;

use lapin::Confirmation;
use postrider_core::{Answer, ErrorKind, Failure, Message, Receipt};

use crate::error::Cause;

/// What the broker said about one message of a batch.
pub(crate) type Outcome = Result<Confirmation, lapin::Error>;

/// The answers of a batch.
pub(crate) struct Verdict {
    /// One for each message.
    pub(crate) answers: Vec<Answer>,
    /// Whether the channel may be used again.
    pub(crate) healthy: bool,
    /// The limit that the broker named, if a message was above it.
    pub(crate) limit: Option<usize>,
    /// The exchange that the broker closed the channel for, and why.
    pub(crate) barred: Option<(String, Failure)>,
}

/// Answers for a batch of which every confirm was waited for. Messages at its end that were never handed over have no
/// outcome, and get no answer.
pub(crate) fn judge<'a>(batch: &[&'a Message], outcomes: Vec<Outcome>) -> Verdict {
    let mut returned = HashSet::new();
    let mut cause = None;
    let mut fates = Vec::with_capacity(batch.len());
    for outcome in outcomes {
        let (fate, message) = match outcome {
            Ok(Confirmation::Ack(message)) => (Fate::Acked, message),
            Ok(Confirmation::Nack(message)) => (Fate::Nacked, message),
            // The channel is not in the mode that we put it in.
            Ok(Confirmation::NotRequested) => {
                cause.get_or_insert_with(|| Cause::Lost("the channel does not confirm".to_owned()));
                (Fate::Unknown, None)
            }
            Err(error) => {
                more_telling(&mut cause, Cause::of(&error));
                (Fate::Unknown, None)
            }
        };
        if let Some(message) = message {
            let id = message.delivery.properties.message_id().as_ref();
            returned.insert(id.map(|id| id.as_str().to_owned()).unwrap_or_default());
        }
        fates.push(fate);
    }
    let ours = |id: &String| batch.iter().any(|message| message.event_id.as_str() == id);
    if !returned.iter().all(ours) {
        cause.get_or_insert_with(|| Cause::Lost("the broker returned a message of another batch".to_owned()));
    }
    // After an early end, a return that came for an acknowledged message may not have been handed to us. If none was,
    // none had come; if any was, the acknowledged ones are sent again rather than lost.
    let doubtful = cause.is_some() && !returned.is_empty();
    let limit = match cause {
        Some(Cause::TooLarge(limit)) => limit,
        _ => None,
    };
    let blame = Blame::new(cause.as_ref(), batch, &fates);
    let answer = |(message, fate): (&&Message, &Fate)| {
        if returned.contains(message.event_id.as_str()) {
            return Answer::failed(ErrorKind::AddressNotFound, no_queue(message));
        }
        match fate {
            Fate::Acked if doubtful => lost("the channel ended before all returned messages were seen"),
            Fate::Acked => Answer::Confirmed(Receipt::default()),
            // With several queues bound, some of them may have taken it.
            Fate::Nacked => {
                Answer::Failed(Failure::new(ErrorKind::Nacked, "a queue did not take it").maybe_sent())
            }
            Fate::Unknown => blame.answer(message),
        }
    };
    let unknown = |(message, fate): (&&'a Message, &Fate)| (*fate == Fate::Unknown).then_some(*message);
    let barred = batch
        .iter()
        .zip(&fates)
        .filter_map(unknown)
        .find_map(|message| blame.barred(message));
    Verdict {
        barred,
        answers: batch.iter().zip(&fates).map(answer).collect(),
        // RabbitMQ remembers for each channel that a queue was full, and goes on refusing there when it is no more.
        healthy: cause.is_none() && !fates.contains(&Fate::Nacked),
        limit,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Acked,
    Nacked,
    Unknown,
}

/// Neighbours of a failed message only learn that the channel is gone; the message itself may be told why.
fn more_telling(known: &mut Option<Cause>, new: Cause) {
    if matches!(known, None | Some(Cause::Lost(_))) {
        *known = Some(new);
    }
}

/// Whom the end of a channel is blamed on. A neighbour is never blamed: it is answered as lost, and goes again.
struct Blame<'a> {
    cause: Option<&'a Cause>,
    /// Whether only one message can have been the reason.
    alone: bool,
    /// The one exchange of the batch, if there is only one.
    exchange: Option<&'a str>,
}

impl<'a> Blame<'a> {
    fn new(cause: Option<&'a Cause>, batch: &[&'a Message], fates: &[Fate]) -> Blame<'a> {
        let unknown = fates.iter().filter(|fate| **fate == Fate::Unknown).count();
        let mut exchanges = batch.iter().map(|message| exchange(message));
        let first = exchanges.next();
        Blame {
            cause,
            alone: unknown == 1,
            exchange: first.filter(|first| exchanges.all(|other| other == *first)),
        }
    }

    fn answer(&self, message: &Message) -> Answer {
        let Some(cause) = self.cause else {
            return lost("the client gave no answer");
        };
        if let Some((_, failure)) = self.barred(message) {
            // The exchange may have been deleted while the batch was under way.
            return Answer::Failed(if self.alone { failure } else { failure.maybe_sent() });
        }
        let (kind, text) = match cause {
            Cause::TooLarge(limit) if self.alone || limit.is_some_and(|limit| message.body.len() > limit) => {
                let limit = limit.map_or_else(|| "less".to_owned(), |limit| limit.to_string());
                let text = format!(
                    "the body has {} bytes, the broker takes {limit}",
                    message.body.len()
                );
                (ErrorKind::TooLarge, text)
            }
            Cause::Content(text) if self.alone => (ErrorKind::Rejected, text.clone()),
            Cause::Lost(text) | Cause::Content(text) => return lost(text),
            Cause::NoExchange(_) | Cause::Refused(_) | Cause::TooLarge(_) => {
                return lost("another message made the broker close the channel");
            }
        };
        Answer::failed(kind, text)
    }

    /// The exchange of a message, if that is what the broker closed the channel for, and why.
    fn barred(&self, message: &Message) -> Option<(String, Failure)> {
        let (name, kind, what) = match self.cause? {
            Cause::NoExchange(name) => (name, ErrorKind::AddressNotFound, "there is no exchange"),
            Cause::Refused(name) => (
                name,
                ErrorKind::AddressRefused,
                "the user may not publish to the exchange",
            ),
            Cause::TooLarge(_) | Cause::Content(_) | Cause::Lost(_) => return None,
        };
        let exchange = exchange(message);
        let barred = || {
            (
                exchange.to_owned(),
                Failure::new(kind, format!("{what} {exchange:?}")),
            )
        };
        self.concerns(name.as_deref(), message).then(barred)
    }

    /// Whether what the broker said of an exchange is about the one that this message goes to.
    fn concerns(&self, name: Option<&str>, message: &Message) -> bool {
        name == Some(exchange(message)) || self.alone || self.exchange == Some(exchange(message))
    }
}

/// The exchange of a message; empty is the default one.
pub(crate) fn exchange(message: &Message) -> &str {
    message.address.get("exchange").unwrap_or_default()
}

fn no_queue(message: &Message) -> String {
    let key = message.address.get("routing_key").unwrap_or_default();
    match exchange(message) {
        "" => format!("there is no queue {key:?}"),
        exchange => format!("no queue is bound to the exchange {exchange:?} for the routing key {key:?}"),
    }
}

/// It may have been sent, and it may have been another's fault.
pub(crate) fn lost(text: &str) -> Answer {
    Answer::Failed(Failure::new(ErrorKind::ConnectionLost, text).maybe_sent())
}

#[cfg(test)]
mod tests {
    use lapin::BasicProperties;
    use lapin::message::{BasicReturnMessage, Delivery};
    use lapin::protocol::{AMQPError, AMQPErrorKind, AMQPSoftError};
    use postrider_core::Address;

    use super::*;

    fn message(id: &str, exchange: &str) -> Message {
        Message {
            event_id: id.into(),
            order_key: id.into(),
            message_key: id.to_owned(),
            address: Address(vec![("exchange".to_owned(), exchange.to_owned())]),
            content_type: String::new(),
            headers: Vec::new(),
            body: vec![0; 100].into(),
        }
    }

    fn returned(id: &str) -> Option<BasicReturnMessage> {
        let mut delivery = Delivery::mock(0, "x".into(), "k".into(), false, Vec::new());
        delivery.properties = BasicProperties::default().with_message_id(id.into());
        Some(BasicReturnMessage {
            delivery,
            reply_code: 312,
            reply_text: "NO_ROUTE".into(),
        })
    }

    fn closed(kind: AMQPSoftError, text: &str) -> Outcome {
        let error = AMQPError::new(AMQPErrorKind::Soft(kind), text.into());
        Err(lapin::ErrorKind::ProtocolError(error).into())
    }

    fn kinds(batch: &[Message], outcomes: Vec<Outcome>) -> (Vec<Option<ErrorKind>>, bool) {
        let batch: Vec<&Message> = batch.iter().collect();
        let verdict = judge(&batch, outcomes);
        let kind = |answer: &Answer| match answer {
            Answer::Confirmed(_) => None,
            Answer::Failed(failure) => Some(failure.kind),
        };
        (verdict.answers.iter().map(kind).collect(), verdict.healthy)
    }

    const NOT_FOUND: Option<ErrorKind> = Some(ErrorKind::AddressNotFound);
    const LOST: Option<ErrorKind> = Some(ErrorKind::ConnectionLost);

    #[test]
    fn a_return_counts_for_the_message_it_names_and_not_for_the_confirm_it_came_with() {
        let batch = ["a", "b", "c"].map(|id| message(id, "x"));
        let outcomes = vec![
            Ok(Confirmation::Ack(returned("b"))),
            Ok(Confirmation::Ack(None)),
            Ok(Confirmation::Nack(None)),
        ];
        let wanted = vec![None, NOT_FOUND, Some(ErrorKind::Nacked)];
        // A channel that saw a nack is not used again.
        assert_eq!(kinds(&batch, outcomes), (wanted, false));
    }

    #[test]
    fn what_cannot_be_told_is_never_confirmed() {
        let batch = ["a", "b"].map(|id| message(id, "x"));
        let stranger = vec![Ok(Confirmation::Ack(returned("z"))), Ok(Confirmation::Ack(None))];
        assert_eq!(kinds(&batch, stranger), (vec![LOST, LOST], false));
        let unasked = vec![Ok(Confirmation::NotRequested), Ok(Confirmation::Ack(None))];
        assert_eq!(kinds(&batch, unasked), (vec![LOST, None], false));
        // The channel ended after a return: another one may have been on its way to us.
        let batch = ["a", "b", "c"].map(|id| message(id, "x"));
        let ended = vec![
            Ok(Confirmation::Ack(returned("b"))),
            Ok(Confirmation::Ack(None)),
            closed(AMQPSoftError::PRECONDITIONFAILED, "timeout"),
        ];
        let (answers, healthy) = kinds(&batch, ended);
        assert_eq!((answers[0], answers[1], healthy), (LOST, NOT_FOUND, false));
    }

    #[test]
    fn neighbours_of_a_culprit_are_not_blamed() {
        let batch = [message("a", "x"), message("b", "gone"), message("c", "x")];
        let text = "NOT_FOUND - no exchange 'gone' in vhost '/'";
        let outcomes = (0..3).map(|_| closed(AMQPSoftError::NOTFOUND, text)).collect();
        assert_eq!(kinds(&batch, outcomes), (vec![LOST, NOT_FOUND, LOST], false));

        let mut batch = ["a", "b"].map(|id| message(id, "x"));
        batch[1].body = vec![0; 2_000].into();
        let text = "PRECONDITION_FAILED - message size 2000 is larger than configured max size 1024";
        let outcomes = (0..2)
            .map(|_| closed(AMQPSoftError::PRECONDITIONFAILED, text))
            .collect();
        assert_eq!(
            kinds(&batch, outcomes),
            (vec![LOST, Some(ErrorKind::TooLarge)], false)
        );
    }
}
