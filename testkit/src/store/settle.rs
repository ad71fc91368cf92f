//! What a settle writes, and what it leaves alone.

use std::time::Duration;

use postrider_core::{ErrorKind, Event, Failure, Leaves, Park, Receipt, Settle, Settled, Then, Token};

use super::bench::Bench;
use super::words::{decided, event, event_with, goes_on, ids, pairs, parks_as, refused, sent, to, waiting};

pub(super) async fn an_empty_settle_answers_nothing(bench: Bench) {
    let relay = bench.relay("one").await;
    assert_eq!(relay.settle_all(Settle::default()).await, []);
    assert_eq!(relay.settle(Vec::new(), Vec::new()).await, []);
}

pub(super) async fn a_sent_row_leaves_the_outbox(bench: Bench) {
    let (relay, rows) = bench
        .queued(&[event("a", "k"), event("b", "k"), event("c", "l")])
        .await;
    let settled = relay.settle(
        vec![sent(&rows[0], &["d"]), sent(&rows[2], &["d", "e"])],
        Vec::new(),
    );
    assert_eq!(settled.await, [Settled::Done, Settled::Done]);
    assert_eq!(
        ids(&relay.queued().await),
        ["b"],
        "a settle decides nothing about other rows"
    );
    assert!(relay.due().await.is_empty());
}

pub(super) async fn duplicates_and_dropped_rows_leave_too(bench: Bench) {
    let (relay, rows) = bench
        .queued(&[event("a", "k"), event("b", "k"), event("c", "k")])
        .await;
    let entries = vec![
        decided(&rows[0], Leaves::Duplicate),
        decided(&rows[1], Leaves::Dropped),
    ];
    assert_eq!(
        relay.settle(entries, Vec::new()).await,
        [Settled::Done, Settled::Done]
    );
    assert_eq!(ids(&relay.queued().await), ["c"]);
    assert!(relay.due().await.is_empty(), "neither is parked");
}

pub(super) async fn a_row_may_be_sent_here_and_parked_there(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("a", "k")]).await;
    let entry = decided(
        &rows[0],
        Leaves::Decided {
            sent: vec![(to("d"), Receipt(Some("partition 3, offset 9".into())))],
            parked: vec![waiting("e"), refused("f", Duration::ZERO)],
        },
    );
    assert_eq!(relay.settle_one(entry).await, Settled::Done);
    assert!(relay.queued().await.is_empty());
    assert_eq!(relay.due_names().await, pairs(&[("a", "e"), ("a", "f")]));
}

pub(super) async fn a_repeated_settle_finds_everything_gone(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("a", "k"), event("b", "l")]).await;
    let settle = || vec![sent(&rows[0], &["d"]), parks_as(&rows[1], vec![waiting("d")])];
    assert_eq!(
        relay.settle(settle(), Vec::new()).await,
        [Settled::Done, Settled::Done]
    );
    assert_eq!(
        relay.settle(settle(), Vec::new()).await,
        [Settled::Gone, Settled::Gone]
    );
    assert_eq!(
        relay.due_names().await,
        pairs(&[("b", "d")]),
        "nothing is doubled"
    );
    let due = relay.due().await;
    assert_eq!(
        relay.settle_parked(&due[0], Then::Sent(Receipt::default())).await,
        Settled::Done
    );
    // A copy that was on its way all the time.
    assert_eq!(
        relay.settle(settle(), Vec::new()).await,
        [Settled::Gone, Settled::Gone]
    );
    assert!(
        relay.due().await.is_empty(),
        "what was published is not parked again"
    );
}

/// Fault A25.
pub(super) async fn a_row_that_is_gone_is_not_parked(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("a", "k")]).await;
    assert_eq!(relay.settle_one(sent(&rows[0], &["d"])).await, Settled::Done);
    let late = relay.settle_one(parks_as(&rows[0], vec![waiting("d"), waiting("e")]));
    assert_eq!(late.await, Settled::Gone);
    assert!(relay.due().await.is_empty());
}

pub(super) async fn a_row_is_named_by_place_and_id(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("a", "k"), event("b", "k")]).await;
    let mut entry = sent(&rows[0], &["d"]);
    entry.event_id = rows[1].event_id.clone();
    assert_eq!(relay.settle_one(entry).await, Settled::Gone);
    let mut entry = sent(&rows[0], &["d"]);
    entry.seq = postrider_core::Seq(rows[1].seq.0 + 1);
    assert_eq!(relay.settle_one(entry).await, Settled::Gone);
    assert_eq!(ids(&relay.queued().await), ["a", "b"]);
}

/// Fault C2.
pub(super) async fn an_old_token_writes_nothing(bench: Bench) {
    let (relay, rows) = bench.parked_and_queued().await;
    let due = relay.due().await;
    let lease = relay.lease(rows[0].shard).expect("owned");
    for token in [lease.token.0.wrapping_sub(1), lease.token.0 + 1] {
        let settle = Settle {
            fence: vec![(lease.shard, Token(token))],
            queued: vec![sent(&rows[0], &["d"])],
            parked: vec![goes_on(&due[0], Then::Sent(Receipt::default()))],
        };
        assert_eq!(relay.settle_all(settle).await, [Settled::Fenced, Settled::Fenced]);
    }
    assert_eq!(ids(&relay.queued().await), ["queued"]);
    assert_eq!(relay.due_names().await, pairs(&[("parked", "d")]));
}

pub(super) async fn a_shard_without_a_fence_is_not_written(bench: Bench) {
    let (relay, rows) = bench.parked_and_queued().await;
    let settle = Settle {
        queued: vec![sent(&rows[0], &["d"])],
        ..Settle::default()
    };
    assert_eq!(relay.settle_all(settle).await, [Settled::Fenced]);
    assert_eq!(ids(&relay.queued().await), ["queued"]);
}

pub(super) async fn each_shard_has_its_own_fence(bench: Bench) {
    let events: Vec<_> = (0..50)
        .map(|n| event(&format!("e{n}"), &format!("k{n}")))
        .collect();
    let (relay, rows) = bench.queued(&events).await;
    let lost = rows[0].shard;
    let mut fence = relay.fence();
    for (shard, token) in &mut fence {
        if *shard == lost {
            token.0 += 1;
        }
    }
    let settle = Settle {
        fence,
        queued: rows.iter().map(|row| sent(row, &["d"])).collect(),
        parked: Vec::new(),
    };
    let settled = relay.settle_all(settle).await;
    for (row, settled) in rows.iter().zip(settled) {
        let wanted = if row.shard == lost {
            Settled::Fenced
        } else {
            Settled::Done
        };
        assert_eq!(settled, wanted, "{:?} of {:?}", row.event_id, row.shard);
    }
    let left: Vec<_> = rows.into_iter().filter(|row| row.shard == lost).collect();
    assert_eq!(ids(&relay.queued().await), ids(&left));
}

pub(super) async fn answers_come_queued_first_in_order(bench: Bench) {
    let (relay, rows) = bench.parked_and_queued().await;
    let due = relay.due().await;
    let mut missing = sent(&rows[0], &["d"]);
    missing.event_id = "nobody".into();
    let mut stale = goes_on(&due[0], Then::Again(waiting("d")));
    stale.version += 1;
    let parked = vec![stale, goes_on(&due[0], Then::Sent(Receipt::default()))];
    let settled = relay.settle(vec![missing, sent(&rows[0], &["d"])], parked).await;
    assert_eq!(
        settled,
        [Settled::Gone, Settled::Done, Settled::Gone, Settled::Done]
    );
}

pub(super) async fn a_batch_of_thousands_is_one_settle(bench: Bench) {
    let events: Vec<_> = (0..3_000)
        .map(|n| event(&format!("e{n}"), &format!("k{}", n % 300)))
        .collect();
    let (relay, rows) = bench.queued(&events).await;
    let entries = rows.iter().enumerate().map(|(n, row)| match n % 3 {
        0 => parks_as(row, vec![waiting("d")]),
        _ => sent(row, &["d"]),
    });
    let settled = relay.settle(entries.collect(), Vec::new()).await;
    assert_eq!(settled, vec![Settled::Done; 3_000]);
    assert!(relay.queued().await.is_empty());
    let due = relay.due().await;
    let entries: Vec<_> = due
        .iter()
        .map(|row| goes_on(row, Then::Sent(Receipt::default())))
        .collect();
    let wanted = vec![Settled::Done; entries.len()];
    assert_eq!(relay.settle(Vec::new(), entries).await, wanted);
}

/// Fault C10.
pub(super) async fn any_text_survives_the_way_into_parked(bench: Bench) {
    let awkward = Event {
        key: Some("ke'y \"é😀\" \\".into()),
        ..event_with("i'd \"é😀\" \\", "k", "{\"n\":1.10, \"s\":\"é\\n\"}")
    };
    let (relay, rows) = bench.queued(std::slice::from_ref(&awkward)).await;
    let failure = Failure::new(
        ErrorKind::Rejected,
        format!("it's\0 \"no\" {}", "é".repeat(5_000)),
    );
    let park = Park {
        failure: Some(failure),
        ..refused("dest'in\"ation é", Duration::ZERO)
    };
    assert_eq!(
        relay.settle_one(parks_as(&rows[0], vec![park])).await,
        Settled::Done
    );
    let due = relay.due().await;
    assert_eq!(due[0].destination, Some(to("dest'in\"ation é")));
    assert_eq!(due[0].row.event_id, awkward.id);
    assert_eq!(due[0].row.key, awkward.order_key());
    let read = due[0].row.event.as_ref().expect("still an event");
    assert_eq!(
        read.payload, awkward.payload,
        "a parked payload is byte-exact too"
    );
    assert_eq!(
        relay.settle_parked(&due[0], Then::Sent(Receipt::default())).await,
        Settled::Done
    );
}
