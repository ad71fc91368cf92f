//! What the cases are written with: a queue, messages in it, and sources of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use postrider_core::{Address, Incoming, Message, OrderKey, Source, Verdict, header};

use super::{SourceHarness, TestQueue};
use crate::wait::within;

/// A queue that delivers nothing for this long delivers nothing.
const SILENCE: Duration = Duration::from_millis(500);

/// A fresh queue.
pub struct Bench {
    pub(super) queue: Box<dyn TestQueue>,
    /// How long something that must come may take.
    pub(super) patience: Duration,
}

impl Bench {
    pub(super) async fn new(harness: &dyn SourceHarness) -> Self {
        Self {
            queue: harness.fresh().await,
            patience: harness.capabilities().patience,
        }
    }

    pub(super) async fn open(&self) -> Arc<dyn Source> {
        self.queue.open().await
    }

    /// Puts in messages `m0` upwards and gives their ids.
    pub(super) async fn filled(&self, count: usize) -> Vec<String> {
        let ids: Vec<String> = (0..count).map(|n| format!("m{n}")).collect();
        self.queue.put(ids.iter().map(|id| message(id)).collect()).await;
        ids
    }

    /// At least one message. An error is not the end: the next call connects again.
    pub(super) async fn receive(&self, source: &Arc<dyn Source>, max: usize) -> Vec<Incoming> {
        let received = within(self.patience, "a message comes", async || {
            source.receive(max).await.ok()
        });
        match tokio::time::timeout(self.patience, received).await {
            Ok(received) => received,
            Err(_) => panic!("no message came within {:?}", self.patience),
        }
    }

    /// Exactly this many messages, none of them settled.
    pub(super) async fn gather(&self, source: &Arc<dyn Source>, count: usize) -> Vec<Incoming> {
        let mut all = Vec::new();
        while all.len() < count {
            all.extend(self.receive(source, count - all.len()).await);
        }
        assert_eq!(all.len(), count, "no more than asked for are returned");
        all
    }

    /// What another source finds in the queue after these have been settled: exactly the ids that are expected.
    pub(super) async fn left(&self, expected: &[String]) {
        let source = self.open().await;
        let mut left: Vec<String> = Vec::new();
        while left.len() < expected.len() {
            let received = self.receive(&source, 100).await;
            left.extend(ids(&received));
            settle_all(&source, &received, Verdict::Done).await;
        }
        let more = quiet(&source).await;
        assert!(more.is_empty(), "left over and not expected: {:?}", ids(&more));
        let (left, expected): (BTreeSet<_>, BTreeSet<_>) = (left.iter().collect(), expected.iter().collect());
        assert_eq!(left, expected, "what is left in the queue");
        source.close().await;
    }
}

/// A message whose body holds its id.
pub(super) fn message(id: &str) -> Message {
    message_with(id, format!("{{\"id\":{id:?}}}"))
}

pub(super) fn message_with(id: &str, body: impl Into<Bytes>) -> Message {
    let headers = [
        (header::EVENT_TYPE, "Tested"),
        (header::EVENT_KEY, id),
        ("traceparent", "00-é"),
    ];
    Message {
        event_id: id.into(),
        order_key: OrderKey::new(id),
        message_key: id.to_owned(),
        address: Address::default(),
        content_type: "application/vnd.test+json".to_owned(),
        headers: headers
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        body: body.into(),
    }
}

pub(super) fn ids(received: &[Incoming]) -> Vec<String> {
    let id = |incoming: &Incoming| incoming.message.event_id.to_string();
    received.iter().map(id).collect()
}

/// What comes although nothing should.
pub(super) async fn quiet(source: &Arc<dyn Source>) -> Vec<Incoming> {
    match tokio::time::timeout(SILENCE, source.receive(100)).await {
        Ok(Ok(received)) => received,
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

pub(super) async fn settle_all(source: &Arc<dyn Source>, received: &[Incoming], verdict: Verdict) {
    let verdicts = received.iter().map(|incoming| (incoming.tag, verdict));
    let settled = source.settle(verdicts.collect()).await;
    settled.expect("a live source takes verdicts");
}
