//! When a parked row is due: one rule, applied by reads.

use std::time::Duration;

use postrider_core::{ErrorKind, Failure, OrderKey, Park, ParkedRange, Read, Settled};

use super::bench::Bench;
use super::words::{dead, event, event_with, names, pairs, parks_as, refused, to, waiting};
use crate::wait::eventually;

const HOUR: Duration = Duration::from_secs(3_600);

pub(super) async fn a_parked_row_comes_due_at_once(bench: Bench) {
    let park = Park {
        attempts: 2,
        failures: 5,
        maybe_sent: true,
        ..refused("d", Duration::ZERO)
    };
    let (relay, rows) = bench.parked(&[(event("a", "k"), park)]).await;
    assert!(relay.queued().await.is_empty());
    let due = relay.due().await.remove(0);
    assert_eq!(due.destination, Some(to("d")));
    assert_eq!((due.attempts, due.failures), (2, 5));
    assert!(due.maybe_sent && !due.redriven);
    assert_eq!(
        (due.row.seq, due.row.shard, due.row.lane),
        (rows[0].seq, rows[0].shard, rows[0].lane)
    );
    assert_eq!(due.row.key, rows[0].key);
    let (read, queued) = (
        due.row.event.expect("an event"),
        rows[0].event.as_ref().expect("an event"),
    );
    assert_eq!(read.payload, queued.payload);
    assert_eq!(read.headers, queued.headers);
}

pub(super) async fn a_parked_row_comes_due_in_its_time(bench: Bench) {
    let soon = Duration::from_millis(400);
    let parks = [
        (event("a", "k"), refused("d", soon)),
        (event("b", "l"), refused("d", HOUR)),
    ];
    let asked = tokio::time::Instant::now();
    let (relay, _) = bench.parked(&parks).await;
    let page = relay.read(relay.everything()).await;
    if asked.elapsed() < soon {
        assert!(page.parked.is_empty(), "a row is not due before its time");
        let next = page.next_due_in.expect("something comes due by time alone");
        assert!(
            next <= soon,
            "the next row comes due within {soon:?}, not in {next:?}"
        );
    }
    let names = eventually("a row comes due in its time", async || {
        let due = relay.due_names().await;
        (!due.is_empty()).then_some(due)
    })
    .await;
    assert_eq!(names, pairs(&[("a", "d")]));
    assert!(asked.elapsed() >= soon, "it came due too early");
    let next = relay
        .read(relay.everything())
        .await
        .next_due_in
        .expect("the other one");
    assert!(next > HOUR - Duration::from_secs(60) && next <= HOUR);
}

pub(super) async fn dead_rows_are_never_due(bench: Bench) {
    let parks = [(event("a", "k"), dead(Some("d"))), (event("b", "l"), dead(None))];
    let (relay, _) = bench.parked(&parks).await;
    let page = relay.read(relay.everything()).await;
    assert!(page.parked.is_empty());
    assert_eq!(page.next_due_in, None, "time alone does not wake the dead");
}

pub(super) async fn closed_destinations_are_left_out(bench: Bench) {
    let parks = [
        (event("a", "k"), waiting("d")),
        (event("b", "l"), waiting("e")),
        (event("c", "m"), refused("d", HOUR)),
    ];
    let (relay, _) = bench.parked(&parks).await;
    let mut read = relay.everything();
    read.parked.not_for = vec![to("d")];
    let page = relay.read(read).await;
    assert_eq!(names(&page.parked), pairs(&[("b", "e")]));
    assert_eq!(
        page.next_due_in, None,
        "a closed destination has no time to wait for"
    );
    assert_eq!(
        relay.due_names().await.len(),
        2,
        "its rows go by themselves once it is open"
    );
}

pub(super) async fn heads_are_limited(bench: Bench) {
    let parks: Vec<_> = (0..10)
        .map(|n| (event(&format!("e{n}"), &format!("k{n}")), waiting("d")))
        .collect();
    let (relay, _) = bench.parked(&parks).await;
    let mut read = relay.everything();
    read.parked.heads = 3;
    let mut seen = Vec::new();
    for _ in 0..=10 {
        let page = relay.read(read.clone()).await;
        assert!(page.parked.len() <= 3);
        // What is held in memory makes room for the others.
        read.parked.busy.extend(
            page.parked
                .iter()
                .map(|row| (row.row.seq, row.destination.clone())),
        );
        seen.extend(names(&page.parked));
    }
    let distinct: std::collections::BTreeSet<_> = seen.iter().collect();
    assert_eq!(
        (seen.len(), distinct.len()),
        (10, 10),
        "every head comes in its turn, once"
    );
    read.parked.heads = 0;
    read.parked.busy.clear();
    assert!(relay.read(read).await.parked.is_empty());
}

pub(super) async fn shards_not_asked_for_are_left_out(bench: Bench) {
    let parks: Vec<_> = (0..20)
        .map(|n| (event(&format!("e{n}"), &format!("k{n}")), waiting("d")))
        .collect();
    let (relay, rows) = bench.parked(&parks).await;
    let read = Read {
        parked: ParkedRange {
            shards: vec![rows[0].shard],
            ..relay.every_parked()
        },
        ..relay.everything()
    };
    let due = relay.read(read).await.parked;
    assert!(!due.is_empty());
    assert!(due.iter().all(|row| row.row.shard == rows[0].shard));
    assert_eq!(
        due.len(),
        rows.iter().filter(|row| row.shard == rows[0].shard).count()
    );
}

pub(super) async fn bad_rows_stay_bad_when_parked(bench: Bench) {
    let mut tx = bench.begin().await;
    tx.insert_bad(&event("bad", "k"))
        .await
        .expect("inserted as a bad row");
    tx.commit().await;
    let relay = bench.relay("one").await;
    let row = relay.queued().await.remove(0);
    let park = Park {
        dead: false,
        ..Park::dead(None, Failure::new(ErrorKind::BadRow, "not an event"))
    };
    assert_eq!(relay.settle_one(parks_as(&row, vec![park])).await, Settled::Done);
    let due = relay.due().await;
    assert_eq!(
        names(&due),
        pairs(&[("bad", "-")]),
        "parked refuses nothing that the outbox accepted"
    );
    assert!(due[0].row.event.is_err());
    assert_ne!(due[0].row.key, OrderKey::new(""));
}

pub(super) async fn parked_bytes_are_bounded_but_one_row_always_comes(bench: Bench) {
    let kilobyte = format!("\"{}\"", "x".repeat(998));
    let parks: Vec<_> = (0..6)
        .map(|n| {
            (
                event_with(&format!("e{n}"), &format!("k{n}"), &kilobyte),
                waiting("d"),
            )
        })
        .collect();
    let (relay, _) = bench.parked(&parks).await;
    let bounded = |max_bytes| Read {
        max_bytes,
        ranges: Vec::new(),
        ..relay.everything()
    };
    assert_eq!(
        relay.read(bounded(0)).await.parked.len(),
        1,
        "or nothing would move"
    );
    let some = relay.read(bounded(2_500)).await.parked.len();
    assert!(
        (1..=2).contains(&some),
        "{some} rows of 1000 bytes for a bound of 2500"
    );
    assert_eq!(relay.read(bounded(1 << 20)).await.parked.len(), 6);
}

/// A store may look at so many lines in several reads. Once it has seen all of them, it knows when to look again.
pub(super) async fn many_lines_that_wait_are_left_alone(bench: Bench) {
    let parks: Vec<_> = (0..2_500)
        .map(|n| (event(&format!("e{n}"), &format!("k{n}")), refused("d", HOUR)))
        .collect();
    let (relay, _) = bench.parked(&parks).await;
    let mut waits = Vec::new();
    for _ in 0..4 {
        let page = relay.read(relay.everything()).await;
        assert!(page.parked.is_empty(), "nothing is due within the hour");
        waits.push(page.next_due_in.expect("something comes due by time alone"));
    }
    assert!(waits.iter().any(|wait| *wait > HOUR / 2), "{waits:?}");
}
