//! What the cases are written with: deliveries, scripts, and a place where a handler waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use postrider_core::{
    Address, Applied, ApplyError, BoxFuture, HandlerError, Message, OrderKey, Received, header,
};
use tokio::sync::Semaphore;

use super::{Applies, EffectsHarness, Script, TestInbox};
use crate::wait::{PATIENCE, eventually};

/// Who consumes, unless a case says otherwise.
pub(super) const CONSUMER: &str = "billing";

/// A fresh database.
pub struct Bench {
    pub(super) inbox: Box<dyn TestInbox>,
}

impl Bench {
    pub(super) async fn new(harness: &dyn EffectsHarness) -> Self {
        Self {
            inbox: harness.fresh().await,
        }
    }

    pub(super) async fn open(&self) -> Arc<dyn Applies> {
        self.inbox.open().await
    }

    /// Lets deliveries take effect, through an `Effects` of their own.
    pub(super) async fn apply(&self, deliveries: Vec<Received>) -> Result<Vec<Applied>, ApplyError> {
        self.open().await.apply(CONSUMER, deliveries, nothing()).await
    }

    pub(super) async fn took_effect(&self, expected: &[&str]) {
        assert_eq!(self.inbox.effects().await, expected, "what took effect");
    }
}

/// A delivery of the event with this id.
pub fn received(id: &str) -> Received {
    with_hash(id, None)
}

pub(super) fn with_hash(id: &str, hash: Option<&str>) -> Received {
    let mut headers = vec![(header::EVENT_TYPE.to_owned(), "Tested".to_owned())];
    headers.extend(hash.map(|hash| (header::PAYLOAD_HASH.to_owned(), hash.to_owned())));
    let payload = Bytes::from_static(b"{\"total\": 1250}");
    Received {
        message: Message {
            event_id: id.into(),
            order_key: OrderKey::new(id),
            message_key: id.to_owned(),
            address: Address::default(),
            content_type: "application/json".to_owned(),
            headers,
            body: payload.clone(),
        },
        record_id: id.to_owned(),
        payload: Some(payload),
        content_type: "application/json".to_owned(),
        attempt: 1,
        redelivered: 0,
    }
}

/// The handler does nothing but the effect.
pub(super) fn nothing() -> Arc<Script> {
    Arc::new(|_| Box::pin(async { Ok(()) }))
}

/// The handler fails for this event.
pub(super) fn fails(id: &'static str, error: fn() -> HandlerError) -> Arc<Script> {
    Arc::new(move |event| {
        let fails = event.event_id() == id;
        Box::pin(async move { if fails { Err(error()) } else { Ok(()) } })
    })
}

/// Calls something on the way.
pub(super) fn calls(call: impl Fn(&Received) + Send + Sync + 'static) -> Arc<Script> {
    Arc::new(move |event| -> BoxFuture<'static, _> {
        call(event);
        Box::pin(async { Ok(()) })
    })
}

/// A place where handlers wait until they are let go.
pub(super) struct Gate {
    arrived: AtomicUsize,
    open: Semaphore,
}

impl Gate {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            arrived: AtomicUsize::new(0),
            open: Semaphore::new(0),
        })
    }

    /// A handler that waits here, and then ends so.
    pub(super) fn then(self: &Arc<Self>, end: fn() -> Result<(), HandlerError>) -> Arc<Script> {
        let gate = Arc::clone(self);
        Arc::new(move |_| {
            let gate = Arc::clone(&gate);
            Box::pin(async move {
                gate.arrived.fetch_add(1, Ordering::SeqCst);
                let opened = tokio::time::timeout(PATIENCE, gate.open.acquire()).await;
                drop(opened.expect("the case lets go").expect("the gate is there"));
                end()
            })
        })
    }

    pub(super) fn arrivals(&self) -> usize {
        self.arrived.load(Ordering::SeqCst)
    }

    /// Waits until so many handlers have come here.
    pub(super) async fn arrived(&self, count: usize) {
        eventually("a handler at the gate", async || {
            (self.arrivals() >= count).then_some(())
        })
        .await;
    }

    /// Lets everybody go, those who come later too.
    pub(super) fn open(&self) {
        self.open.add_permits(1_000);
    }
}
