//! A relay without an engine, moved by hand: what the tests of a store are written with, in the suite and beyond it.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Act, Event, Filter, Heartbeat, JobId, JobKind, Lane, Leaves, NewJob, Page, Park, ParkedRange, ParkedRow,
    QueuedRow, Range, Read, Receipt, RelayId, Replay, Seq, Settle, SettleParked, SettleQueued, Settled,
    Shard, Store, Then, Token, Verb,
};

/// A relay that owns shards.
#[derive(Clone, Debug)]
pub struct Relay<S> {
    /// Its handle.
    pub store: S,
    /// What it owns.
    pub fence: Vec<(Shard, Token)>,
}

impl<S: Store> Relay<S> {
    /// A relay that owns what it could get.
    pub async fn begin(store: S, name: &str) -> Self {
        let standing = store.heartbeat(heartbeat(name)).await.expect("a heartbeat");
        let own = standing.leases.iter().map(|lease| (lease.shard, lease.token));
        let fence = own.collect();
        Self { store, fence }
    }

    /// Asks for everything that it owns.
    pub fn everything(&self) -> Read {
        everything(self.fence.iter().map(|(shard, _)| *shard))
    }

    /// Reads everything.
    pub async fn page(&self) -> Page {
        self.store.read(self.everything()).await.expect("a page")
    }

    /// Everything queued, by place.
    pub async fn queued(&self) -> Vec<QueuedRow> {
        let mut rows = self.page().await.queued;
        rows.sort_by_key(|row| row.seq);
        rows
    }

    /// Settles.
    pub async fn settle(&self, queued: Vec<SettleQueued>, parked: Vec<SettleParked>) -> Vec<Settled> {
        let settle = Settle {
            fence: self.fence.clone(),
            queued,
            parked,
        };
        self.store.settle(Arc::new(settle)).await.expect("a settle")
    }

    /// Settles everything queued as sent; answers how many.
    pub async fn send_all(&self) -> usize {
        let entries: Vec<_> = self.queued().await.iter().map(|row| sent(row, "d")).collect();
        let count = entries.len();
        assert_eq!(self.settle(entries, vec![]).await, vec![Settled::Done; count]);
        count
    }
}

/// What a relay says that wants every shard, for a minute.
pub fn heartbeat(name: &str) -> Heartbeat {
    Heartbeat {
        relay: RelayId(name.into()),
        term: Duration::from_secs(60),
        held: vec![],
        release: vec![],
        claim: true,
        window: 7,
        suspects: vec![],
    }
}

/// Asks for everything in these shards.
pub fn everything(shards: impl IntoIterator<Item = Shard>) -> Read {
    let shards: Vec<_> = shards.into_iter().collect();
    let of_shard = |shard: &Shard| {
        Lane::ALL.map(|lane| Range {
            limit: 1_000_000,
            ..range(*shard, lane)
        })
    };
    Read {
        ranges: shards.iter().flat_map(of_shard).collect(),
        max_bytes: usize::MAX,
        parked: ParkedRange {
            shards,
            heads: 1_000,
            ..ParkedRange::default()
        },
        skip_dead: vec![],
    }
}

/// A lane of a shard, from its beginning.
pub fn range(shard: Shard, lane: Lane) -> Range {
    Range {
        shard,
        lane,
        floor: Seq(0),
        skip: vec![],
        limit: 10_000,
    }
}

/// An event of a key.
pub fn event(id: &str, key: &str) -> Event {
    Event::builder("Tested")
        .id(id)
        .aggregate("THING", "1")
        .key(key)
        .json("{}")
        .build()
        .expect("a valid event")
}

/// What becomes of a queued row.
pub fn decided(row: &QueuedRow, leaves: Leaves) -> SettleQueued {
    SettleQueued {
        shard: row.shard,
        seq: row.seq,
        event_id: row.event_id.clone(),
        key: row.key.clone(),
        leaves,
    }
}

/// It was sent to one destination.
pub fn sent(row: &QueuedRow, destination: &str) -> SettleQueued {
    let sent = vec![(destination.into(), Receipt(Some("offset 1".into())))];
    decided(row, Leaves::Decided { sent, parked: vec![] })
}

/// It is parked.
pub fn parks(row: &QueuedRow, parked: Vec<Park>) -> SettleQueued {
    decided(row, Leaves::Decided { sent: vec![], parked })
}

/// What becomes of a parked row.
pub fn again(row: &ParkedRow, then: Then) -> SettleParked {
    SettleParked {
        shard: row.row.shard,
        seq: row.row.seq,
        destination: row.destination.clone(),
        version: row.version,
        then,
    }
}

/// A replay of everything.
pub fn replay_all() -> NewJob {
    NewJob {
        id: JobId::new(),
        kind: JobKind::Replay(Replay::default()),
        filter: Filter::default(),
        actor: "ann".to_owned(),
    }
}

/// What an operator does with one event.
pub fn act(verb: Verb, id: &str) -> Act {
    Act {
        verb,
        filter: Filter {
            event_id: vec![id.into()],
            ..Filter::default()
        },
        dry_run: false,
        actor: "test".into(),
        limit: 10,
        from: None,
    }
}
