//! The history as rows, and what an archive gives back of it.

use std::time::Duration;

use postrider_core::{
    Cursor, Filter, HistoryAsk, HistoryRow, JobId, JobKind, JobState, Kept, Leaves, Payload, Replay, Restore,
    Seq, StoreErrorKind, Timestamp,
};

use super::bench::Bench;
use super::job::{ANN, begun, found, to_the_end};
use super::keep::{HOUR, everything, history, pages, purge, sent_ids};
use super::replay;
use super::words::{dead, event, event_with, pairs, sent};
use crate::wait::eventually;

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

pub(super) async fn a_bad_row_that_was_discarded_is_in_the_history(bench: Bench) {
    let bad = event_with("bad", "k", "{\"n\": 1 }");
    let mut tx = bench.begin().await;
    tx.insert_bad(&bad).await.expect("inserted as a bad row");
    tx.commit().await;
    let relay = bench.relay("one").await;
    let rows = relay.queued().await;
    relay
        .settle_one(super::words::parks_as(&rows[0], vec![dead(None)]))
        .await;
    let discard = crate::by_hand::act(postrider_core::Verb::Discard("no".into()), "bad");
    bench.console().act(discard).await.expect("discarded");
    let rows = pages(&bench, everything()).await;
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0].outcome.as_str(), &rows[0].payload),
        ("discarded", &bad.payload)
    );
}

/// Not every database has texts with a zero in them.
pub(super) async fn what_another_database_held_is_restored(bench: Bench) {
    let relay = bench.relay("relay").await;
    history(&bench, &relay, &["a"]).await;
    let mut rows = pages(&bench, everything()).await;
    let zero = || "z\u{0}".to_owned();
    rows[0] = HistoryRow {
        payload: Payload::Text(zero()),
        content_type: Some("text/plain".to_owned()),
        event_key: Some(zero()),
        reason: Some(zero()),
        error: Some(("rejected".to_owned(), zero())),
        ..rows[0].clone()
    };
    let job = begun(&bench, JobKind::Restore(Restore::default()), Filter::default()).await;
    let restored = bench
        .upkeep()
        .restore(job.id.clone(), rows, Cursor("1".to_owned()))
        .await;
    assert_eq!(restored.expect("restored").touched, 1);
}

/// Two people go on with one job.
pub(super) async fn what_is_restored_twice_is_there_once(bench: Bench) {
    let relay = bench.relay("relay").await;
    history(&bench, &relay, &["a", "b"]).await;
    let rows = pages(&bench, everything()).await;
    let job = begun(&bench, JobKind::Restore(Restore::default()), Filter::default()).await;
    let restore = async |at: usize| {
        let (rows, cursor) = (vec![rows[at - 1].clone()], Cursor(at.to_string()));
        let restored = bench.upkeep().restore(job.id.clone(), rows, cursor).await;
        restored.expect("restored")
    };
    // The second of the two is behind, and then catches up.
    for (at, touched) in [(1, 1), (1, 1), (2, 2), (1, 2), (2, 2)] {
        let job = restore(at).await;
        assert_eq!(job.touched, touched, "at {at}");
    }
}

pub(super) async fn a_job_with_files_is_marked(bench: Bench) {
    let job = begun(&bench, JobKind::Restore(Restore::default()), Filter::default()).await;
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
    let job = begun(&bench, JobKind::Restore(Restore::default()), Filter::default()).await;
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
    let done = upkeep.mark(job.id.clone(), Cursor("2".to_owned()), 0, true).await;
    assert_eq!(done.expect("marked").state, JobState::Done);
    let left = async |id: &JobId| upkeep.restored(id.clone()).await.expect("counted");
    assert_eq!((left(&job.id).await, left(&JobId::new()).await), (2, 0));
    assert_eq!(
        purge(&bench, Kept::Restored, HOUR).await.rows,
        0,
        "it was read back just now"
    );
    let mut gone = 0;
    eventually("what was restored is gone", async || {
        gone += purge(&bench, Kept::Restored, Duration::ZERO).await.rows;
        assert_eq!(left(&job.id).await, 2 - gone, "what is told to be there is there");
        (gone == 2).then_some(())
    })
    .await;
    assert_eq!(
        sent_ids(&bench).await,
        ["a", "b"],
        "the history is another matter"
    );
}

pub(super) async fn what_was_restored_is_written_down(bench: Bench) {
    let relay = bench.relay("relay").await;
    history(&bench, &relay, &["a", "b"]).await;
    let rows = pages(&bench, everything()).await;
    let asked = Restore {
        since: Some(Timestamp(7)),
        until: Some(Timestamp(i64::MAX)),
    };
    let job = begun(&bench, JobKind::Restore(asked), Filter::default()).await;
    assert_eq!(job.kind, JobKind::Restore(asked));
    let restored = bench
        .upkeep()
        .restore(job.id.clone(), rows, Cursor("2".to_owned()))
        .await;
    assert_eq!(restored.expect("restored").kind, JobKind::Restore(asked));
    let ended = bench
        .upkeep()
        .mark(job.id.clone(), Cursor("2".to_owned()), 0, true)
        .await;
    ended.expect("marked");
    let audit = bench.console().audit(10, None).await.expect("the audit").entries;
    let told: Vec<_> = audit
        .iter()
        .map(|entry| {
            (
                entry.actor.as_str(),
                entry.action.as_str(),
                entry.touched,
                entry.job.clone(),
            )
        })
        .collect();
    let begun = (ANN, "begin_job", 0, Some(job.id.clone()));
    assert_eq!(told, [(ANN, "restore", 2, Some(job.id)), begun]);
}

/// An archive may come from a database of another kind, or out of somebody's hands: what could not be replayed is not
/// taken in as if it could.
pub(super) async fn a_place_that_no_row_can_have_is_not_restored(bench: Bench) {
    let relay = replay::history(&bench, &[event("a", "k"), event("b", "k")]).await;
    for place in [i64::MAX as u128, 1 << 80] {
        let mut rows = pages(&bench, everything()).await;
        rows[1].seq = Seq(place);
        let job = begun(&bench, JobKind::Restore(Restore::default()), Filter::default()).await;
        let end = Cursor("2".to_owned());
        if let Err(error) = bench.upkeep().restore(job.id.clone(), rows, end.clone()).await {
            assert_eq!(error.kind(), StoreErrorKind::Invalid, "{error}");
            assert_eq!(bench.upkeep().restored(job.id).await.expect("a number"), 0);
            continue;
        }
        bench
            .upkeep()
            .mark(job.id.clone(), end, 0, true)
            .await
            .expect("done");
        let again = Replay {
            restored: Some(job.id),
            ..Replay::default()
        };
        let replayed = replay::replay(&bench, again, Filter::default()).await;
        let both = pairs(&[("a", "d"), ("b", "d")]);
        assert_eq!(replay::copies(&bench, &relay, &replayed).await, both);
        let ended = to_the_end(&bench.console(), &replayed.id, 10).await;
        assert_eq!((ended.state, ended.touched), (JobState::Done, 2));
    }
}
