//! How a delivery stands is where its event is.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    ErrorKind, Failure, Park, QueuedRow, Settle, SettleQueued, Settled, Shard, Store, Token, Verb,
};
use postrider_notify::{Board, Channel, Delivery, DeliveryState};
use postrider_testkit::by_hand::{act, everything, heartbeat, parks, sent};

use super::Bench;
use super::stage::{accept, followed, with};

/// A relay that owns everything, moved by hand.
struct Relay {
    store: Arc<dyn Store>,
    fence: Vec<(Shard, Token)>,
}

impl Relay {
    async fn begin(bench: &dyn Bench) -> Self {
        let store = bench.store().await;
        let standing = store.heartbeat(heartbeat("relay")).await.expect("a heartbeat");
        let fence = standing
            .leases
            .iter()
            .map(|lease| (lease.shard, lease.token))
            .collect();
        Self { store, fence }
    }

    async fn queued(&self, id: &str) -> QueuedRow {
        let read = everything(self.fence.iter().map(|(shard, _)| *shard));
        let page = self.store.read(read).await.expect("a page");
        let row = page.queued.into_iter().find(|row| row.event_id.as_str() == id);
        row.expect("the event is queued")
    }

    async fn settle(&self, entry: SettleQueued) {
        let settle = Settle {
            fence: self.fence.clone(),
            queued: vec![entry],
            parked: vec![],
        };
        let settled = self.store.settle(Arc::new(settle)).await.expect("a settle");
        assert_eq!(settled, [Settled::Done]);
    }
}

/// The delivery by mail.
async fn mail(board: &Arc<dyn Board>, id: i64) -> Delivery {
    let one = board.notification(id).await.expect("asked").expect("there");
    assert_eq!(
        (one.deliveries[0].channel, &one.deliveries[0].state),
        (Channel::InApp, &DeliveryState::Stored)
    );
    one.deliveries.into_iter().nth(1).expect("a mail")
}

pub(crate) async fn a_delivery_stands_where_its_event_is(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    let mut ids = Vec::new();
    for n in 0..3 {
        let one = accept(&board, followed(&format!("e{n}"), "ann", &n.to_string()))
            .await
            .one;
        ids.push(one.expect("stored").entry.id);
    }
    let event_id = |at: usize| format!("notification-{}-email", ids[at]);
    let pending = mail(&board, ids[0]).await;
    assert_eq!(pending.event_id, Some(event_id(0)));
    assert!(
        matches!(&pending.state, DeliveryState::Pending { status, error: None } if status == "pending"),
        "{pending:?}"
    );
    let relay = Relay::begin(bench).await;
    relay
        .settle(sent(&relay.queued(&event_id(0)).await, "email"))
        .await;
    let delivered = mail(&board, ids[0]).await.state;
    assert!(
        matches!(delivered, DeliveryState::Delivered { at: Some(_) }),
        "{delivered:?}"
    );
    for (at, dead) in [(1, false), (2, true)] {
        let row = relay.queued(&event_id(at)).await;
        relay.settle(refused(&row, dead)).await;
    }
    let retried = mail(&board, ids[1]).await.state;
    let DeliveryState::Pending { status, error } = &retried else {
        panic!("{retried:?}");
    };
    assert_eq!((&**status, error.as_deref()), ("retrying", Some("mailbox full")));
    let dead = mail(&board, ids[2]).await.state;
    assert!(
        matches!(&dead, DeliveryState::Dead { error } if error == "mailbox full"),
        "{dead:?}"
    );
}

/// It was refused by the channel: parked, to be tried again or not.
fn refused(row: &QueuedRow, dead: bool) -> SettleQueued {
    let failure = Failure::new(ErrorKind::Rejected, "mailbox full");
    let park = Park {
        dead,
        next_attempt_in: Duration::from_secs(600),
        ..Park::dead(Some("email".into()), failure)
    };
    parks(row, vec![park])
}

pub(crate) async fn what_the_history_forgot_is_settled(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    let one = accept(&board, followed("e1", "ann", "bob"))
        .await
        .one
        .expect("stored");
    let relay = Relay::begin(bench).await;
    let event_id = format!("notification-{}-email", one.entry.id);
    relay.settle(sent(&relay.queued(&event_id).await, "email")).await;
    bench.run("DELETE FROM outbox_sent").await;
    assert_eq!(mail(&board, one.entry.id).await.state, DeliveryState::Settled);
}

pub(crate) async fn what_was_thrown_away_is_said(bench: &dyn Bench) {
    let board = with(bench, &["ann"]).await;
    let one = accept(&board, followed("e1", "ann", "bob"))
        .await
        .one
        .expect("stored");
    let relay = Relay::begin(bench).await;
    let event_id = format!("notification-{}-email", one.entry.id);
    relay.settle(refused(&relay.queued(&event_id).await, true)).await;
    let console = bench.console().await;
    console
        .act(act(Verb::Discard("test".to_owned()), &event_id))
        .await
        .expect("discarded");
    assert_eq!(mail(&board, one.entry.id).await.state, DeliveryState::Discarded);
}
