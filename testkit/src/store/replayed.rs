//! Which sent events a replay takes, and where to.

use std::time::{Duration, SystemTime};

use postrider_core::{
    Cursor, Event, Filter, HistoryAsk, HistoryRow, JobId, JobKind, JobState, List, Payload, Replay, Restore,
    Seq, Timestamp,
};

use super::bench::Bench;
use super::job::begun;
use super::keep::{everything, pages};
use super::replay::{copies, deliver, history, last_sent, replay};
use super::words::{event, event_with, pairs, sent, to};
use crate::wait::eventually;

pub(super) async fn a_replay_goes_to_where_it_was_sent_or_is_told(bench: Bench) {
    let (relay, rows) = bench.queued(&[event("a", "k"), event("b", "k")]).await;
    let entries = vec![sent(&rows[0], &["d", "e"]), sent(&rows[1], &["d"])];
    relay.settle(entries, Vec::new()).await;
    let everywhere = replay(&bench, Replay::default(), Filter::default()).await;
    let from_e = Filter {
        destination: Some(to("e")),
        ..Filter::default()
    };
    let told = Replay {
        to: Some(to("x")),
        ..Replay::default()
    };
    assert_eq!(
        copies(&bench, &relay, &everywhere).await,
        pairs(&[("a", "d"), ("a", "e"), ("b", "d")])
    );
    let only_e = replay(&bench, Replay::default(), from_e).await;
    assert_eq!(copies(&bench, &relay, &only_e).await, pairs(&[("a", "e")]));
    let elsewhere = replay(&bench, told, Filter::default()).await;
    let wanted = pairs(&[("a", "x"), ("b", "x")]);
    assert_eq!(
        copies(&bench, &relay, &elsewhere).await,
        wanted,
        "each event once"
    );
}

pub(super) async fn replayed_rows_are_not_replayed_again(bench: Bench) {
    let relay = history(&bench, &[event("a", "k")]).await;
    let mut of = vec![None];
    for _ in 0..2 {
        let job = replay(&bench, Replay::default(), Filter::default()).await;
        assert_eq!(copies(&bench, &relay, &job).await, pairs(&[("a", "d")]));
        of.push(Some(job.id));
    }
    let page = bench.console().sent(None, 10, None).await.expect("the history");
    let replays: Vec<_> = page.events.into_iter().map(|sent| sent.replay).collect();
    assert_eq!(replays, of, "a copy says which replay made it");
    let stats = bench.console().stats().await.expect("stats");
    assert_eq!(stats.published, 1, "copies are not counted as published");
}

/// By type, by key, by id and by time.
pub(super) async fn a_replay_is_of_what_was_asked_for(bench: Bench) {
    let typed = Event {
        event_type: "Other".to_owned(),
        ..event("typed", "k")
    };
    let relay = history(&bench, &[event("a", "k"), typed, event("b", "l")]).await;
    let filters = [
        (
            Filter {
                event_type: vec!["Other".to_owned()],
                ..Filter::default()
            },
            vec![("typed", "d")],
        ),
        (
            Filter {
                key: vec!["THING/l".to_owned()],
                ..Filter::default()
            },
            vec![("b", "d")],
        ),
        (
            Filter {
                event_id: vec!["a".into()],
                ..Filter::default()
            },
            vec![("a", "d")],
        ),
        (
            Filter {
                event_id: vec!["a".into(), "nobody".into(), "b".into()],
                ..Filter::default()
            },
            vec![("a", "d"), ("b", "d")],
        ),
        (
            Filter {
                key: vec!["THING/l".to_owned(), "THING/k".to_owned()],
                event_type: vec!["Tested".to_owned(), "Else".to_owned()],
                ..Filter::default()
            },
            vec![("a", "d"), ("b", "d")],
        ),
        (
            Filter {
                destination: Some(to("nobody")),
                ..Filter::default()
            },
            vec![],
        ),
    ];
    for (filter, wanted) in filters {
        let job = replay(&bench, Replay::default(), filter).await;
        assert_eq!(copies(&bench, &relay, &job).await, pairs(&wanted));
    }
    let first = last_sent(&bench).await;
    eventually("the clock goes on", async || {
        let job = begun(&bench, JobKind::Restore(Restore::default()), Filter::default()).await;
        (job.begun_at > first).then_some(())
    })
    .await;
    bench.commit(&[event("late", "m")]).await;
    let row = relay.queued().await.remove(0);
    relay.settle_one(sent(&row, &["d"])).await;
    let late = last_sent(&bench).await;
    let times = [
        (Some(late), None, vec!["late"]),
        (None, Some(late), vec!["a", "b", "typed"]),
        (Some(late), Some(late), vec![]),
    ];
    for (since, until, wanted) in times {
        let asked = Replay {
            since,
            until,
            ..Replay::default()
        };
        let job = replay(&bench, asked, Filter::default()).await;
        let mut ids: Vec<_> = copies(&bench, &relay, &job)
            .await
            .into_iter()
            .map(|(id, _)| id)
            .collect();
        ids.sort();
        assert_eq!(ids, wanted, "since {since:?} until {until:?}");
    }
}

/// However late somebody goes on with it.
pub(super) async fn a_replay_means_the_ages_of_its_beginning(bench: Bench) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.expect("after 1970").as_micros();
    // It is a second old in four seconds: both replays have begun by then.
    let made = Timestamp(i64::try_from(now).expect("a time") + 3_000_000);
    let young = Event {
        created_at: Some(made),
        ..event("a", "k")
    };
    let relay = history(&bench, &[young]).await;
    let second = Some(Duration::from_secs(1));
    let older = Filter {
        older_than: second,
        ..Filter::default()
    };
    let newer = Filter {
        newer_than: second,
        ..Filter::default()
    };
    let of_old = replay(&bench, Replay::default(), older.clone()).await;
    let of_new = replay(&bench, Replay::default(), newer).await;
    assert!(
        of_new.begun_at.0 < made.0 + 1_000_000,
        "the replays began too late"
    );
    eventually("the event grows old", async || {
        let page = bench.console().list(List::first(10, older.clone())).await;
        (!page.expect("a listing").events.is_empty()).then_some(())
    })
    .await;
    assert!(copies(&bench, &relay, &of_old).await.is_empty());
    assert_eq!(copies(&bench, &relay, &of_new).await, pairs(&[("a", "d")]));
}

pub(super) async fn a_restored_row_is_replayed_byte_exact(bench: Bench) {
    let plain = event_with("plain", "k", "{ \"a\" : 1.0 }");
    let bytes = Event {
        payload: Payload::Bytes(vec![0, 159, 146, 150].into()),
        content_type: Some("application/octet-stream".to_owned()),
        headers: [("tenant".to_owned(), "é \"x\"".to_owned())].into(),
        priority: 3,
        ..event("bytes", "l")
    };
    let gone = Event {
        payload: Payload::Tombstone,
        ..event("gone", "m")
    };
    let events = [plain, bytes, gone];
    let relay = history(&bench, &events).await;
    let upkeep = bench.upkeep();
    let ask = HistoryAsk {
        limit: 10,
        max_bytes: u64::MAX >> 1,
        ..HistoryAsk::default()
    };
    let page = upkeep.history(ask).await.expect("the history");
    let job = begun(&bench, JobKind::Restore(Restore::default()), Filter::default()).await;
    let (first, rest) = page.rows.split_at(1);
    for (rows, at) in [(first, "1"), (rest, "3")] {
        let restored = upkeep
            .restore(job.id.clone(), rows.to_vec(), Cursor(at.to_owned()))
            .await;
        assert_eq!(restored.expect("restored").cursor, Some(Cursor(at.to_owned())));
    }
    let done = upkeep
        .mark(job.id.clone(), Cursor("3".to_owned()), 0, true)
        .await
        .expect("done");
    assert_eq!((done.state, done.touched), (JobState::Done, 3));
    let again = Replay {
        restored: Some(job.id),
        ..Replay::default()
    };
    let replayed = replay(&bench, again, Filter::default()).await;
    bench
        .console()
        .step(replayed.id.clone(), 10)
        .await
        .expect("a step");
    let mut due = relay.due().await;
    due.sort_by_key(|row| row.row.seq);
    assert_eq!(due.len(), events.len());
    for ((row, event), first) in due.iter().zip(&events).zip(&page.rows) {
        let copy = row.row.event.as_ref().expect("an event");
        let made = Event {
            created_at: first.created_at.or(first.enqueued_at),
            ..event.clone()
        };
        assert_eq!(**copy, made, "as the producer wrote it, made when it was");
        assert_eq!(row.row.lane, event.lane());
    }
}

/// The database was put back from a backup while the archive went on: two events have one place, and are two. Steps are
/// as small as can be, and each begins behind the place that the one before has ended with.
pub(super) async fn events_of_one_place_are_all_replayed(bench: Bench) {
    let ids = ["a", "b", "c", "d"];
    let events = ids.map(|id| event(id, id));
    let relay = history(&bench, &events).await;
    let mut rows = pages(&bench, everything()).await;
    (rows[1].seq, rows[2].seq) = (rows[0].seq, rows[0].seq);
    let edited = rows[1].clone();
    rows.insert(3, edited);
    let job = restored(&bench, rows).await;
    for elsewhere in [None, Some(to("x"))] {
        let again = Replay {
            restored: Some(job.clone()),
            to: elsewhere.clone(),
            ..Replay::default()
        };
        let replayed = replay(&bench, again, Filter::default()).await;
        let mut touched = 0;
        for _ in 0..5 {
            let step = bench
                .console()
                .step(replayed.id.clone(), 1)
                .await
                .expect("a step");
            touched = step.job.touched;
        }
        assert_eq!(touched, 4, "to {elsewhere:?}");
        let mut found = Vec::new();
        for (id, _) in copies(&bench, &relay, &replayed).await {
            found.push(id);
        }
        found.sort_unstable();
        assert_eq!(found, ids, "to {elsewhere:?}");
    }
}

/// Edited while it was being sent, an event went to a destination twice, and people wanted the last; sent elsewhere, it
/// is copied as it went to the first of its destinations.
pub(super) async fn a_copy_is_what_went_last(bench: Bench) {
    let relay = history(&bench, &[event("a", "k")]).await;
    let first = pages(&bench, everything()).await.remove(0);
    let went = |destination: &str, second: i64, payload: &str| HistoryRow {
        destination: Some(to(destination)),
        payload: Payload::Text(payload.to_owned()),
        published_at: Timestamp(first.published_at.0 + second * 1_000_000),
        ..first.clone()
    };
    let rows = vec![went("d", 0, "1"), went("d", 1, "2"), went("e", 2, "3")];
    let job = restored(&bench, rows).await;
    for (elsewhere, wanted) in [
        (None, vec![("d", "2"), ("e", "3")]),
        (Some("x"), vec![("x", "2")]),
    ] {
        let again = Replay {
            restored: Some(job.clone()),
            to: elsewhere.map(to),
            ..Replay::default()
        };
        let replayed = replay(&bench, again, Filter::default()).await;
        let step = bench.console().step(replayed.id.clone(), 10).await;
        assert_eq!(step.expect("a step").job.touched, wanted.len() as u64);
        let mut copies: Vec<_> = deliver(&relay)
            .await
            .into_iter()
            .map(|row| (row.destination, row.row.event.expect("an event").payload.clone()))
            .collect();
        copies.sort_by(|one, other| one.0.cmp(&other.0));
        let wanted: Vec<_> = wanted
            .into_iter()
            .map(|(name, text)| (Some(to(name)), Payload::Text(text.to_owned())))
            .collect();
        assert_eq!(copies, wanted);
    }
}

/// Whoever drove it is gone when the last copies are sent. Nobody but a relay looks then, and it makes none.
pub(super) async fn a_replay_that_filled_its_limit_is_seen_to_be_done(bench: Bench) {
    let relay = history(
        &bench,
        &[event("a", "k"), event("b", "l"), event("not meant", "m")],
    )
    .await;
    let keys = Filter {
        key: vec![
            event("a", "k").key_text().into_owned(),
            event("b", "l").key_text().into_owned(),
        ],
        ..Filter::default()
    };
    let job = replay(&bench, Replay::default(), keys).await;
    let step = async |limit| {
        let step = bench.console().step(job.id.clone(), limit).await;
        step.expect("a step").job
    };
    assert_eq!(step(1).await.touched, 1);
    deliver(&relay).await;
    assert_eq!(step(0).await.state, JobState::Running, "one is left");
    assert_eq!(step(1).await.touched, 2);
    assert_eq!(step(0).await.state, JobState::Running, "it is not sent");
    deliver(&relay).await;
    let ended = step(0).await;
    assert_eq!((ended.state, ended.touched), (JobState::Done, 2));
}

/// Reads rows back as if they came from an archive.
async fn restored(bench: &Bench, rows: Vec<HistoryRow>) -> JobId {
    let job = begun(bench, JobKind::Restore(Restore::default()), Filter::default()).await;
    let (upkeep, end) = (bench.upkeep(), Cursor(rows.len().to_string()));
    let count = rows.len() as u64;
    let read = upkeep.restore(job.id.clone(), rows, end.clone()).await;
    assert_eq!(read.expect("restored").touched, count);
    upkeep.mark(job.id.clone(), end, 0, true).await.expect("done");
    job.id
}

/// Its places went further than those of this outbox have come, and its clock was ahead.
pub(super) async fn what_another_outbox_sent_is_replayed(bench: Bench) {
    let relay = history(&bench, &[event("a", "k"), event("b", "k")]).await;
    let mut rows = pages(&bench, everything()).await;
    for row in &mut rows {
        row.seq = Seq(row.seq.0 + 1_000_000);
        row.published_at = Timestamp(row.published_at.0 + 3_600_000_000);
    }
    let again = Replay {
        restored: Some(restored(&bench, rows).await),
        ..Replay::default()
    };
    let replayed = replay(&bench, again, Filter::default()).await;
    let wanted = pairs(&[("a", "d"), ("b", "d")]);
    assert_eq!(copies(&bench, &relay, &replayed).await, wanted);
    let ended = super::job::to_the_end(&bench.console(), &replayed.id, 10).await;
    assert_eq!((ended.state, ended.touched), (JobState::Done, 2));
}
