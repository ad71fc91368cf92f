//! A program without an engine: the relay's own read and settle statements, one task, nothing between them.

use std::collections::VecDeque;
use std::sync::Arc;

use postrider_core::{
    Heartbeat, Lane, Leaves, Page, ParkedRange, Range, Read, Receipt, RelayId, Seq, Settle, SettleQueued,
    Settled, Shard, Store, Token,
};
use postrider_postgres::PgStore;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::Failure;
use crate::rates::Rates;

/// Rows of one shard in one read: 2,048 over 64 shards, as much as a relay keeps in memory.
const LIMIT: u32 = 32;
/// Settles under way while the next page is read; more gain nothing.
const UNDER_WAY: usize = 2;
/// Bytes of one read, as the relay has them.
const MAX_BYTES: usize = 16 << 20;

/// Empties the outbox.
pub(crate) async fn drain(store: &PgStore) -> Result<Value, Failure> {
    let fence = claim(store).await?;
    let mut floors = vec![Seq(0); fence.len()];
    let mut rates = Rates::default();
    let mut settling: VecDeque<JoinHandle<Result<(), Failure>>> = VecDeque::new();
    loop {
        let page = store.read(question(&floors)).await?;
        if page.queued.is_empty() {
            break;
        }
        for row in &page.queued {
            let floor = &mut floors[usize::from(row.shard.0)];
            *floor = (*floor).max(row.seq);
        }
        if settling.len() >= UNDER_WAY
            && let Some(earliest) = settling.pop_front()
        {
            earliest.await??;
        }
        rates.count(page.queued.len());
        settling.push_back(tokio::spawn(settle(store.clone(), fence.clone(), page)));
    }
    for one in settling {
        one.await??;
    }
    rates.count(0);
    Ok(rates.json())
}

async fn claim(store: &PgStore) -> Result<Vec<(Shard, Token)>, Failure> {
    let beat = Heartbeat {
        relay: RelayId("bare".into()),
        term: std::time::Duration::from_secs(600),
        held: vec![],
        release: vec![],
        claim: true,
        window: 0,
        suspects: vec![],
    };
    let standing = store.heartbeat(beat).await?;
    let fence: Vec<_> = standing
        .leases
        .iter()
        .map(|lease| (lease.shard, lease.token))
        .collect();
    match fence.len() == usize::from(standing.shards) {
        true => Ok(fence),
        false => Err("another relay owns some of the shards".into()),
    }
}

/// What a relay asks: every lane, and parked rows that are due.
fn question(floors: &[Seq]) -> Read {
    let shards = (0..).map(Shard).take(floors.len());
    let ranges = shards.clone().zip(floors).flat_map(|(shard, floor)| {
        Lane::ALL.map(|lane| Range {
            shard,
            lane,
            floor: *floor,
            skip: vec![],
            limit: LIMIT,
        })
    });
    Read {
        ranges: ranges.collect(),
        max_bytes: MAX_BYTES,
        parked: ParkedRange {
            shards: shards.collect(),
            heads: 256,
            followers: 64,
            ..ParkedRange::default()
        },
        skip_dead: vec![],
    }
}

async fn settle(store: PgStore, fence: Vec<(Shard, Token)>, page: Page) -> Result<(), Failure> {
    let queued = page.queued.iter().map(|row| SettleQueued {
        shard: row.shard,
        seq: row.seq,
        event_id: row.event_id.clone(),
        key: row.key.clone(),
        leaves: Leaves::Decided {
            sent: vec![("null".into(), Receipt::default())],
            parked: vec![],
        },
    });
    let settle = Settle {
        fence,
        queued: queued.collect(),
        parked: vec![],
    };
    let settled = store.settle(Arc::new(settle)).await?;
    match settled.iter().all(|one| *one == Settled::Done) {
        true => Ok(()),
        false => Err("a row was not settled".into()),
    }
}
