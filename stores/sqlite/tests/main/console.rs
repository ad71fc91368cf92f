//! What the suite leaves open: audit, bounds, what is told of events that are not parked.

use std::time::Duration;

use postrider_core::{
    Act, Console, Control, Cursor, ErrorKind, Failure, Filter, List, Park, Scope, Status, Store,
    StoreErrorKind, Verb,
};

use crate::support::{Db, dead, event, heartbeat, parks};

fn act(verb: Verb, filter: Filter) -> Act {
    Act {
        verb,
        filter,
        dry_run: false,
        actor: "ada".to_owned(),
        limit: 100,
        from: None,
    }
}

fn by_id(id: &str) -> Filter {
    Filter {
        event_id: vec![id.into()],
        ..Filter::default()
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
    relay
        .settle(
            rows.iter().map(|row| parks(row, vec![dead("d", no())])).collect(),
            vec![],
        )
        .await;
    db
}

#[tokio::test]
async fn every_act_is_written_down() {
    let db = with_dead(3).await;
    db.store
        .act(act(Verb::Redrive, by_id("e000")))
        .await
        .expect("redriven");
    let wait = Verb::Discard("a test".to_owned());
    db.store
        .act(act(wait.clone(), by_id("e001")))
        .await
        .expect("discarded");
    db.store
        .act(Act {
            dry_run: true,
            ..act(wait, by_id("e002"))
        })
        .await
        .expect("counted");
    db.store
        .control(Control::Pause(Scope::Destination("d".into())), "-".to_owned())
        .await
        .expect("paused");
    let log = db.text(
        "SELECT group_concat(actor || ' ' || action || ' ' || touched || ' ' || refused, '; ')
         FROM (SELECT * FROM outbox_audit ORDER BY id)",
    );
    assert_eq!(
        log.as_deref(),
        Some("ada redrive 1 0; ada discard 1 0; - pause 1 0")
    );
    let detail = "SELECT detail FROM outbox_audit WHERE action = 'discard'";
    let detail = db.text(detail).expect("a detail");
    assert!(detail.contains("a test") && detail.contains("e001"), "{detail}");
    assert_eq!(
        db.number("SELECT count(*) FROM outbox_audit WHERE at > datetime('now', '-1 minute')"),
        3
    );
}

#[tokio::test]
async fn a_discarded_row_is_kept_with_its_reason_and_was_not_published() {
    let db = with_dead(1).await;
    db.store
        .act(act(Verb::Discard("spam".to_owned()), Filter::default()))
        .await
        .expect("discarded");
    let kept = db.text("SELECT outcome || ' ' || reason || ' ' || error_text FROM outbox_sent");
    assert_eq!(kept.as_deref(), Some("discarded spam not wanted"));
    let seen = db.text(
        "SELECT status || ' ' || error_kind || ' ' || last_error || ' ' || error_message FROM outbox_events
         WHERE published IS NULL AND published_at IS NULL",
    );
    assert_eq!(seen.as_deref(), Some("DISCARDED rejected spam spam"));
    assert_eq!(db.number("SELECT discarded FROM outbox_meta"), 1);
    let by_status = |status| Filter {
        status: vec![status],
        ..Filter::default()
    };
    for (status, count) in [
        (Status::Discarded, 1),
        (Status::Published, 0),
        (Status::DeadLetter, 0),
    ] {
        let listing = db
            .store
            .list(List::first(10, by_status(status)))
            .await
            .expect("listed");
        assert_eq!(listing.events.len(), count, "{status:?}");
    }
    let chunk = db
        .store
        .act(act(Verb::Redrive, by_id("e000")))
        .await
        .expect("answered");
    assert_eq!(chunk.refused, [("e000".into(), Status::Discarded)]);
    assert_eq!(db.store.stats().await.expect("stats").published, 0);
}

#[tokio::test]
async fn an_event_that_is_named_but_not_parked_is_refused_with_its_state() {
    let db = Db::new().await;
    db.enqueue(&[event("sent", "k"), event("queued", "k")]);
    let relay = db.relay("one").await;
    let row = relay.queued().await.remove(0);
    relay.settle(vec![crate::support::sent(&row, "d")], vec![]).await;
    for (id, status) in [("sent", Status::Published), ("queued", Status::Pending)] {
        let chunk = db
            .store
            .act(act(Verb::Redrive, by_id(id)))
            .await
            .expect("answered");
        assert_eq!((chunk.touched, chunk.refused), (0, vec![(id.into(), status)]));
    }
    let chunk = db
        .store
        .act(act(Verb::Redrive, by_id("nobody")))
        .await
        .expect("answered");
    assert_eq!((chunk.touched, chunk.refused.len()), (0, 0));
}

#[tokio::test]
async fn a_bulk_verb_is_done_in_steps_and_can_be_taken_up_again() {
    let db = with_dead(25).await;
    let mut step = Act {
        limit: 10,
        ..act(
            Verb::Redrive,
            Filter {
                error_kind: Some("rejected".to_owned()),
                ..Filter::default()
            },
        )
    };
    let mut touched = vec![];
    loop {
        let chunk = db.store.act(step.clone()).await.expect("a step");
        touched.push(chunk.touched);
        match chunk.next {
            Some(next) => step.from = Some(next),
            None => break,
        }
    }
    assert_eq!(touched, [10, 10, 5]);
    assert_eq!(
        db.number("SELECT count(*) FROM outbox_parked WHERE redriven = 1 AND dead = 0 AND version = 2"),
        25
    );
}

#[tokio::test]
async fn a_filter_that_matches_little_does_not_hold_the_write_lock_for_long() {
    let db = Db::new().await;
    db.sql(
        "INSERT INTO outbox_parked (seq, destination, lane, order_key, event_id, event_type, aggregate_type,
                aggregate_id, version, dead, next_attempt_at, attempts, failures, maybe_sent, updated_at)
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
         SELECT i, 'd', 0, 'k' || i, 'e' || i, iif(i = 4999, 'Rare', 'T'), 'A', '1', 1, 1, 0, 0, 0, 0, 0 FROM n",
    );
    let filter = Filter {
        text: Some("rare".to_owned()),
        ..Filter::default()
    };
    let mut step = act(Verb::Redrive, filter);
    let (mut steps, mut touched) = (0, 0);
    loop {
        let chunk = db.store.act(step.clone()).await.expect("a step");
        steps += 1;
        touched += chunk.touched;
        match chunk.next {
            Some(next) => step.from = Some(next),
            None => break,
        }
    }
    assert_eq!((steps, touched), (3, 1));
}

#[tokio::test]
async fn listings_filter_by_everything_that_a_filter_has() {
    let db = with_dead(5).await;
    db.sql(
        "UPDATE outbox_parked SET destination = 'e', error_kind = 'too_large', event_type = 'Big'
        WHERE event_id = 'e001';
            UPDATE outbox_parked SET event_key = NULL, aggregate_id = '77' WHERE event_id = 'e002';
            UPDATE outbox_parked SET created_at = '2020-01-01' WHERE event_id = 'e003'",
    );
    let cases: [(Filter, &str); 6] = [
        (
            Filter {
                destination: Some("e".into()),
                ..Filter::default()
            },
            "e001",
        ),
        (
            Filter {
                error_kind: Some("too_large".to_owned()),
                ..Filter::default()
            },
            "e001",
        ),
        (
            Filter {
                event_type: vec!["Big".to_owned()],
                ..Filter::default()
            },
            "e001",
        ),
        (
            Filter {
                key: vec!["THING/77".to_owned()],
                ..Filter::default()
            },
            "e002",
        ),
        (
            Filter {
                key: vec!["k4".to_owned()],
                ..Filter::default()
            },
            "e004",
        ),
        (
            Filter {
                older_than: Some(Duration::from_secs(86_400)),
                ..Filter::default()
            },
            "e003",
        ),
    ];
    for (filter, id) in cases {
        let listing = db
            .store
            .list(List::first(10, filter.clone()))
            .await
            .expect("a listing");
        let ids: Vec<_> = listing
            .events
            .iter()
            .map(|record| record.event_id.as_str())
            .collect();
        assert_eq!(ids, [id], "{filter:?}");
    }
    let nothing = Filter {
        status: vec![Status::Pending],
        destination: Some("d".into()),
        ..Filter::default()
    };
    assert!(
        db.store
            .list(List::first(10, nothing))
            .await
            .expect("a listing")
            .events
            .is_empty()
    );
}

#[tokio::test]
async fn a_strange_cursor_is_an_error_and_not_the_beginning() {
    let db = Db::new().await;
    let cursor = Some(Cursor("elsewhere".to_owned()));
    let error = db
        .store
        .list(List {
            from: cursor,
            ..List::first(10, Filter::default())
        })
        .await
        .expect_err("refused");
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
}

#[tokio::test]
async fn a_pause_reaches_the_relay_and_an_act_wakes_it() {
    let db = with_dead(1).await;
    let bell = db.store.doorbell().expect("a doorbell");
    let ring = bell.arm(vec![]).await.expect("armed");
    db.store
        .act(act(Verb::Redrive, Filter::default()))
        .await
        .expect("redriven");
    tokio::time::timeout(Duration::from_secs(5), ring)
        .await
        .expect("it rings");
    db.store
        .control(Control::Pause(Scope::Outbox), "-".to_owned())
        .await
        .expect("paused");
    let standing = db.store.heartbeat(heartbeat("one")).await.expect("a heartbeat");
    assert!(standing.controls.paused);
    // Limits are kept in the same place.
    db.sql("INSERT INTO outbox_control (destination, max_rate) VALUES ('d', 5)");
    let standing = db.store.heartbeat(heartbeat("one")).await.expect("a heartbeat");
    assert_eq!(standing.controls.limits[&"d".into()].max_rate, Some(5));
}

#[tokio::test]
async fn the_relays_own_settles_do_not_wake_it() {
    let db = Db::new().await;
    db.enqueue(&[event("a", "k")]);
    let relay = db.relay("one").await;
    let bell = db.store.doorbell().expect("a doorbell");
    let mut ring = bell.arm(vec![]).await.expect("armed");
    relay.send_all().await;
    let early = tokio::time::timeout(Duration::from_millis(50), &mut ring).await;
    assert!(early.is_err(), "a settle rings nobody");
    db.enqueue(&[event("b", "k")]);
    tokio::time::timeout(Duration::from_secs(5), ring)
        .await
        .expect("a producer does");
}

#[tokio::test]
async fn stats_name_parked_rows_by_their_words() {
    let db = with_dead(2).await;
    db.enqueue(&[event("w1", "w"), event("w2", "w"), event("q", "q")]);
    let relay = db.relay("one").await;
    let rows = relay.queued().await;
    let wait = || vec![Park::waiting("d".into(), false)];
    relay
        .settle(vec![parks(&rows[0], wait()), parks(&rows[1], wait())], vec![])
        .await;
    let stats = db.store.stats().await.expect("stats");
    assert_eq!((stats.queued, stats.dead), (1, 2));
    assert_eq!(
        stats.parked.into_iter().collect::<Vec<_>>(),
        [("HELD", 1), ("WAITING", 1)]
    );
    assert!(stats.oldest.is_some());
}
