//! Days of the history: what keeps them, and who drops them.

use std::time::Duration;

use postrider_core::{Console, HistoryAsk, JobState, Kept, Purge, Purged, Timestamp, Upkeep};
use postrider_testkit::by_hand;

use crate::log;
use crate::support::{Db, few_shards};

const DAY: Duration = Duration::from_secs(86_400);

/// An outbox that keeps three days, with one sent event at the end of a day so many days ago, at a place: whatever the
/// time of day is, it is not as many days old yet.
async fn with_days(trim: bool, days: &[(u32, u32)]) -> Db {
    let options = few_shards().history(Some(3 * DAY)).trim(trim);
    let db = Db::with(options).await;
    for (ago, place) in days {
        let day = db.sql(&format!(
            "SELECT to_char(now() AT TIME ZONE 'UTC' - interval '{ago} days', 'YYYYMMDD')"
        ));
        db.sql(&format!(
            "CREATE TABLE outbox_sent_{day} PARTITION OF outbox_sent
                 FOR VALUES FROM ('{day} 00:00Z') TO (timestamptz '{day} 00:00Z' + interval '24 hours');
             INSERT INTO outbox_sent (seq, destination, event_id, event_type, aggregate_type, aggregate_id, payload,
                 outcome, published_at)
             VALUES ({place}, 'd', 'e{place}', 'T', 'A', 'k', '{{}}', 'published', '{day} 23:59:59Z')"
        ));
    }
    db.sql("SELECT setval('outbox_seq', 1000)");
    db
}

fn left(db: &Db) -> String {
    db.sql("SELECT coalesce(string_agg(event_id, ',' ORDER BY seq), '') FROM outbox_sent")
}

async fn clean(db: &Db) -> Purged {
    let purge = Purge {
        in_bulk: true,
        ..Purge::of(Kept::History, 3 * DAY, 100)
    };
    db.store.purge(purge).await.expect("purged")
}

/// Begins to send everything again that was ever sent.
async fn replay(db: &Db) -> String {
    let job = by_hand::replay_all();
    db.store.begin(job).await.expect("begun").id.to_string()
}

/// A replay keeps the days that it has still to read; one that keeps them for as long again is told as forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_keeps_days_for_a_time() {
    let db = with_days(false, &[(30, 1), (6, 2), (5, 3)]).await;
    let job = replay(&db).await;
    let purged = clean(&db).await;
    assert_eq!(left(&db), "e1,e2,e3");
    let held = purged.held.expect("it says who keeps them");
    assert!(held.contains(&job) && !purged.more, "{held}");
    let forgotten = async || db.store.forgotten(Purge::longest(3 * DAY)).await.expect("looked");
    assert_eq!(forgotten().await.map(|id| id.to_string()), Some(job.clone()));
    db.sql(&format!("UPDATE outbox_job SET cursor = '2:' WHERE id = '{job}'"));
    assert!(clean(&db).await.held.is_some());
    assert_eq!(left(&db), "e2,e3", "what it has passed goes");
    assert_eq!(forgotten().await, None, "six days are not yet twice three");
    db.sql(&format!("UPDATE outbox_job SET cursor = '3:' WHERE id = '{job}'"));
    assert!(clean(&db).await.held.is_some());
    assert_eq!(left(&db), "e3", "what it has passed goes");
    db.sql("UPDATE outbox_job SET state = 'cancelled'");
    assert_eq!(clean(&db).await.held, None);
    assert_eq!(left(&db), "");
}

/// The age that a person gives says nothing about for how long the history is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_who_purges_passes_nothing_that_a_replay_has_still_to_read() {
    let db = with_days(false, &[(30, 1), (6, 2)]).await;
    let job = replay(&db).await;
    for in_bulk in [true, false] {
        let purge = Purge {
            in_bulk,
            actor: Some("ben".to_owned()),
            ..Purge::of(Kept::History, DAY, 100)
        };
        let purged = db.store.purge(purge).await.expect("purged");
        assert_eq!(left(&db), "e1,e2");
        assert!(purged.held.is_some_and(|held| held.contains(&job)), "{in_bulk}");
    }
}

/// A relay by itself drops days by the same rule, and says in its log what it leaves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_leaves_days_that_a_replay_reads() {
    log::keep();
    let db = with_days(true, &[(6, 2), (5, 3)]).await;
    let job = replay(&db).await;
    assert_eq!(db.store.maintain().await.expect("looked after"), 0);
    assert_eq!(left(&db), "e2,e3");
    assert!(!log::lines(&["past their term", &job]).is_empty());
    db.sql("UPDATE outbox_job SET state = 'done'");
    assert_eq!(db.store.maintain().await.expect("looked after"), 2);
}

/// A replay that ended as if it had read what was dropped would be a replay that lost events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_cancels_a_replay_that_keeps_days_for_too_long() {
    log::keep();
    let db = with_days(true, &[(30, 1), (5, 2)]).await;
    let job = replay(&db).await;
    assert_eq!(db.store.maintain().await.expect("looked after"), 2);
    assert_eq!(left(&db), "");
    let cancelled = db
        .store
        .jobs(Some(job.as_str().into()), 1)
        .await
        .expect("jobs")
        .remove(0);
    assert_eq!(cancelled.state, JobState::Cancelled);
    assert!(!log::lines(&["cancelled a replay", &job]).is_empty());
    assert_eq!(
        db.sql("SELECT actor || ' ' || action FROM outbox_audit ORDER BY id DESC LIMIT 1"),
        "relay cancel_job"
    );
}

/// Where somebody else looks after the history a relay only makes the days to come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn days_are_left_to_whoever_archives_them() {
    let db = with_days(false, &[(6, 1)]).await;
    assert_eq!(db.store.maintain().await.expect("looked after"), 0);
    assert_eq!(left(&db), "e1");
    // Somebody reads it: it is not waited for, and tried again.
    let reader = db.connect().await;
    let open = "BEGIN; SELECT count(*) FROM outbox_events";
    reader.batch_execute(open).await.expect("read");
    let purged = clean(&db).await;
    assert!(
        purged.more && purged.held.is_some() && purged.rows == 0,
        "{purged:?}"
    );
    reader.batch_execute("COMMIT").await.expect("done");
    let purged = clean(&db).await;
    assert!(!purged.more && purged.held.is_none(), "{purged:?}");
    assert_eq!(left(&db), "");
}

/// A page of a short time in a long history is of a bounded effort, and the next one goes on behind it: otherwise it
/// would fail again and again by the time that it may take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_time_in_a_long_history_is_walked_in_pages() {
    let db = with_days(false, &[]).await;
    // At least one in every stretch that is looked at, and to two destinations or none at each place.
    db.sql(
        "INSERT INTO outbox_sent (seq, destination, event_id, event_type, aggregate_type, aggregate_id, payload,
             outcome, published_at)
         SELECT g * 1000, d, 'e' || g, 'T', 'A', 'k', '{}', 'published', now()
         FROM generate_series(1, 300) g, (VALUES ('d'), ('\u{e9}'), (NULL)) v(d);
         SELECT setval('outbox_seq', 300000)",
    );
    let walk = async |until| {
        let (mut pages, mut rows) = (0, 0);
        let mut ask = HistoryAsk {
            until,
            limit: 10_000,
            max_bytes: 1 << 40,
            ..HistoryAsk::default()
        };
        loop {
            let page = db.store.history(ask.clone()).await.expect("a page");
            pages += 1;
            rows += page.rows.len();
            ask.after = page.next;
            assert!(pages < 100, "it does not end");
            if ask.after.is_none() {
                return (pages, rows);
            }
        }
    };
    let (pages, rows) = walk(Some(Timestamp(0))).await;
    assert_eq!(rows, 0);
    assert!((2..20).contains(&pages), "{pages} pages");
    let (_, rows) = walk(None).await;
    assert_eq!(rows, 900, "each row once");
}
