//! One publish call: every event is encoded once, checked once, and handed to the sink.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use postrider_core::{
    Answer, Destination, Envelope, ErrorKind, Failure, Message, OrderKey, Sink, crash, encode, header,
};

use crate::engine::Outgoing;

/// Publishes a batch; gives one answer per event, whatever the sink does.
pub(crate) async fn publish(
    sink: Arc<dyn Sink>,
    destination: Arc<Destination>,
    batch: Vec<Outgoing>,
    timeout: Duration,
) -> Vec<Answer> {
    let limit = sink.capabilities().max_message_bytes;
    let mut failed: BTreeSet<OrderKey> = BTreeSet::new();
    let mut messages = Vec::with_capacity(batch.len());
    let mut answers: Vec<Option<Answer>> = Vec::with_capacity(batch.len());
    for outgoing in batch {
        // What comes after a failed event of its key must not pass it.
        if failed.contains(&outgoing.order_key) {
            answers.push(Some(Answer::failed(
                ErrorKind::Behind,
                "an earlier event of its key cannot be sent",
            )));
            continue;
        }
        let key = outgoing.order_key.clone();
        match message(destination.envelope, outgoing, limit) {
            Ok(message) => {
                messages.push(message);
                answers.push(None);
            }
            Err(failure) => {
                failed.insert(key);
                answers.push(Some(Answer::Failed(failure)));
            }
        }
    }
    let sent = messages.len();
    crash::point("publish.before");
    let published = hand_over(sink, messages.into(), timeout).await;
    crash::point("publish.after");
    let mut published = published.into_iter().take(sent);
    let lost =
        || Answer::Failed(Failure::new(ErrorKind::ConnectionLost, "the sink gave no answer").maybe_sent());
    answers
        .into_iter()
        .map(|answer| answer.unwrap_or_else(|| published.next().unwrap_or_else(lost)))
        .collect()
}

/// Encodes an event and adds what only the relay knows.
pub(crate) fn message(
    envelope: Envelope,
    outgoing: Outgoing,
    limit: Option<usize>,
) -> Result<Message, Failure> {
    let Outgoing {
        event,
        order_key,
        address,
        message_key,
        maybe_sent,
        replay,
        ..
    } = outgoing;
    let mut message = encode(envelope, &event, &order_key, address, message_key)?;
    if maybe_sent {
        message
            .headers
            .push((header::MAYBE_DUPLICATE.to_owned(), "true".to_owned()));
    }
    if let Some(replay) = replay {
        message
            .headers
            .push((header::REPLAY.to_owned(), replay.to_string()));
    }
    match limit {
        Some(limit) if message.size() > limit => {
            let text = format!(
                "the message has {} bytes, the destination takes {limit}",
                message.size()
            );
            Err(Failure::new(ErrorKind::TooLarge, text))
        }
        _ => Ok(message),
    }
}

async fn hand_over(sink: Arc<dyn Sink>, messages: Arc<[Message]>, timeout: Duration) -> Vec<Answer> {
    if messages.is_empty() {
        return Vec::new();
    }
    let count = messages.len();
    let all = |failure: Failure| vec![Answer::Failed(failure.maybe_sent()); count];
    let publish = AssertUnwindSafe(async { sink.publish(messages).await }).catch_unwind();
    match tokio::time::timeout(timeout, publish).await {
        Ok(Ok(answers)) => answers,
        // A panic is found like a lost connection: smaller batches, until the event that causes it is alone.
        Ok(Err(_)) => all(Failure::new(ErrorKind::ConnectionLost, "the sink panicked")),
        Err(_) => all(Failure::new(
            ErrorKind::TimedOut,
            format!("no confirm within {timeout:?}"),
        )),
    }
}
