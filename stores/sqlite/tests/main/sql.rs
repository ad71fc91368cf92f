//! What other languages insert, and what people and monitoring read.

use std::time::Duration;

use postrider_core::{ErrorKind, Failure, Lane, Park, Payload, Settled, Status, Store, Timestamp};

use crate::support::{Db, dead, decided, event, everything, parks, sent};

#[tokio::test]
async fn the_shortest_insert_is_an_event_with_the_same_id_at_every_read() {
    let db = Db::new().await;
    db.sql("INSERT INTO outbox (event_type, aggregate_type, aggregate_id, payload) VALUES ('T', 'ORDER', 42, '{}')");
    let relay = db.relay("one").await;
    let row = relay.queued().await.remove(0);
    let event = row.event.as_ref().expect("an event");
    assert_eq!(event.aggregate_id, "42", "a number is taken as text");
    assert_eq!(row.key.as_str(), "ORDER\u{1f}42");
    assert_eq!(row.key, event.order_key());
    assert_eq!(row.lane, Lane::Normal);
    assert!(event.created_at.is_some());
    assert!(row.due_in.is_zero());
    assert!(
        row.event_id.as_str().ends_with("-1") && row.event_id.as_str().len() > 30,
        "{}",
        row.event_id
    );
    assert_eq!(relay.queued().await[0].event_id, row.event_id);

    // The id stays the same on the way through parked and into the history, and settles the row it names.
    let failure = Failure::new(ErrorKind::Rejected, "no");
    assert_eq!(
        relay
            .settle(vec![parks(&row, vec![dead("d", failure)])], vec![])
            .await,
        [Settled::Done]
    );
    assert_eq!(
        db.text("SELECT event_id FROM outbox_events"),
        Some(row.event_id.to_string())
    );
    db.sql("UPDATE outbox_parked SET dead = 0");
    let parked = relay.page().await.parked.remove(0);
    assert_eq!(parked.row.event_id, row.event_id);
    let entry = crate::support::again(&parked, postrider_core::Then::Sent(Default::default()));
    assert_eq!(relay.settle(vec![], vec![entry]).await, [Settled::Done]);
    assert_eq!(
        db.text("SELECT event_id FROM outbox_events"),
        Some(row.event_id.to_string())
    );
    assert_eq!(
        db.text("SELECT event_id FROM outbox_sent"),
        Some(row.event_id.to_string())
    );
}

#[tokio::test]
async fn two_outboxes_never_derive_the_same_id() {
    let (one, two) = (Db::new().await, Db::new().await);
    let id = "SELECT outbox_id FROM outbox_meta";
    assert_ne!(one.text(id), two.text(id));
}

/// Fault G6.
#[tokio::test]
async fn every_optional_column_takes_an_explicit_null() {
    let db = Db::new().await;
    db.sql(
        "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, event_key, payload, payload_bytes,
                content_type, headers, priority, available_at, created_at, replay_id, enqueued_at)
         VALUES (NULL, 'T', 'A', '1', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    );
    let row = db.relay("one").await.queued().await.remove(0);
    let event = row.event.expect("an event");
    assert_eq!(event.payload, Payload::Tombstone);
    assert_eq!(event.priority, 0);
    assert!((event.created_at.expect("a time").0 - Timestamp::now().0).abs() < 60_000_000);
}

#[tokio::test]
async fn what_can_only_be_a_mistake_fails_in_the_business_transaction() {
    let db = Db::new().await;
    let connection = db.connect();
    for (columns, values) in [
        ("payload, payload_bytes", r"'{}', x'00'"),
        ("payload", r"'\x7b7d'"),
        ("payload", "x'7b7d'"),
        ("seq", "0"),
        ("seq", "-5"),
        ("priority", "'urgent'"),
        ("lane", "1"),
    ] {
        let sql = format!(
            "INSERT INTO outbox (event_type, aggregate_type, aggregate_id, {columns}) VALUES ('T', 'A', '1', {values})"
        );
        assert!(connection.execute(&sql, []).is_err(), "{sql}");
    }
    for column in ["event_type", "aggregate_type", "aggregate_id"] {
        let sql = format!("INSERT INTO outbox ({column}) VALUES ('x')");
        assert!(connection.execute(&sql, []).is_err(), "{sql}");
    }
}

#[tokio::test]
async fn times_are_taken_in_every_common_form() {
    let db = Db::new().await;
    for time in [
        "datetime('now', '+1 hour')",
        "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+1 hour')",
        "unixepoch('now', '+1 hour')",
        "unixepoch('now', '+1 hour') * 1000",
        "unixepoch('now', '+1 hour') * 1000000",
        "julianday('now', '+1 hour')",
    ] {
        db.sql(&format!(
            "DELETE FROM outbox;
             INSERT INTO outbox (event_type, aggregate_type, aggregate_id, available_at, created_at)
             VALUES ('T', 'A', '1', {time}, {time})"
        ));
        let page = db.store.read(everything()).await.expect("a page");
        let due_in = page.queued[0].due_in;
        assert!(
            due_in > Duration::from_secs(3_590) && due_in <= Duration::from_secs(3_601),
            "{time}: {due_in:?}"
        );
        let ahead = "SELECT round((julianday(created_at) - julianday('now')) * 24) FROM outbox_events";
        assert_eq!(
            db.connect().query_row(ahead, [], |row| row.get::<_, f64>(0)),
            Ok(1.0),
            "{time}"
        );
    }
}

#[tokio::test]
async fn priorities_of_any_size_have_a_lane_and_keys_of_any_kind_a_key() {
    let db = Db::new().await;
    db.sql(
        "INSERT INTO outbox (event_type, aggregate_type, aggregate_id, event_key, priority) VALUES
            ('T', '', '', NULL, 9223372036854775807), ('T', '', '', '', -9223372036854775808), ('T', '', '', 'k', 7)",
    );
    let page = db.relay("one").await.page().await;
    let lanes: Vec<_> = page
        .queued
        .iter()
        .map(|row| (row.lane, row.key.to_string()))
        .collect();
    assert_eq!(lanes[0], (Lane::High, "\u{1f}".to_owned()));
    assert_eq!(lanes[1], (Lane::High, "k".to_owned()));
    assert_eq!(lanes[2], (Lane::Low, String::new()));
}

#[tokio::test]
async fn the_view_shows_every_event_once_in_its_worst_state() {
    let db = Db::new().await;
    let names = [
        "pending", "both", "half", "retrying", "waiting", "held", "later", "dead",
    ];
    let keys = ["k0", "k1", "k2", "k3", "k3", "k5", "k6", "k7"];
    let events: Vec<_> = names
        .iter()
        .zip(keys)
        .map(|(name, key)| event(name, key))
        .collect();
    db.enqueue(&events);
    let relay = db.relay("one").await;
    let rows = relay.queued().await;
    let no = || Failure::new(ErrorKind::Rejected, "not wanted");
    let waits = || Park::waiting("d".into(), false);
    let retry = Park {
        dead: false,
        failures: 3,
        attempts: 2,
        next_attempt_in: Duration::from_secs(60),
        ..dead("d", no())
    };
    let later = Park {
        next_attempt_in: Duration::from_secs(3_600),
        ..waits()
    };
    let to = |names: &[&str]| {
        names
            .iter()
            .map(|name| ((*name).into(), Default::default()))
            .collect()
    };
    let settled = relay
        .settle(
            vec![
                decided(
                    &rows[1],
                    postrider_core::Leaves::Decided {
                        sent: to(&["d", "e"]),
                        parked: vec![],
                    },
                ),
                decided(
                    &rows[2],
                    postrider_core::Leaves::Decided {
                        sent: to(&["e"]),
                        parked: vec![dead("d", no())],
                    },
                ),
                parks(&rows[3], vec![retry]),
                parks(&rows[4], vec![waits()]),
                parks(&rows[5], vec![waits()]),
                parks(&rows[6], vec![later]),
                parks(&rows[7], vec![waits(), dead("e", no())]),
            ],
            vec![],
        )
        .await;
    assert_eq!(settled, [Settled::Done; 7]);
    let connection = db.connect();
    let mut statement = connection
        .prepare("SELECT event_id, status FROM outbox_events ORDER BY seq")
        .expect("the view");
    let shown: Vec<(String, String)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("rows")
        .collect::<Result<_, _>>()
        .expect("rows");
    let expected = [
        Status::Pending,
        Status::Published,
        Status::DeadLetter,
        Status::Retrying,
        Status::Waiting,
        Status::Held,
        Status::Scheduled,
        Status::DeadLetter,
    ];
    let expected: Vec<_> = names
        .iter()
        .map(|name| name.to_string())
        .zip(expected.map(|s| s.as_str().to_owned()))
        .collect();
    assert_eq!(shown, expected);
    monitoring(&db);
}

/// The queries that operators of other outboxes know, on the view as it is.
fn monitoring(db: &Db) {
    assert_eq!(
        db.number("SELECT count(*) FROM outbox_events WHERE status = 'PENDING'"),
        1
    );
    assert_eq!(
        db.number("SELECT count(*) FROM outbox_events WHERE published_at IS NULL"),
        7
    );
    assert_eq!(
        db.number("SELECT count(*) FROM outbox_events WHERE published = 0"),
        7
    );
    assert_eq!(
        db.number(
            "SELECT count(*) FROM outbox_events WHERE status = 'DEAD_LETTER' AND error_message = 'not wanted'"
        ),
        2
    );
    assert_eq!(
        db.number("SELECT max(retry_count) FROM outbox_events WHERE last_error IS NOT NULL"),
        3
    );
    assert_eq!(
        db.number("SELECT count(*) FROM outbox_events WHERE retry_count < max_retry"),
        8
    );
    assert_eq!(
        db.number(
            "SELECT count(*) FROM outbox_events WHERE created_at > datetime('now', '-1 hour')
             AND created_at <= datetime('now', '+1 second')"
        ),
        8,
        "times compare with SQLite's own"
    );
    assert_eq!(
        db.number(
            "SELECT count(*) FROM outbox_events WHERE next_attempt_at > datetime('now') \
            AND status = 'SCHEDULED'"
        ),
        1
    );
    let latency = db.text(
        "SELECT CAST(avg((julianday(published_at) - julianday(created_at)) * 86400) AS TEXT) FROM outbox_events
         WHERE status = 'PUBLISHED' GROUP BY event_type",
    );
    let latency: f64 = latency.and_then(|text| text.parse().ok()).expect("an average");
    assert!((-0.01..60.0).contains(&latency), "{latency}");
}

#[tokio::test]
async fn the_view_survives_any_row() {
    let db = Db::new().await;
    db.sql(
        "INSERT INTO outbox (event_type, aggregate_type, aggregate_id, created_at) VALUES
            ('T', 'A', '1', 'yesterday'), ('T', 'A', '1', x'ff'), ('T', 'A', '1', -9223372036854775808),
            ('T', 'A', '1', 9223372036854775807), ('T', 'A', '1', 1e308), ('T', 'A', '1', CAST(x'ff' AS TEXT))",
    );
    assert_eq!(
        db.number("SELECT count(*) FROM outbox_events WHERE created_at IS NOT NULL OR seq > 0"),
        6
    );
}

#[tokio::test]
async fn a_place_is_never_given_twice() {
    let db = Db::new().await;
    db.enqueue(&[event("a", "k")]);
    let relay = db.relay("one").await;
    let first = relay.queued().await.remove(0);
    assert_eq!(
        relay.settle(vec![sent(&first, "d")], vec![]).await,
        [Settled::Done]
    );
    // The same id again, in a table that is empty: without AUTOINCREMENT it would get the same place.
    db.enqueue(&[event("a", "k")]);
    let second = relay.queued().await.remove(0);
    assert!(second.seq > first.seq);
    assert_eq!(
        relay.settle(vec![sent(&first, "d")], vec![]).await,
        [Settled::Gone]
    );
    assert_eq!(
        relay.queued().await.len(),
        1,
        "a repeated settle removes nothing new"
    );
}
