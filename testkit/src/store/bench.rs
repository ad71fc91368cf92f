//! What the cases are written with: an outbox to fill, and a relay that has no engine.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Console, Event, Heartbeat, Lane, Lease, Page, Park, ParkedRange, ParkedRow, QueuedRow, Read, RelayId,
    Settle, SettleParked, SettleQueued, Settled, Shard, Standing, Store, Then, Token, Upkeep,
};

use super::crash::Doomed;
use super::words::{event, goes_on, names, parks_as, range, waiting};
use super::{StoreCapabilities, StoreHarness, TestOutbox, Writer};

/// A term that no case outlives.
pub(super) const LONG: Duration = Duration::from_secs(120);
/// A term that a case waits out.
pub(super) const SHORT: Duration = Duration::from_millis(300);
/// What the relays of the suite say they may have in flight.
pub(super) const WINDOW: u32 = 17;
/// A fresh outbox and what is known about its store.
pub struct Bench {
    outbox: Box<dyn TestOutbox>,
    pub(super) capabilities: StoreCapabilities,
}

impl Bench {
    pub(super) async fn new(harness: &dyn StoreHarness) -> Self {
        Self {
            outbox: harness.fresh().await,
            capabilities: harness.capabilities(),
        }
    }

    pub(super) async fn open(&self) -> Arc<dyn Store> {
        self.outbox.open().await
    }

    pub(super) fn console(&self) -> Arc<dyn Console> {
        let console = self.outbox.console();
        console.expect("a store without a console says so in its capabilities")
    }

    pub(super) fn upkeep(&self) -> Arc<dyn Upkeep> {
        let upkeep = self.outbox.upkeep();
        upkeep.expect("a store without a console says so in its capabilities")
    }

    pub(super) fn doomed(&self) -> Doomed {
        let doomed = self.outbox.doomed();
        doomed.expect("a store that ends with its process says so in its capabilities")
    }

    pub(super) async fn begin(&self) -> Box<dyn Writer> {
        self.outbox.begin().await
    }

    /// Commits events in one transaction.
    pub(super) async fn commit(&self, events: &[Event]) {
        let mut tx = self.begin().await;
        for event in events {
            tx.insert(event).await.expect("a valid event is inserted");
        }
        tx.commit().await;
    }

    /// A relay with a handle of its own that owns what it could get.
    pub(super) async fn relay(&self, name: &str) -> Relay {
        self.relay_with_term(name, LONG).await
    }

    pub(super) async fn relay_with_term(&self, name: &str, term: Duration) -> Relay {
        let mut relay = self.idle_relay(name, term).await;
        relay.beat().await;
        relay
    }

    /// A relay that has not spoken yet.
    pub(super) async fn idle_relay(&self, name: &str, term: Duration) -> Relay {
        Relay {
            store: self.open().await,
            id: RelayId(name.into()),
            term,
            shards: self.capabilities.shards,
            leases: Vec::new(),
            share: 0,
        }
    }

    /// Commits events and gives their rows and the relay that owns them: where most cases begin.
    pub(super) async fn queued(&self, events: &[Event]) -> (Relay, Vec<QueuedRow>) {
        self.commit(events).await;
        let relay = self.relay("relay").await;
        let rows = relay.queued().await;
        let ids: Vec<_> = rows.iter().map(|row| row.event_id.clone()).collect();
        let wanted: Vec<_> = events.iter().map(|event| event.id.clone()).collect();
        assert_eq!(
            ids, wanted,
            "every committed event is read, in the order of insertion"
        );
        (relay, rows)
    }

    /// Commits events and parks each as it is told to.
    pub(super) async fn parked(&self, events: &[(Event, Park)]) -> (Relay, Vec<QueuedRow>) {
        let (events, parks): (Vec<_>, Vec<_>) = events.iter().cloned().unzip();
        let (relay, rows) = self.queued(&events).await;
        let entries = rows
            .iter()
            .zip(parks)
            .map(|(row, park)| parks_as(row, vec![park]));
        let settled = relay.settle(entries.collect(), Vec::new()).await;
        assert_eq!(settled, vec![Settled::Done; rows.len()]);
        (relay, rows)
    }

    /// One row that is parked and due, and one that is queued, in the same shard.
    pub(super) async fn parked_and_queued(&self) -> (Relay, Vec<QueuedRow>) {
        let (relay, _) = self.parked(&[(event("parked", "k"), waiting("d"))]).await;
        self.commit(&[event("queued", "k")]).await;
        let rows = relay.queued().await;
        (relay, rows)
    }
}

/// A relay without an engine: it does what a case tells it to.
pub(super) struct Relay {
    pub(super) store: Arc<dyn Store>,
    pub(super) id: RelayId,
    pub(super) term: Duration,
    pub(super) leases: Vec<Lease>,
    pub(super) share: u16,
    shards: u16,
}

impl Relay {
    /// What it says when all is well.
    pub(super) fn heartbeat(&self) -> Heartbeat {
        Heartbeat {
            relay: self.id.clone(),
            term: self.term,
            held: self.fence(),
            release: Vec::new(),
            claim: true,
            window: WINDOW,
            suspects: Vec::new(),
        }
    }

    pub(super) async fn beat(&mut self) {
        self.say(self.heartbeat()).await;
    }

    /// Says something else than usual, and believes the answer.
    pub(super) async fn say(&mut self, beat: Heartbeat) -> Standing {
        let standing = self.store.heartbeat(beat).await.expect("a heartbeat is answered");
        self.leases = standing.leases.clone();
        self.leases.sort_by_key(|lease| lease.shard);
        self.share = standing.share;
        standing
    }

    pub(super) fn lease(&self, shard: Shard) -> Option<&Lease> {
        self.leases.iter().find(|lease| lease.shard == shard)
    }

    pub(super) fn fence(&self) -> Vec<(Shard, Token)> {
        self.leases
            .iter()
            .map(|lease| (lease.shard, lease.token))
            .collect()
    }

    pub(super) fn every_shard(&self) -> Vec<Shard> {
        (0..self.shards).map(Shard).collect()
    }

    /// Everything queued and everything due.
    pub(super) fn everything(&self) -> Read {
        let ranges = self
            .every_shard()
            .into_iter()
            .flat_map(|shard| Lane::ALL.map(|lane| range(shard, lane)));
        Read {
            ranges: ranges.collect(),
            max_bytes: usize::MAX / 4,
            parked: self.every_parked(),
            skip_dead: Vec::new(),
        }
    }

    pub(super) fn every_parked(&self) -> ParkedRange {
        ParkedRange {
            shards: self.every_shard(),
            heads: 1_000,
            followers: 0,
            busy: Vec::new(),
            not_for: Vec::new(),
        }
    }

    pub(super) async fn read(&self, read: Read) -> Page {
        let ranges = read.ranges.len();
        let page = self.store.read(read).await.expect("a read is answered");
        assert_eq!(
            page.read_to.len(),
            ranges,
            "a read says for each range how far it went"
        );
        page
    }

    /// All queued rows, by place.
    pub(super) async fn queued(&self) -> Vec<QueuedRow> {
        let mut rows = self.read(self.everything()).await.queued;
        rows.sort_by_key(|row| row.seq);
        rows
    }

    /// The rows that are due, as the page orders them.
    pub(super) async fn due(&self) -> Vec<ParkedRow> {
        self.read(self.everything()).await.parked
    }

    /// Ids and destinations of what is due, by place.
    pub(super) async fn due_names(&self) -> Vec<(String, String)> {
        self.due_names_of(self.everything()).await
    }

    pub(super) async fn due_names_of(&self, read: Read) -> Vec<(String, String)> {
        let mut rows = self.read(read).await.parked;
        rows.sort_by(|a, b| (a.row.seq, &a.destination).cmp(&(b.row.seq, &b.destination)));
        names(&rows)
    }

    pub(super) async fn settle(&self, queued: Vec<SettleQueued>, parked: Vec<SettleParked>) -> Vec<Settled> {
        let count = queued.len() + parked.len();
        let settled = self.settle_all(Settle {
            fence: self.fence(),
            queued,
            parked,
        });
        let settled = settled.await;
        assert_eq!(settled.len(), count, "a settle answers for every entry");
        settled
    }

    pub(super) async fn settle_all(&self, settle: Settle) -> Vec<Settled> {
        let answer = self.store.settle(Arc::new(settle)).await;
        answer.expect("a settle is answered")
    }

    pub(super) async fn settle_one(&self, entry: SettleQueued) -> Settled {
        self.settle(vec![entry], Vec::new()).await[0]
    }

    pub(super) async fn settle_parked(&self, row: &ParkedRow, then: Then) -> Settled {
        self.settle(Vec::new(), vec![goes_on(row, then)]).await[0]
    }
}
