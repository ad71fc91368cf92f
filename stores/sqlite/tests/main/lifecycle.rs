//! Jobs, replays, edits, pauses of keys and what is kept: what the suite leaves open, and plans of SQLite's own.

use std::time::Duration;

use postrider_core::{
    Console, Control, Edit, ErrorKind, Failure, Filter, JobId, JobKind, JobState, JobVerb, Kept, List,
    NewJob, Payload, Purge, Replay, Scope, Status, Upkeep, Verb,
};

use crate::support::{Db, dead, event, parks};

fn new(kind: JobKind) -> NewJob {
    NewJob {
        id: JobId::new(),
        kind,
        filter: Filter::default(),
        actor: "ada".to_owned(),
    }
}

async fn with_dead(count: usize) -> Db {
    let db = Db::new().await;
    let events: Vec<_> = (0..count)
        .map(|n| event(&format!("e{n:03}"), &format!("k{n}")))
        .collect();
    db.enqueue(&events);
    let relay = db.relay("one").await;
    let rows = relay.queued().await;
    let no = || Failure::new(ErrorKind::Rejected, "not wanted");
    let parked = rows.iter().map(|row| parks(row, vec![dead("d", no())])).collect();
    relay.settle(parked, vec![]).await;
    db
}

#[tokio::test]
async fn a_job_is_done_in_steps_each_written_down() {
    let db = with_dead(25).await;
    let job = db
        .store
        .begin(new(JobKind::Act(Verb::Redrive)))
        .await
        .expect("begun");
    let mut touched = vec![];
    loop {
        let step = db.store.step(job.id.clone(), 10).await.expect("a step");
        touched.push(step.job.touched);
        if step.job.state == JobState::Done {
            break;
        }
    }
    assert_eq!(touched, [10, 20, 25]);
    let audited =
        db.number("SELECT count(*) FROM outbox_audit WHERE action = 'redrive' AND job_id IS NOT NULL");
    assert_eq!(audited, 3);
    assert_eq!(
        db.number("SELECT count(*) FROM outbox_parked WHERE redriven = 1 AND dead = 0 AND version = 2"),
        25
    );
}

/// Whoever counts waits for no writer, and none waits for him.
#[tokio::test]
async fn a_dry_run_needs_no_writer() {
    let db = with_dead(3).await;
    let mut service = db.connect();
    let behaviour = rusqlite::TransactionBehavior::Immediate;
    let busy = service.transaction_with_behavior(behaviour).expect("the writer");
    let dry = postrider_core::Act {
        dry_run: true,
        filter: Filter::default(),
        ..postrider_testkit::by_hand::act(Verb::Redrive, "e000")
    };
    let counted = tokio::time::timeout(Duration::from_secs(2), db.store.act(dry)).await;
    assert_eq!(counted.expect("at once").expect("counted").touched, 3);
    busy.rollback().expect("given up");
}

#[tokio::test]
async fn a_replay_parks_copies_at_places_of_their_own_and_is_done_when_they_are_sent() {
    let db = Db::new().await;
    db.enqueue(&[event("a", "k"), event("b", "k"), event("c", "l")]);
    let relay = db.relay("one").await;
    relay.send_all().await;
    let job = db
        .store
        .begin(new(JobKind::Replay(Replay::default())))
        .await
        .expect("begun");
    let step = db.store.step(job.id.clone(), 2).await.expect("a step");
    assert_eq!((step.job.touched, step.job.waiting), (2, 2));
    db.enqueue(&[event("new", "k")]);
    let page = relay.page().await;
    assert_eq!(page.queued[0].event_id.as_str(), "new", "no place is given twice");
    assert_eq!(page.queued[0].blocked, postrider_core::Blocked::Nowhere);
    assert_eq!(
        page.parked.len(),
        1,
        "the second copy of the key waits for the first"
    );
    assert_eq!(page.parked[0].row.replay.as_deref(), Some(job.id.as_str()));
    let step = db.store.step(job.id.clone(), 100).await.expect("a step");
    assert_eq!((step.job.touched, step.job.waiting), (3, 3));
    let gone = db
        .store
        .steer(job.id.clone(), JobVerb::Cancel, "bob".to_owned())
        .await;
    assert_eq!(gone.expect("cancelled").waiting, 0);
    assert_eq!(db.number("SELECT count(*) FROM outbox_parked"), 0);
}

#[tokio::test]
async fn a_paused_key_holds_its_key_in_every_lane_and_is_seen_by_nobody() {
    let db = Db::new().await;
    db.enqueue(&[event("a", "k"), event("b", "other")]);
    let pause = Control::Pause(Scope::Key("k".to_owned()));
    db.store.control(pause, "ada".to_owned()).await.expect("paused");
    let relay = db.relay("one").await;
    let rows = relay.queued().await;
    assert_eq!(rows[0].blocked, postrider_core::Blocked::Everywhere);
    assert_eq!(rows[1].blocked, postrider_core::Blocked::Nowhere);
    assert!(db.store.groups().await.expect("groups").is_empty());
    let stats = db.store.stats().await.expect("stats");
    assert_eq!((stats.dead, stats.parked.len()), (0, 0));
    let all = db
        .store
        .list(List::first(10, Filter::default()))
        .await
        .expect("listed");
    assert_eq!(all.events.len(), 2);
    let in_force = db.store.controls().await.expect("controls");
    assert_eq!(in_force.len(), 1);
    assert_eq!(
        (in_force[0].actor.as_str(), &in_force[0].scope),
        ("ada", &Scope::Key("k".to_owned()))
    );
    let resume = Control::Resume(Scope::Key("k".to_owned()));
    db.store.control(resume, "ada".to_owned()).await.expect("resumed");
    assert_eq!(relay.queued().await[0].blocked, postrider_core::Blocked::Nowhere);
    assert_eq!(db.number("SELECT count(*) FROM outbox_parked"), 0);
}

#[tokio::test]
async fn an_edit_keeps_what_the_producer_wrote() {
    let db = with_dead(1).await;
    let before = db.text("SELECT payload FROM outbox_parked");
    let edit = |payload: &str| Edit {
        event_id: "e000".into(),
        destination: None,
        payload: Payload::Text(payload.to_owned()),
        content_type: None,
        dry_run: false,
        actor: "ada".to_owned(),
    };
    let error = db.store.edit(edit("\u{0}")).await.expect_err("not JSON");
    assert!(error.to_string().contains("would not be valid"), "{error}");
    assert_eq!(
        db.text("SELECT payload FROM outbox_parked"),
        before,
        "nothing is changed"
    );
    let chunk = db.store.edit(edit(r#"{"n":2}"#)).await.expect("edited");
    assert_eq!(chunk.touched, 1);
    let shown = db.store.show("e000".into()).await.expect("shown").remove(0);
    let original = shown.original.clone().expect("an original");
    assert_eq!(Some(original.payload), before.map(Payload::Text));
    assert_eq!(shown.status(), Status::Retrying);
    let words: Vec<_> = shown.timeline.iter().map(|moment| moment.what.as_str()).collect();
    assert!(
        words.contains(&"edited") && words.contains(&"first_failed"),
        "{words:?}"
    );
}

#[tokio::test]
async fn the_words_of_stats_are_those_of_the_view() {
    let db = Db::new().await;
    db.sql(
        "INSERT INTO outbox_parked (seq, destination, lane, order_key, event_id, event_type, aggregate_type,
                aggregate_id, version, dead, next_attempt_at, attempts, failures, maybe_sent, updated_at, error_kind,
                enqueued_at)
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
         SELECT i, iif(i % 7 = 0, '', 'd' || (i % 3)), i % 2,
                iif(i % 11 = 0, char(31) || 'alone' || char(31) || i, 'k' || (i * 7919 % 131)), 'e' || i, 'T', 'A', '1',
                1, i % 5 = 0, iif(i % 4 = 0, 9000000000000000, 0), 0, 0, 0, 0, iif(i % 13 = 0, 'rejected', NULL), i
         FROM n",
    );
    let pause = Control::Pause(Scope::Key("k17".to_owned()));
    db.store.control(pause, "ada".to_owned()).await.expect("paused");
    let stats = db.store.stats().await.expect("stats");
    let view = |word: &str| {
        let sql = format!("SELECT count(*) FROM outbox_parked_status WHERE status = '{word}'");
        u64::try_from(db.number(&sql)).expect("a count")
    };
    assert_eq!(stats.dead, view("DEAD_LETTER"));
    for status in [Status::Retrying, Status::Waiting, Status::Held, Status::Scheduled] {
        assert!(view(status.as_str()) > 0, "{status:?}");
        assert_eq!(stats.parked_as(status), view(status.as_str()), "{status:?}");
    }
}

/// Fault C17.
#[tokio::test]
async fn every_kind_of_what_is_kept_has_its_own_end() {
    let db = with_dead(2).await;
    let job = db
        .store
        .begin(new(JobKind::Act(Verb::Redrive)))
        .await
        .expect("begun");
    db.store.step(job.id, 10).await.expect("a step");
    db.sql(
        "CREATE TABLE inbox (consumer TEXT, event_id TEXT, payload_hash TEXT, processed_at INTEGER,
             PRIMARY KEY (consumer, event_id)) STRICT, WITHOUT ROWID;
         CREATE INDEX inbox_time ON inbox (processed_at);
         INSERT INTO inbox VALUES ('c', 'x', NULL, 5), ('c', 'y', NULL, 9000000000000000);
         INSERT INTO outbox_original VALUES (900, 'd', 2, 'p', NULL, NULL, 'ada', 5);",
    );
    let kinds = [
        (Kept::Audit, 2),
        (Kept::Jobs, 1),
        (Kept::Originals, 1),
        (Kept::Restored, 0),
        (Kept::Inbox("inbox".to_owned()), 1),
        (Kept::Inbox("no_such_inbox".to_owned()), 0),
        (Kept::History, 0),
    ];
    for (kind, rows) in kinds {
        let counted = Purge {
            dry_run: true,
            ..Purge::of(kind.clone(), Duration::ZERO, 100)
        };
        assert_eq!(
            db.store.purge(counted).await.expect("counted").rows,
            rows,
            "{kind:?}"
        );
        let purged = db.store.purge(Purge::of(kind.clone(), Duration::ZERO, 100)).await;
        assert_eq!(purged.expect("purged").rows, rows, "{kind:?}");
    }
    assert_eq!(db.number("SELECT count(*) FROM outbox_parked"), 2);
}

#[tokio::test]
async fn what_a_replay_has_still_to_read_is_not_removed() {
    let db = Db::new().await;
    db.enqueue(&[event("a", "k"), event("b", "k"), event("c", "k")]);
    let relay = db.relay("one").await;
    relay.send_all().await;
    let job = db
        .store
        .begin(new(JobKind::Replay(Replay::default())))
        .await
        .expect("begun");
    db.store.step(job.id.clone(), 2).await.expect("a step");
    let purge = || Purge::of(Kept::History, Duration::ZERO, 100);
    assert_eq!(
        db.store.purge(purge()).await.expect("purged").rows,
        1,
        "what it has passed"
    );
    db.store
        .steer(job.id, JobVerb::Cancel, "ada".to_owned())
        .await
        .expect("cancelled");
    assert_eq!(db.store.purge(purge()).await.expect("purged").rows, 2);
}
