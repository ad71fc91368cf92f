//! What a read brings of the queue, and what it leaves out.

use std::collections::BTreeSet;

use postrider_core::{Event, Failure, Lane, QueuedRow, Range, Read, Seq};

use super::bench::Bench;
use super::words::{event, event_in, event_with, ids, range};

pub(super) async fn an_empty_outbox_gives_an_empty_page(bench: Bench) {
    let relay = bench.relay("one").await;
    let page = relay.read(relay.everything()).await;
    assert!(page.queued.is_empty() && page.parked.is_empty());
    assert!(
        page.read_to.iter().all(|to| *to == Seq::MAX),
        "every range was exhausted"
    );
    assert_eq!(page.next_due_in, None);
    let nothing = relay.read(Read::default()).await;
    assert!(
        nothing.queued.is_empty(),
        "a read that asks for nothing gets nothing"
    );
}

pub(super) async fn only_rows_above_the_floor_are_read(bench: Bench) {
    let (relay, rows) = bench.queued(&numbered(5)).await;
    let read = relay
        .read(one_range(&rows[0], |range| range.floor = rows[1].seq))
        .await;
    assert_eq!(ids(&read.queued), ["e2", "e3", "e4"]);
    let read = relay
        .read(one_range(&rows[0], |range| range.floor = rows[4].seq))
        .await;
    assert!(read.queued.is_empty());
    let read = relay
        .read(one_range(&rows[0], |range| range.floor = Seq::MAX))
        .await;
    assert!(read.queued.is_empty(), "nothing lies above every row");
}

pub(super) async fn skipped_rows_are_left_out_and_do_not_fill_the_limit(bench: Bench) {
    let (relay, rows) = bench.queued(&numbered(6)).await;
    let read = one_range(&rows[0], |range| {
        range.skip = vec![rows[0].seq, rows[1].seq, rows[3].seq];
        range.limit = 2;
    });
    let page = relay.read(read).await;
    assert_eq!(
        ids(&page.queued),
        ["e2", "e4"],
        "rows in memory do not fill the limit"
    );
    assert!(page.read_to[0] >= rows[4].seq && page.read_to[0] < rows[5].seq);
}

pub(super) async fn a_limit_pages_through_everything_once(bench: Bench) {
    let (relay, rows) = bench.queued(&numbered(25)).await;
    let mut seen = Vec::new();
    let mut floor = Seq(0);
    for _ in 0..=rows.len() {
        let read = one_range(&rows[0], |range| {
            range.floor = floor;
            range.limit = 4;
        });
        let page = relay.read(read).await;
        assert!(page.queued.len() <= 4, "a limit is a limit");
        let Some(last) = page.queued.last() else {
            assert_eq!(page.read_to[0], Seq::MAX);
            break;
        };
        assert!(page.read_to[0] >= last.seq, "what was returned was read to");
        floor = last.seq;
        seen.extend(ids(&page.queued));
    }
    assert_eq!(seen, ids(&rows), "every row once, ascending");
}

pub(super) async fn what_is_read_to_hides_no_row(bench: Bench) {
    let mut events = Vec::new();
    for n in 0..40 {
        events.push(event_in(
            &format!("e{n}"),
            &format!("k{}", n % 7),
            Lane::ALL[n % 3],
        ));
    }
    let (relay, rows) = bench.queued(&events).await;
    for limit in [0, 1, 3, 40] {
        let mut read = relay.everything();
        read.ranges.iter_mut().for_each(|range| range.limit = limit);
        let ranges = read.ranges.clone();
        let page = relay.read(read).await;
        let returned: BTreeSet<Seq> = page.queued.iter().map(|row| row.seq).collect();
        for (range, read_to) in ranges.iter().zip(&page.read_to) {
            let of_range = rows
                .iter()
                .filter(|row| (row.shard, row.lane) == (range.shard, range.lane));
            for row in of_range.filter(|row| row.seq <= *read_to) {
                assert!(
                    returned.contains(&row.seq),
                    "{:?} was left out below read_to",
                    row.event_id
                );
            }
        }
        assert!(returned.len() == page.queued.len(), "no row comes twice");
    }
}

/// Fault G7.
pub(super) async fn bytes_are_bounded_but_one_row_always_comes(bench: Bench) {
    let kilobyte = format!("\"{}\"", "x".repeat(998));
    let events: Vec<_> = (0..10)
        .map(|n| event_with(&format!("e{n}"), "k", &kilobyte))
        .collect();
    let (relay, rows) = bench.queued(&events).await;
    let bounded = |max_bytes| Read {
        max_bytes,
        ..one_range(&rows[0], |_| ())
    };
    assert_eq!(
        ids(&relay.read(bounded(0)).await.queued),
        ["e0"],
        "or nothing would move"
    );
    let page = relay.read(bounded(3_500)).await;
    let bytes: usize = page
        .queued
        .iter()
        .map(|row| payload_len(row.event.as_deref()))
        .sum();
    assert!(bytes <= 3_500, "{bytes} bytes for a bound of 3500");
    assert_eq!(
        ids(&page.queued),
        ids(&rows[..page.queued.len()]),
        "a bound cuts at the end"
    );
    assert!(
        page.read_to[0] < rows[page.queued.len()].seq,
        "what was cut off was not read to"
    );
    assert_eq!(relay.read(bounded(1 << 20)).await.queued.len(), 10);
}

/// Fault G7. What the relay keeps in memory is bounded, and headers are as large as payloads may be.
pub(super) async fn headers_and_names_are_bytes_too(bench: Bench) {
    let events: Vec<_> = (0..10)
        .map(|n| {
            let mut event = event(&format!("e{n}"), &"k".repeat(200));
            event.headers.insert("large".to_owned(), "x".repeat(800));
            event
        })
        .collect();
    let (relay, rows) = bench.queued(&events).await;
    let page = relay
        .read(Read {
            max_bytes: 3_500,
            ..one_range(&rows[0], |_| ())
        })
        .await;
    assert_eq!(page.queued.len(), 3, "three rows of a good 1000 bytes fit");
}

pub(super) async fn lanes_are_read_apart(bench: Bench) {
    let events = [
        event_in("low", "k", Lane::Low),
        event_in("normal", "k", Lane::Normal),
        event_in("high", "k", Lane::High),
        Event {
            priority: i32::MIN,
            ..event("lowest", "k")
        },
    ];
    let (relay, rows) = bench.queued(&events).await;
    for (lane, wanted) in [
        (Lane::High, vec!["high"]),
        (Lane::Normal, vec!["normal"]),
        (Lane::Low, vec!["low", "lowest"]),
    ] {
        let read = one_range(&rows[0], |range| range.lane = lane);
        assert_eq!(ids(&relay.read(read).await.queued), wanted, "{lane:?}");
    }
}

pub(super) async fn shards_are_read_apart(bench: Bench) {
    let events: Vec<_> = (0..50)
        .map(|n| event(&format!("e{n}"), &format!("k{n}")))
        .collect();
    let (relay, rows) = bench.queued(&events).await;
    let used: BTreeSet<_> = rows.iter().map(|row| row.shard).collect();
    assert!(used.len() > 1, "50 keys are spread over more than one shard");
    for shard in used {
        let read = Read {
            ranges: vec![range(shard, Lane::Normal)],
            ..relay.everything()
        };
        let page = relay.read(read).await;
        let wanted: Vec<_> = rows.iter().filter(|row| row.shard == shard).cloned().collect();
        assert_eq!(ids(&page.queued), ids(&wanted));
    }
}

/// Events of one key, e0 upwards.
fn numbered(count: usize) -> Vec<Event> {
    (0..count).map(|n| event(&format!("e{n}"), "k")).collect()
}

/// A read of the range that a row is in.
fn one_range(row: &QueuedRow, change: impl FnOnce(&mut Range)) -> Read {
    let mut range = range(row.shard, row.lane);
    change(&mut range);
    Read {
        ranges: vec![range],
        max_bytes: usize::MAX / 4,
        ..Read::default()
    }
}

fn payload_len(event: Result<&Event, &Failure>) -> usize {
    event.map_or(0, |event| event.payload.len())
}
