//! What the cases are written with: a destination, messages for it, and a reader.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use postrider_core::{Answer, Message, OrderKey, Sink, header};

use super::{Arrived, SinkHarness, TestBroker};
use crate::wait::eventually;

/// A fresh destination.
pub struct Bench {
    pub(super) broker: Box<dyn TestBroker>,
}

impl Bench {
    pub(super) async fn new(harness: &dyn SinkHarness) -> Self {
        Self {
            broker: harness.fresh().await,
        }
    }

    pub(super) async fn open(&self) -> Arc<dyn Sink> {
        self.broker.open().await
    }

    /// A message of a key whose body holds its id.
    pub(super) fn message(&self, id: &str, key: &str) -> Message {
        self.message_with(id, key, format!("{{\"id\":{id:?}}}"))
    }

    pub(super) fn message_with(&self, id: &str, key: &str, body: impl Into<Bytes>) -> Message {
        let headers = [(header::EVENT_TYPE, "Tested"), (header::EVENT_KEY, key)];
        Message {
            event_id: id.into(),
            order_key: OrderKey::new(key),
            message_key: key.to_owned(),
            address: self.broker.address(),
            content_type: "application/json".to_owned(),
            headers: headers
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            body: body.into(),
        }
    }

    /// Messages `prefix0` upwards, spread over keys.
    pub(super) fn numbered(&self, prefix: &str, count: usize, keys: usize) -> Vec<Message> {
        let message = |n| self.message(&format!("{prefix}{n}"), &format!("{prefix}-key-{}", n % keys));
        (0..count).map(message).collect()
    }

    /// Waits until the reader has seen all of these, and gives everything it saw.
    pub(super) async fn until_arrived(&self, messages: &[Message]) -> Vec<Arrived> {
        let wanted: BTreeSet<&str> = messages.iter().map(|message| message.event_id.as_str()).collect();
        eventually("what was confirmed can be read", async || {
            let arrived = self.broker.arrived().await;
            let seen: BTreeSet<&str> = arrived.iter().map(|message| message.event_id.as_str()).collect();
            wanted.is_subset(&seen).then_some(arrived)
        })
        .await
    }
}

pub(super) async fn publish(sink: &Arc<dyn Sink>, batch: &[Message]) -> Vec<Answer> {
    let answers = sink.publish(batch.into()).await;
    assert_eq!(answers.len(), batch.len(), "a sink answers for every message");
    answers
}

/// Publishes what a healthy destination takes.
pub(super) async fn publish_all(sink: &Arc<dyn Sink>, batch: &[Message]) {
    for (message, answer) in batch.iter().zip(publish(sink, batch).await) {
        assert!(is_confirmed(&answer), "{}: {answer:?}", message.event_id);
    }
}

pub(super) fn is_confirmed(answer: &Answer) -> bool {
    matches!(answer, Answer::Confirmed(_))
}

/// The ids that are asked for, in the order in which each arrived first.
pub(super) fn first_arrivals(arrived: &[Arrived], keep: impl Fn(&str) -> bool) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let ids = arrived.iter().map(|message| message.event_id.as_str());
    ids.filter(|id| keep(id) && seen.insert(*id)).collect()
}
