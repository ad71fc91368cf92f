//! What is kept for a time, and the history as rows.

use std::time::Duration;

use postrider_core::{
    Control, Cursor, Event, Filter, HistoryAsk, HistoryRow, JobKind, JobState, JobVerb, Kept, Leaves,
    Payload, Purge, Purged, Replay, Scope, Settled, Timestamp,
};

use super::bench::{Bench, Relay};
use super::job::{ANN, begun, found};
use super::words::{dead, event, event_with, sent, to, waiting};
use crate::wait::eventually;

const HOUR: Duration = Duration::from_secs(3_600);

pub(super) async fn a_purge_touches_no_queued_or_parked_row(bench: Bench) {
    let (relay, _) = bench
        .parked(&[
            (event("dead", "a"), dead(Some("d"))),
            (event("held", "b"), waiting("d")),
        ])
        .await;
    history(&bench, &relay, &["sent"]).await;
    bench.commit(&[event("queued", "c")]).await;
    all_gone(&bench, Kept::History).await;
    let stats = bench.console().stats().await.expect("stats");
    assert_eq!(
        (stats.queued, stats.dead, stats.parked.values().sum::<u64>()),
        (1, 1, 1)
    );
    assert!(
        bench
            .console()
            .show("sent".into())
            .await
            .expect("shown")
            .is_empty()
    );
}

pub(super) async fn a_dry_purge_only_counts(bench: Bench) {
    let relay = bench.relay("relay").await;
    history(&bench, &relay, &["a", "b", "c"]).await;
    let dry = |limit| Purge {
        dry_run: true,
        ..Purge::of(Kept::History, Duration::ZERO, limit)
    };
    eventually("all of it is old", async || {
        let counted = bench.upkeep().purge(dry(10)).await.expect("counted");
        (counted.rows == 3).then_some(())
    })
    .await;
    let some = bench.upkeep().purge(dry(2)).await.expect("counted");
    assert!(some.rows >= 2 && (some.more || some.rows == 3), "{some:?}");
    assert_eq!(
        bench
            .console()
            .sent(None, 10, None)
            .await
            .expect("the history")
            .events
            .len(),
        3
    );
}

pub(super) async fn a_purge_stops_at_the_archive(bench: Bench) {
    let relay = bench.relay("relay").await;
    history(&bench, &relay, &["a", "b", "c"]).await;
    let rows = pages(
        &bench,
        HistoryAsk {
            limit: 10,
            ..everything()
        },
    )
    .await;
    let archived = rows[1].seq;
    let upkeep = bench.upkeep();
    eventually("what is archived is gone", async || {
        let purge = Purge {
            not_after: Some(archived),
            ..Purge::of(Kept::History, Duration::ZERO, 10)
        };
        upkeep.purge(purge).await.expect("purged");
        (sent_ids(&bench).await.len() == 1).then_some(())
    })
    .await;
    assert_eq!(sent_ids(&bench).await, ["c"]);
}

pub(super) async fn a_purge_leaves_what_a_replay_has_still_to_read(bench: Bench) {
    let relay = bench.relay("relay").await;
    history(&bench, &relay, &["a", "b"]).await;
    // That of a moment ago may be of this very millisecond, and is not meant then: it holds the history all the same.
    let kind = JobKind::Replay(Replay::default());
    let job = begun(&bench, kind, Filter::default()).await;
    for _ in 0..3 {
        purge(&bench, Kept::History, Duration::ZERO).await;
        assert_eq!(sent_ids(&bench).await, ["a", "b"]);
    }
    eventually("the answer names who keeps it", async || {
        let held = purge(&bench, Kept::History, Duration::ZERO).await.held;
        held.unwrap_or_default().contains(&*job.id.0).then_some(())
    })
    .await;
    let steered = bench
        .console()
        .steer(job.id, JobVerb::Cancel, ANN.to_owned())
        .await;
    steered.expect("cancelled");
    all_gone(&bench, Kept::History).await;
    assert_eq!(purge(&bench, Kept::History, Duration::ZERO).await.held, None);
    assert!(sent_ids(&bench).await.is_empty());
}

pub(super) async fn the_audit_has_its_own_term(bench: Bench) {
    let relay = bench.relay("relay").await;
    history(&bench, &relay, &["a"]).await;
    let pause = Control::Pause(Scope::Destination(to("d")));
    bench
        .console()
        .control(pause, ANN.to_owned())
        .await
        .expect("paused");
    assert_eq!(
        purge(&bench, Kept::Audit, HOUR).await.rows,
        0,
        "nothing is that old"
    );
    all_gone(&bench, Kept::Audit).await;
    assert!(
        bench
            .console()
            .audit(10, None)
            .await
            .expect("the audit")
            .entries
            .is_empty()
    );
    assert_eq!(sent_ids(&bench).await, ["a"], "and touches nothing else");
    assert_eq!(bench.console().controls().await.expect("controls").len(), 1);
}

pub(super) async fn only_jobs_that_have_ended_are_purged(bench: Bench) {
    let runs = begun(&bench, JobKind::Archive, Filter::default()).await;
    let paused = begun(&bench, JobKind::Archive, Filter::default()).await;
    let ended = begun(&bench, JobKind::Archive, Filter::default()).await;
    let steer = async |job: &postrider_core::Job, verb| {
        let steered = bench.console().steer(job.id.clone(), verb, ANN.to_owned()).await;
        steered.expect("steered");
    };
    steer(&paused, JobVerb::Pause).await;
    steer(&ended, JobVerb::Cancel).await;
    all_gone(&bench, Kept::Jobs).await;
    let left = bench.console().jobs(None, 10).await.expect("jobs");
    let left: Vec<_> = left.into_iter().map(|job| job.id).collect();
    assert_eq!(left, [paused.id, runs.id]);
}

pub(super) async fn an_original_stays_as_long_as_its_event(bench: Bench) {
    let (relay, _) = bench.parked(&[(event("a", "k"), dead(Some("d")))]).await;
    let edit = postrider_core::Edit {
        event_id: "a".into(),
        destination: None,
        payload: Payload::Text("{}".to_owned()),
        content_type: None,
        dry_run: false,
        actor: ANN.to_owned(),
    };
    assert_eq!(bench.console().edit(edit).await.expect("edited").touched, 1);
    let original = async || {
        let shown = bench.console().show("a".into()).await.expect("shown");
        shown.into_iter().find_map(|record| record.original)
    };
    for _ in 0..3 {
        purge(&bench, Kept::Originals, Duration::ZERO).await;
    }
    assert!(original().await.is_some(), "it is parked");
    let due = relay.due().await.remove(0);
    let then = postrider_core::Then::Sent(Default::default());
    assert_eq!(relay.settle_parked(&due, then).await, Settled::Done);
    all_gone(&bench, Kept::Originals).await;
    assert!(original().await.is_none());
}

pub(super) async fn history_pages_give_every_row_once(bench: Bench) {
    let relay = bench.relay("relay").await;
    let many: Vec<_> = (0..25).map(|n| format!("e{n:02}")).collect();
    let ids: Vec<&str> = many.iter().map(String::as_str).collect();
    history(&bench, &relay, &ids).await;
    bench
        .commit(&[
            event_with("two", "k", "{ \"n\" : 1 }"),
            event("thrown", "k"),
            event("double", "k"),
        ])
        .await;
    let rows = relay.queued().await;
    let double = super::words::decided(&rows[2], Leaves::Duplicate);
    let parked = super::words::parks_as(&rows[1], vec![dead(None)]);
    relay
        .settle(vec![sent(&rows[0], &["d", "e"]), parked, double], Vec::new())
        .await;
    let discard = crate::by_hand::act(postrider_core::Verb::Discard("no".into()), "thrown");
    bench.console().act(discard).await.expect("discarded");
    let by_rows = pages(
        &bench,
        HistoryAsk {
            limit: 4,
            ..everything()
        },
    )
    .await;
    let by_bytes = pages(
        &bench,
        HistoryAsk {
            max_bytes: 1,
            ..everything()
        },
    )
    .await;
    assert_eq!(by_rows, by_bytes);
    let places: Vec<_> = by_rows
        .iter()
        .map(|row| (row.seq, row.destination.clone()))
        .collect();
    assert!(
        places.is_sorted_by(|a, b| a < b),
        "by place, each once: {places:?}"
    );
    // Whether a duplicate leaves a row is the store's own affair.
    let told = by_rows.iter().filter(|row| row.outcome != "duplicate").count();
    assert_eq!(told, 25 + 2 + 1);
    let two: Vec<_> = by_rows
        .iter()
        .filter(|row| row.event_id.as_str() == "two")
        .collect();
    assert!(
        two.iter()
            .all(|row| row.payload == Payload::Text("{ \"n\" : 1 }".to_owned()))
    );
    assert_eq!(
        (two[0].outcome.as_str(), two[0].receipt.as_deref()),
        ("published", Some("offset 7"))
    );
    let thrown = by_rows
        .iter()
        .find(|row| row.event_id.as_str() == "thrown")
        .expect("a row");
    assert_eq!(
        (thrown.outcome.as_str(), thrown.reason.as_deref()),
        ("discarded", Some("no"))
    );
    assert_eq!(
        thrown.error.as_ref().map(|(kind, _)| kind.as_str()),
        Some("rejected")
    );
}

pub(super) async fn history_is_asked_for_by_time(bench: Bench) {
    let relay = bench.relay("relay").await;
    history(&bench, &relay, &["a", "b"]).await;
    let at = pages(&bench, everything()).await[0].published_at;
    let count = async |since, until| {
        pages(
            &bench,
            HistoryAsk {
                since,
                until,
                ..everything()
            },
        )
        .await
        .len()
    };
    assert_eq!(count(Some(at), None).await, 2, "from that moment");
    assert_eq!(count(None, Some(at)).await, 0, "and before it");
    assert_eq!(count(None, Some(Timestamp(at.0 + 3_600_000_000))).await, 2);
}

pub(super) async fn a_job_with_files_is_marked(bench: Bench) {
    let job = begun(&bench, JobKind::Archive, Filter::default()).await;
    let upkeep = bench.upkeep();
    let mark = async |at: &str, rows, done| {
        let marked = upkeep
            .mark(job.id.clone(), Cursor(at.to_owned()), rows, done)
            .await;
        marked.expect("marked")
    };
    let marked = mark("10:d", 10, false).await;
    assert_eq!((marked.state, marked.touched), (JobState::Running, 10));
    assert_eq!(marked.cursor, Some(Cursor("10:d".to_owned())));
    assert_eq!(mark("17", 7, true).await.state, JobState::Done);
    let late = mark("99", 1, false).await;
    assert_eq!((late.state, late.touched), (JobState::Done, 17), "an end is one");
    assert_eq!(found(&bench, &job.id).await.cursor, Some(Cursor("17".to_owned())));
    assert!(
        upkeep
            .mark("nobody".into(), Cursor("1".to_owned()), 1, false)
            .await
            .is_err()
    );
}

pub(super) async fn what_was_restored_has_its_own_term(bench: Bench) {
    let relay = bench.relay("relay").await;
    history(&bench, &relay, &["a", "b"]).await;
    let rows = pages(&bench, everything()).await;
    let job = begun(&bench, JobKind::Restore, Filter::default()).await;
    let upkeep = bench.upkeep();
    let restored = upkeep
        .restore(job.id.clone(), rows, Cursor("2".to_owned()))
        .await
        .expect("restored");
    assert_eq!((restored.touched, restored.state), (2, JobState::Running));
    for _ in 0..3 {
        let purged = purge(&bench, Kept::Restored, Duration::ZERO).await;
        assert_eq!(purged.rows, 0, "not while it is being read back");
    }
    let done = upkeep.mark(job.id, Cursor("2".to_owned()), 0, true).await;
    assert_eq!(done.expect("marked").state, JobState::Done);
    assert_eq!(
        purge(&bench, Kept::Restored, HOUR).await.rows,
        0,
        "it was read back just now"
    );
    let mut gone = 0;
    eventually("what was restored is gone", async || {
        gone += purge(&bench, Kept::Restored, Duration::ZERO).await.rows;
        (gone == 2).then_some(())
    })
    .await;
    assert_eq!(
        sent_ids(&bench).await,
        ["a", "b"],
        "the history is another matter"
    );
}

/// Sends events of keys of their own.
async fn history(bench: &Bench, relay: &Relay, ids: &[&str]) {
    let events: Vec<Event> = ids.iter().map(|id| event(id, id)).collect();
    bench.commit(&events).await;
    let rows = relay.queued().await;
    let entries = rows.iter().map(|row| sent(row, &["d"])).collect();
    assert_eq!(
        relay.settle(entries, Vec::new()).await,
        vec![Settled::Done; ids.len()]
    );
}

async fn purge(bench: &Bench, what: Kept, older_than: Duration) -> Purged {
    let purged = bench.upkeep().purge(Purge::of(what, older_than, 100)).await;
    purged.expect("purged")
}

/// Purges until something was removed and nothing more is. It is old as soon as the clock has moved.
async fn all_gone(bench: &Bench, what: Kept) {
    let mut removed = 0;
    eventually("what is kept is purged", async || {
        let purged = purge(bench, what.clone(), Duration::ZERO).await;
        removed += purged.rows;
        (removed > 0 && purged.rows == 0).then_some(())
    })
    .await;
}

fn everything() -> HistoryAsk {
    HistoryAsk {
        limit: 1_000,
        max_bytes: 1 << 40,
        ..HistoryAsk::default()
    }
}

/// The whole history, by pages.
async fn pages(bench: &Bench, ask: HistoryAsk) -> Vec<HistoryRow> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = bench.upkeep().history(HistoryAsk { after, ..ask.clone() }).await;
        let page = page.expect("the history");
        assert!(page.rows.len() <= ask.limit as usize);
        all.extend(page.rows);
        after = page.next;
        if after.is_none() {
            return all;
        }
        assert!(all.len() < 1_000, "the history does not end");
    }
}

async fn sent_ids(bench: &Bench) -> Vec<String> {
    let page = bench.console().sent(None, 100, None).await.expect("the history");
    page.events
        .iter()
        .map(|event| event.event_id.to_string())
        .collect()
}
