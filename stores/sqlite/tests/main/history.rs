//! History: what it is for, when it goes, and what stays when it is gone.

use std::time::Duration;

use postrider_core::{
    Console, ErrorKind, Failure, JobState, Kept, Park, Purge, Settled, Store, Upkeep, Verb,
};
use postrider_sqlite::SqliteOptions;
use postrider_testkit::by_hand;

use crate::support::{Db, act, event, heartbeat, parks, sent};

#[tokio::test]
async fn without_a_history_nothing_is_written_and_everything_counted() {
    let db = Db::with(SqliteOptions::default().history(None)).await;
    db.enqueue(&[event("a", "k"), event("b", "k")]);
    let relay = db.relay("one").await;
    assert_eq!(relay.send_all().await, 2);
    assert_eq!(db.number("SELECT count(*) FROM outbox_sent"), 0);
    assert_eq!(db.store.stats().await.expect("stats").published, 2);
    // There is nothing to look in, so the same id is not known.
    db.enqueue(&[event("a", "k")]);
    assert!(relay.queued().await[0].sent_before.is_empty());
}

/// Also where somebody else removes the history: without one there is nothing for him to remove.
#[tokio::test]
async fn without_a_history_what_was_discarded_goes_after_a_day() {
    for trim in [true, false] {
        let db = Db::with(SqliteOptions::default().history(None).trim(trim)).await;
        db.enqueue(&[event("a", "k")]);
        let relay = db.relay("one").await;
        let row = relay.queued().await.remove(0);
        let dead = Park::dead(Some("d".into()), Failure::new(ErrorKind::Rejected, "not wanted"));
        let settled = relay.settle(vec![parks(&row, vec![dead])], vec![]).await;
        assert_eq!(settled, [Settled::Done]);
        let chunk = db.store.act(act(Verb::Discard("old".into()), "a")).await;
        assert_eq!(chunk.expect("discarded").touched, 1);
        for (hours, left) in [(23, 1), (2, 0)] {
            db.sql(&format!(
                "UPDATE outbox_sent SET published_at = published_at - {hours} * 3600000000"
            ));
            db.store.heartbeat(heartbeat("one")).await.expect("a heartbeat");
            assert_eq!(db.number("SELECT count(*) FROM outbox_sent"), left);
        }
    }
}

#[tokio::test]
async fn an_id_is_known_for_as_long_as_the_window() {
    let db = Db::new().await;
    db.enqueue(&[event("a", "k")]);
    let relay = db.relay("one").await;
    relay.send_all().await;
    db.enqueue(&[event("a", "k")]);
    assert_eq!(relay.queued().await[0].sent_before.len(), 1);
    db.sql("UPDATE outbox_sent SET published_at = published_at - 90000000000");
    assert!(relay.queued().await[0].sent_before.is_empty(), "a day has passed");
}

/// Fault C17.
#[tokio::test]
async fn settles_and_heartbeats_remove_what_is_older_than_it_is_kept() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    db.enqueue(&[event("old1", "k"), event("old2", "k"), event("old3", "k")]);
    relay.send_all().await;
    db.sql("UPDATE outbox_sent SET published_at = published_at - 8 * 86400000000");
    db.enqueue(&[event("new", "k")]);
    let row = relay.queued().await.remove(0);
    assert_eq!(relay.settle(vec![sent(&row, "d")], vec![]).await, [Settled::Done]);
    assert_eq!(
        db.number("SELECT count(*) FROM outbox_sent"),
        2,
        "twice what came is gone"
    );
    db.store.heartbeat(heartbeat("one")).await.expect("a heartbeat");
    assert_eq!(
        db.text("SELECT group_concat(event_id) FROM outbox_sent"),
        Some("new".to_owned())
    );
    assert_eq!(db.store.stats().await.expect("stats").published, 4);
}

/// What settles remove on their way is not what a replay has still to read, up to its longest term.
#[tokio::test]
async fn settles_and_heartbeats_leave_what_a_replay_has_still_to_read() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    db.enqueue(&[event("old1", "k"), event("old2", "k")]);
    relay.send_all().await;
    db.sql("UPDATE outbox_sent SET published_at = published_at - 8 * 86400000000");
    let replay = by_hand::replay_all();
    let job = db.store.begin(replay).await.expect("begun");
    db.enqueue(&[event("new", "k")]);
    relay.send_all().await;
    db.store.heartbeat(heartbeat("one")).await.expect("a heartbeat");
    assert_eq!(db.number("SELECT count(*) FROM outbox_sent"), 3);
    let copied = db.store.step(job.id, 10).await.expect("a step").job;
    assert_eq!(copied.touched, 2);
    db.store.heartbeat(heartbeat("one")).await.expect("a heartbeat");
    assert_eq!(
        db.text("SELECT group_concat(event_id) FROM outbox_sent"),
        Some("new".to_owned()),
        "it has read them"
    );
}

/// A replay that ended as if it had read what was removed would be a replay that lost events.
#[tokio::test]
async fn a_replay_that_keeps_the_history_for_too_long_is_cancelled_by_the_settle_that_removes_it() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    db.enqueue(&[event("old1", "k"), event("old2", "k")]);
    relay.send_all().await;
    db.sql("UPDATE outbox_sent SET published_at = published_at - 15 * 86400000000");
    let replay = by_hand::replay_all();
    let spec = replay.kind.spec(&replay.filter);
    let job = db.store.begin(replay).await.expect("begun");
    for unreadable in ["{", "{\"filter\": {\"of a later version\": 1}}"] {
        db.sql(&format!("UPDATE outbox_job SET spec = '{unreadable}'"));
        db.store.heartbeat(heartbeat("one")).await.expect("a heartbeat");
        let left = db.number("SELECT count(*) FROM outbox_sent");
        assert_eq!(left, 2, "nobody can cancel it, and nobody fails for it");
    }
    db.sql(&format!("UPDATE outbox_job SET spec = '{spec}'"));
    db.store.heartbeat(heartbeat("one")).await.expect("a heartbeat");
    assert_eq!(db.number("SELECT count(*) FROM outbox_sent"), 0);
    let job = db.store.jobs(Some(job.id), 1).await.expect("jobs").remove(0);
    assert_eq!(job.state, JobState::Cancelled);
    let audit = db.store.audit(1, None).await.expect("the audit").entries;
    assert_eq!(
        (audit[0].actor.as_str(), audit[0].action.as_str()),
        ("relay", "cancel_job")
    );
}

/// Fault C17.
#[tokio::test]
async fn a_purge_takes_the_oldest_first_and_stops_at_its_limit() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    let events: Vec<_> = (0..10).map(|n| event(&format!("e{n}"), "k")).collect();
    db.enqueue(&events);
    relay.send_all().await;
    db.sql("UPDATE outbox_sent SET published_at = published_at - 3600000000 * (20 - seq)");
    assert_eq!(
        db.store
            .purge(Purge::of(
                Kept::History,
                Duration::from_secs(13 * 3_600 + 1_800),
                100
            ))
            .await
            .expect("purged")
            .rows,
        6
    );
    assert_eq!(
        db.store
            .purge(Purge::of(Kept::History, Duration::ZERO, 3))
            .await
            .expect("purged")
            .rows,
        3
    );
    assert_eq!(
        db.text("SELECT group_concat(event_id) FROM outbox_sent"),
        Some("e9".to_owned())
    );
}
