//! How fast the statements are, without an engine: printed, not judged. `cargo test --release -- --ignored drain`

use std::sync::Arc;
use std::time::Instant;

use postrider_core::{Lane, Range, Read, Seq, Settle, Settled, Shard, Store};
use postrider_postgres::PgOptions;

use crate::common::{Db, heartbeat, sent};

async fn drain(name: &str, rows: usize, options: PgOptions) {
    let db = Db::with(options).await;
    db.sql(&format!(
        "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload)
         SELECT lpad(to_hex(n), 12, '0') || substr(md5(n::text), 1, 20), 'OrderCreated', 'ORDER', (n % 5000)::text,
                '{{\"order\":' || n || ',\"pad\":\"' || repeat('x', 220) || '\"}}' FROM generate_series(1, {rows}) n"
    ));
    db.sql("VACUUM ANALYZE outbox");
    let standing = db.store.heartbeat(heartbeat("one")).await.expect("a heartbeat");
    let fence: Vec<_> = standing
        .leases
        .iter()
        .map(|lease| (lease.shard, lease.token))
        .collect();
    let mut floors = vec![Seq(0); fence.len()];
    let (mut count, began) = (0, Instant::now());
    let mut pending: std::collections::VecDeque<tokio::task::JoinHandle<()>> = Default::default();
    loop {
        let ranges = (0u16..).zip(&floors).map(|(shard, floor)| Range {
            shard: Shard(shard),
            lane: Lane::Normal,
            floor: *floor,
            skip: vec![],
            limit: 32,
        });
        let read = Read {
            ranges: ranges.collect(),
            max_bytes: 64 << 20,
            ..Read::default()
        };
        let page = db.store.read(read).await.expect("a page");
        if page.queued.is_empty() {
            break;
        }
        for row in &page.queued {
            let floor = &mut floors[usize::from(row.shard.0)];
            *floor = (*floor).max(row.seq);
        }
        count += page.queued.len();
        let settle = Settle {
            fence: fence.clone(),
            queued: page.queued.iter().map(|row| sent(row, "d")).collect(),
            parked: vec![],
        };
        while pending.len() >= 2 {
            pending.pop_front().expect("one").await.expect("settled");
        }
        let store = db.store.clone();
        pending.push_back(tokio::spawn(async move {
            let settled = store.settle(Arc::new(settle)).await.expect("settled");
            assert!(settled.iter().all(|one| *one == Settled::Done));
        }));
    }
    for one in pending {
        one.await.expect("settled");
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{name:32} {count} in {seconds:5.2} s = {:8.0}/s",
        count as f64 / seconds
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn drain_rates() {
    let rows = 300_000;
    let plain = PgOptions {
        history: None,
        ..PgOptions::default()
    };
    drain("no history", rows, plain).await;
    let unchecked = PgOptions {
        dedup: None,
        ..PgOptions::default()
    };
    drain("history", rows, unchecked).await;
    drain("history and duplicate check", rows, PgOptions::default()).await;
}
