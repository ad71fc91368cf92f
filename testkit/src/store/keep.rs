//! What is kept for a time.

use std::time::Duration;

use postrider_core::{
    Control, Edit, Event, Filter, HistoryAsk, HistoryRow, JobKind, JobState, JobVerb, Kept, Payload, Purge,
    Purged, Replay, Restore, Scope, Settled, Then, Timestamp, Verb,
};

use super::bench::{Bench, Relay};
use super::job::{ANN, begun, found};
use super::words::{dead, event, refused, sent, to, waiting};
use crate::by_hand;
use crate::wait::eventually;

pub(super) const HOUR: Duration = Duration::from_secs(3_600);

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
    let all = bench.upkeep().purge(dry(2)).await.expect("counted");
    assert_eq!(
        (all.rows, all.more),
        (3, false),
        "all of it, whatever the limit is"
    );
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

/// By the time of publication: an event that was parked may be published long after one with a higher place.
pub(super) async fn a_purge_stops_at_the_end_of_the_archive(bench: Bench) {
    let (relay, _) = bench.parked(&[(event("late", "k"), waiting("d"))]).await;
    history(&bench, &relay, &["early"]).await;
    let first = pages(&bench, everything()).await[0].published_at;
    after(&bench, first).await;
    let due = relay.due().await.remove(0);
    let then = postrider_core::Then::Sent(Default::default());
    assert_eq!(relay.settle_parked(&due, then).await, Settled::Done);
    let rows = pages(&bench, everything()).await;
    let late = rows
        .iter()
        .find(|row| row.event_id.as_str() == "late")
        .expect("a row");
    after(&bench, late.published_at).await;
    let archived = Purge {
        before: Some(late.published_at),
        ..Purge::of(Kept::History, Duration::ZERO, 10)
    };
    let counted = Purge {
        dry_run: true,
        ..archived.clone()
    };
    let upkeep = bench.upkeep();
    assert_eq!(upkeep.purge(counted).await.expect("counted").rows, 1);
    let purged = upkeep.purge(archived.clone()).await.expect("purged");
    assert_eq!((purged.rows, purged.held), (1, None));
    assert_eq!(upkeep.purge(archived).await.expect("purged").rows, 0);
    assert_eq!(sent_ids(&bench).await, ["late"]);
}

pub(super) async fn an_inbox_that_is_not_there_holds_nothing(bench: Bench) {
    for dry_run in [true, false] {
        let purge = Purge {
            dry_run,
            ..Purge::of(Kept::Inbox("no_such_inbox".to_owned()), Duration::ZERO, 10)
        };
        let purged = bench.upkeep().purge(purge).await.expect("purged");
        assert_eq!((purged.rows, purged.more), (0, false));
    }
}

/// All its copies are made: what is published from then on is none of its business, though they are not sent yet.
pub(super) async fn a_replay_that_has_read_all_holds_nothing(bench: Bench) {
    let relay = super::replay::history(&bench, &[event("a", "k")]).await;
    let job = super::replay::replay(&bench, Replay::default(), Filter::default()).await;
    for _ in 0..3 {
        bench.console().step(job.id.clone(), 10).await.expect("a step");
    }
    let waits = found(&bench, &job.id).await;
    assert_eq!((waits.state, waits.waiting), (JobState::Running, 1));
    bench.commit(&[event("b", "l")]).await;
    let row = relay.queued().await.remove(0);
    relay.settle_one(sent(&row, &["d"])).await;
    all_gone(&bench, Kept::History).await;
    assert!(sent_ids(&bench).await.is_empty());
    let copy = relay.due().await.remove(0);
    let then = postrider_core::Then::Sent(Default::default());
    assert_eq!(relay.settle_parked(&copy, then).await, Settled::Done);
    let step = bench.console().step(job.id, 0).await.expect("a step");
    assert_eq!(
        step.job.state,
        JobState::Done,
        "nobody needs to make copies to see its end"
    );
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
    let runs = begun(&bench, JobKind::Restore(Restore::default()), Filter::default()).await;
    let paused = begun(&bench, JobKind::Restore(Restore::default()), Filter::default()).await;
    let ended = begun(&bench, JobKind::Restore(Restore::default()), Filter::default()).await;
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

/// Also of a row that had no destination when it was edited, and is split over some since.
pub(super) async fn an_original_stays_as_long_as_its_event(bench: Bench) {
    let (relay, _) = bench.parked(&[(event("a", "k"), dead(None))]).await;
    edited(&bench, "a").await;
    let original = async || {
        let shown = bench.console().show("a".into()).await.expect("shown");
        shown.into_iter().find_map(|record| record.original)
    };
    let still_kept = async |why| {
        for _ in 0..3 {
            purge(&bench, Kept::Originals, Duration::ZERO).await;
        }
        assert!(original().await.is_some(), "{why}");
    };
    still_kept("it is parked").await;
    let due = relay.due().await.remove(0);
    let split = Then::Split(vec![refused("d", Duration::ZERO)]);
    assert_eq!(relay.settle_parked(&due, split).await, Settled::Done);
    still_kept("it is parked for a destination").await;
    let due = relay.due().await.remove(0);
    let then = Then::Sent(Default::default());
    assert_eq!(relay.settle_parked(&due, then).await, Settled::Done);
    still_kept("it is in the history").await;
    all_gone(&bench, Kept::History).await;
    all_gone(&bench, Kept::Originals).await;
    assert!(original().await.is_none());
}

/// A discarded event is told for as long as one that was sent, and so is what it was.
pub(super) async fn the_original_of_a_discarded_event_stays_with_it(bench: Bench) {
    bench.parked(&[(event("a", "k"), dead(Some("d")))]).await;
    edited(&bench, "a").await;
    let discard = by_hand::act(Verb::Discard("not wanted".to_owned()), "a");
    let chunk = bench.console().act(discard).await.expect("discarded");
    assert_eq!(chunk.touched, 1);
    for _ in 0..3 {
        purge(&bench, Kept::Originals, Duration::ZERO).await;
    }
    let shown = bench.console().show("a".into()).await.expect("shown");
    assert!(shown[0].original.is_some(), "it is in the history: {shown:?}");
    all_gone(&bench, Kept::History).await;
    all_gone(&bench, Kept::Originals).await;
}

async fn edited(bench: &Bench, id: &str) {
    let edit = Edit {
        event_id: id.into(),
        destination: None,
        payload: Payload::Text("{}".to_owned()),
        content_type: None,
        dry_run: false,
        actor: ANN.to_owned(),
    };
    assert_eq!(bench.console().edit(edit).await.expect("edited").touched, 1);
}

/// Sends events of keys of their own.
pub(super) async fn history(bench: &Bench, relay: &Relay, ids: &[&str]) {
    let events: Vec<Event> = ids.iter().map(|id| event(id, id)).collect();
    bench.commit(&events).await;
    let rows = relay.queued().await;
    let entries = rows.iter().map(|row| sent(row, &["d"])).collect();
    assert_eq!(
        relay.settle(entries, Vec::new()).await,
        vec![Settled::Done; ids.len()]
    );
}

pub(super) async fn purge(bench: &Bench, what: Kept, older_than: Duration) -> Purged {
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

/// Waits until the database's clock is past a moment.
async fn after(bench: &Bench, at: Timestamp) {
    eventually("the clock goes on", async || {
        let job = begun(bench, JobKind::Restore(Restore::default()), Filter::default()).await;
        (job.begun_at > at).then_some(())
    })
    .await;
}

pub(super) fn everything() -> HistoryAsk {
    HistoryAsk {
        limit: 1_000,
        max_bytes: 1 << 40,
        ..HistoryAsk::default()
    }
}

/// The whole history, by pages.
pub(super) async fn pages(bench: &Bench, ask: HistoryAsk) -> Vec<HistoryRow> {
    let (mut all, mut after) = (Vec::new(), None);
    for _ in 0..1_000 {
        let page = bench.upkeep().history(HistoryAsk { after, ..ask.clone() }).await;
        let page = page.expect("the history");
        let place = |row: &HistoryRow| (row.seq, row.destination.clone());
        let behind = page.rows.iter().skip(ask.limit as usize);
        let last = page.rows.get(ask.limit as usize - 1).map(place);
        for more in behind.map(place) {
            assert_eq!(
                Some(more),
                last,
                "only further rows of the last place and destination"
            );
        }
        all.extend(page.rows);
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
    panic!("the history does not end");
}

pub(super) async fn sent_ids(bench: &Bench) -> Vec<String> {
    let page = bench.console().sent(None, 100, None).await.expect("the history");
    page.events
        .iter()
        .map(|event| event.event_id.to_string())
        .collect()
}
