//! Who is told at once that something was stored: the relay of deliveries, the worker, and feeds that are open. All of
//! them look by themselves as well, so a bell that is lost costs a second and nothing else.

use std::sync::{Arc, OnceLock};

use postrider_core::{Applied, ApplyError, BoxFuture, Effects, Received};
use postrider_relay::Nudge;
use tokio::sync::Notify;

use crate::http::Hub;
use crate::{Board, Occasion, To};

/// The bells of one process. They are hung up one by one, because whoever rings is built before whoever hears.
#[derive(Default)]
pub(super) struct Bells {
    pub(super) relay: OnceLock<Nudge>,
    pub(super) worker: OnceLock<Arc<Notify>>,
    pub(super) hub: OnceLock<Hub>,
}

impl Bells {
    /// Something was stored for these people.
    fn ring<'a>(&self, events: impl Iterator<Item = &'a Received>) {
        self.wake();
        // Reading an event once more is not worth it while nobody watches.
        let Some(hub) = self.hub.get().filter(|hub| hub.streams() > 0) else {
            return;
        };
        for event in events {
            match Occasion::read(event).map(|occasion| occasion.to) {
                Ok(To::User(user)) => hub.nudge(&user),
                Ok(To::Topic(_)) => return hub.nudge_all(),
                Err(_) => {}
            }
        }
    }

    /// Something was stored for somebody.
    pub(super) fn ring_for_all(&self) {
        self.wake();
        if let Some(hub) = self.hub.get() {
            hub.nudge_all();
        }
    }

    /// Something was stored that is to be delivered, or gone on with.
    pub(super) fn wake(&self) {
        if let Some(relay) = self.relay.get() {
            relay.nudge();
        }
        if let Some(worker) = self.worker.get() {
            worker.notify_one();
        }
    }
}

/// Effects that ring when something took effect, and then have it counted.
pub(super) struct Ringing<E> {
    pub(super) effects: Arc<E>,
    pub(super) bells: Arc<Bells>,
    pub(super) board: Arc<dyn Board>,
}

impl<E> Clone for Ringing<E> {
    fn clone(&self) -> Self {
        Self {
            effects: Arc::clone(&self.effects),
            bells: Arc::clone(&self.bells),
            board: Arc::clone(&self.board),
        }
    }
}

impl<E: Effects> Effects for Ringing<E> {
    type Handler = E::Handler;

    fn apply(
        &self,
        consumer: Arc<str>,
        deliveries: Arc<[Received]>,
        handler: Arc<Self::Handler>,
    ) -> BoxFuture<'_, Result<Vec<Applied>, ApplyError>> {
        Box::pin(async move {
            let applied = self.effects.apply(consumer, deliveries.clone(), handler).await;
            let tally = self.board.tally();
            for (at, event) in deliveries.iter().enumerate() {
                let is_new = matches!(&applied, Ok(applied) if applied.get(at) == Some(&Applied::Now));
                tally.settle(event.event_id(), is_new);
            }
            let applied = applied?;
            let pairs = deliveries.iter().zip(&applied);
            let mut new = pairs
                .filter(|(_, applied)| **applied == Applied::Now)
                .map(|(event, _)| event)
                .peekable();
            if new.peek().is_some() {
                self.bells.ring(new);
            }
            Ok(applied)
        })
    }
}
