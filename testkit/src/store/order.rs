//! Transactions: what is seen, when, and in which order.

use std::collections::BTreeSet;

use postrider_core::{Lane, Read, Seq};

use super::Writer;
use super::bench::{Bench, Relay};
use super::words::{event, ids, range, sent};
use crate::wait::eventually;

pub(super) async fn a_transaction_keeps_its_order(bench: Bench) {
    bench
        .commit(&[event("a1", "a"), event("b1", "b"), event("a2", "a")])
        .await;
    bench.commit(&[event("a3", "a")]).await;
    bench.commit(&[event("b2", "b"), event("a4", "a")]).await;
    let rows = bench.relay("one").await.queued().await;
    assert_eq!(ids(&rows), ["a1", "b1", "a2", "a3", "b2", "a4"]);
    assert!(
        rows.is_sorted_by(|a, b| a.seq < b.seq),
        "a place is had by one row only"
    );
}

/// Fault A1.
pub(super) async fn rolled_back_rows_are_never_seen(bench: Bench) {
    let mut tx = bench.begin().await;
    tx.insert(&event("never", "k")).await.expect("inserted");
    tx.rollback().await;
    bench.commit(&[event("once", "k")]).await;
    let mut tx = bench.begin().await;
    tx.insert(&event("dropped", "k")).await.expect("inserted");
    drop(tx);
    let relay = bench.relay("one").await;
    assert_eq!(
        ids(&relay.queued().await),
        ["once"],
        "no event without its transaction"
    );
}

pub(super) async fn open_transactions_are_not_seen(bench: Bench) {
    let relay = bench.relay("one").await;
    let mut tx = bench.begin().await;
    tx.insert(&event("late", "k")).await.expect("inserted");
    assert!(
        relay.queued().await.is_empty(),
        "nothing is published before its commit"
    );
    tx.commit().await;
    assert_eq!(ids(&relay.queued().await), ["late"]);
}

pub(super) async fn the_horizon_covers_what_is_decided(bench: Bench) {
    bench.commit(&[event("a", "k"), event("b", "k")]).await;
    let relay = bench.relay("one").await;
    // A store that samples its writers may need a moment to be sure.
    eventually("the horizon reaches the last row", async || {
        let page = relay.read(relay.everything()).await;
        let last = page.queued.iter().map(|row| row.seq).max()?;
        (page.horizon >= last).then_some(())
    })
    .await;
}

/// Fault A6.
pub(super) async fn the_horizon_stays_below_open_transactions(bench: Bench) {
    let relay = bench.relay("one").await;
    let mut slow = bench.begin().await;
    slow.insert(&event("slow", "a")).await.expect("inserted");
    bench.commit(&[event("quick", "b")]).await;
    let mut highest = Seq(0);
    for _ in 0..20 {
        let page = relay.read(relay.everything()).await;
        assert_eq!(ids(&page.queued), ["quick"]);
        highest = highest.max(page.horizon);
        // The horizon must not move for a while, and a store may look at the open transactions only now and then.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    slow.commit().await;
    let rows = relay.queued().await;
    let slow = rows
        .iter()
        .find(|row| row.event_id.as_str() == "slow")
        .expect("committed");
    assert!(highest < slow.seq, "a horizon above an undecided row strands it");
}

/// Fault A4.
///
/// Sixteen keys, two writers a key that take turns, many transactions open at a time and committed out of order, read
/// by a relay that moves its floors by the engine's rule. Nothing is stranded and no key is turned round.
pub(super) async fn a_floor_by_the_rule_finds_late_commits(bench: Bench) {
    const KEYS: usize = 16;
    const TURNS: usize = 6;
    let mut reader = Reader::new(bench.relay("one").await);
    let mut open: Vec<Option<Box<dyn Writer>>> = (0..KEYS).map(|_| None).collect();
    let mut done = [0; KEYS];
    // A fixed walk over the keys: each step commits the key's open transaction or begins its next one, so that
    // transactions overlap in every way while each key has one writer at a time.
    for step in 0.. {
        let key = (step * 7 + step / KEYS * 3) % KEYS;
        match open[key].take() {
            Some(tx) => {
                tx.commit().await;
                done[key] += 1;
            }
            None if done[key] < TURNS => {
                let mut tx = bench.begin().await;
                let event = event(&format!("{key}#{}", done[key]), &format!("key-{key}"));
                tx.insert(&event).await.expect("inserted");
                open[key] = Some(tx);
            }
            None => {}
        }
        reader.step().await;
        if done.iter().all(|turns| *turns == TURNS) {
            break;
        }
    }
    eventually("every committed row is read", async || {
        reader.step().await;
        (reader.seen.len() == KEYS * TURNS).then_some(())
    })
    .await;
    for key in 0..KEYS {
        let of_key = |id: &&String| id.starts_with(&format!("{key}#"));
        let turns: Vec<_> = reader.seen.iter().filter(of_key).cloned().collect();
        let wanted: Vec<_> = (0..TURNS).map(|turn| format!("{key}#{turn}")).collect();
        assert_eq!(turns, wanted, "a key keeps its order");
    }
}

pub(super) async fn places_are_never_used_again(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("first", "k")]).await;
    let settle = sent(&rows[0], &["d"]);
    relay.settle_one(settle.clone()).await;
    bench.commit(&[event("second", "k")]).await;
    let next = relay.queued().await;
    assert!(
        next[0].seq > rows[0].seq,
        "a place that is used again lets an old settle meet a new event"
    );
    relay.settle_one(settle).await;
    assert_eq!(ids(&relay.queued().await), ["second"]);
}

/// Faults A3 and G10.
pub(super) async fn an_id_is_queued_once(bench: Bench) {
    bench.commit(&[event("same", "k")]).await;
    let mut tx = bench.begin().await;
    let again = tx.insert(&event("same", "other")).await;
    assert!(
        again.is_err(),
        "an id that is queued is refused where the producer sees it"
    );
    tx.rollback().await;
    let mut tx = bench.begin().await;
    tx.insert(&event("other", "k")).await.expect("inserted");
    tx.commit().await;
    assert_eq!(ids(&bench.relay("one").await.queued().await), ["same", "other"]);
}

/// What the engine does with floors, and nothing else: every row it sees is settled one step later.
struct Reader {
    relay: Relay,
    floors: Vec<Seq>,
    /// Seen and not yet settled.
    held: Vec<postrider_core::QueuedRow>,
    seen: Vec<String>,
}

impl Reader {
    fn new(relay: Relay) -> Self {
        Self {
            floors: vec![Seq(0); relay.every_shard().len()],
            relay,
            held: Vec::new(),
            seen: Vec::new(),
        }
    }

    async fn step(&mut self) {
        let skip: Vec<Seq> = self.held.iter().map(|row| row.seq).collect();
        let shards = self.relay.every_shard().into_iter();
        let ranges = shards.zip(&self.floors).map(|(shard, floor)| {
            let mut range = range(shard, Lane::Normal);
            range.floor = *floor;
            range.limit = 4;
            range.skip = skip.clone();
            range
        });
        let read = Read {
            ranges: ranges.collect(),
            max_bytes: usize::MAX / 4,
            ..Read::default()
        };
        let page = self.relay.read(read).await;
        let settled: Vec<_> = std::mem::take(&mut self.held);
        for row in page.queued {
            self.seen.push(row.event_id.to_string());
            self.held.push(row);
        }
        for (shard, (floor, read_to)) in self.floors.iter_mut().zip(&page.read_to).enumerate() {
            let unsettled: BTreeSet<Seq> = settled
                .iter()
                .chain(&self.held)
                .filter(|row| usize::from(row.shard.0) == shard)
                .map(|row| row.seq)
                .collect();
            let lowest = unsettled.first().map_or(Seq::MAX, |seq| seq.before());
            *floor = (*floor).max(page.horizon.min(*read_to).min(lowest));
        }
        let entries = settled.iter().map(|row| sent(row, &["d"])).collect();
        self.relay.settle(entries, Vec::new()).await;
    }
}
