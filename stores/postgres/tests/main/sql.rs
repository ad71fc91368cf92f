//! What other languages insert, what the tables do by themselves, and what people read from the view.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{Console, Schema, Settled, Store, Then};

use crate::support::{Db, again, event, few_shards, parks, until};

/// Faults G6 and G12.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_row_that_is_accepted_is_read() {
    let db = Db::new().await;
    db.sql("INSERT INTO outbox (event_type, aggregate_type, aggregate_id) VALUES ('T', 'A', '1')");
    db.sql(
        "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, event_key, payload,
        payload_bytes, content_type, headers, priority, available_at, created_at)
            VALUES (NULL, 'T', 'A', '2', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    );
    db.sql(
        "INSERT INTO outbox (event_type, aggregate_type, aggregate_id, available_at) \
        VALUES ('T', 'A', '3', 'infinity')",
    );
    db.sql(
        "INSERT INTO outbox (event_type, aggregate_type, aggregate_id, event_key) \
        VALUES ('', '', '', repeat('k', 9000))",
    );
    db.sql("SELECT outbox_send('T', 'A', '5', '{\"a\": 1}', priority => -3)");
    let relay = db.relay("one").await;
    let rows = relay.queued().await;
    assert_eq!(rows.len(), 5);
    let ids: BTreeSet<_> = rows.iter().map(|row| row.event_id.as_str()).collect();
    assert_eq!(ids.len(), 5, "each has an id of its own");
    let made: Vec<_> = rows.iter().map(|row| row.event_id.as_str().to_owned()).collect();
    assert!(
        made.is_sorted_by(|a, b| a[..13] <= b[..13]),
        "made ids are in the order of time: {made:?}"
    );
    assert!(
        made.iter().all(|id| id.len() == 36 && id.as_bytes()[14] == b'7'),
        "{made:?}"
    );
    assert!(rows[0].event.is_ok() && rows[1].event.is_ok() && rows[4].event.is_ok());
    assert!(rows[2].event.is_err(), "infinity is outside every calendar");
    assert!(rows[3].event.is_err(), "a key of 9000 characters is too long");
    // What the outbox accepted can be parked, however odd.
    let entries = rows
        .iter()
        .map(|row| parks(row, vec![postrider_core::Park::waiting("d".into(), false)]))
        .collect();
    assert_eq!(relay.settle(entries, vec![]).await, [Settled::Done; 5]);
    let due = relay.page().await.parked;
    assert_eq!(due.len(), 5);
    let sent = due
        .iter()
        .map(|row| again(row, Then::Sent(postrider_core::Receipt::default())))
        .collect();
    assert_eq!(relay.settle(vec![], sent).await, [Settled::Done; 5]);
    assert_eq!(
        db.number("SELECT count(*) FROM outbox_events WHERE published AND status = 'PUBLISHED'"),
        5
    );
}

/// Fault G4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_bound_to_text_are_refused_where_the_producer_sees_it() {
    let db = Db::new().await;
    let client = db.connect().await;
    let sql = "INSERT INTO outbox (event_type, aggregate_type, aggregate_id, payload) \
        VALUES ('T', 'A', '1', '\\x7b7d')";
    assert!(client.batch_execute(sql).await.is_err());
    let both = "INSERT INTO outbox (event_type, aggregate_type, aggregate_id, payload, payload_bytes) \
        VALUES ('T', 'A', '1', '{}', '\\x00')";
    assert!(client.batch_execute(both).await.is_err());
}

/// Fault C17.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_is_kept_by_day() {
    let options = few_shards().history(Some(Duration::from_secs(3 * 86_400)));
    let db = Db::with(options).await;
    let parts = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'outbox_sent'::regclass";
    assert_eq!(db.number(parts), 9, "from yesterday to a week ahead");
    db.sql(
        "CREATE TABLE outbox_sent_20200101 (LIKE outbox_sent);
            ALTER TABLE outbox_sent ATTACH PARTITION outbox_sent_20200101 FOR VALUES
            FROM ('2020-01-01Z') TO ('2020-01-02Z')",
    );
    // Somebody reads the history: nothing waits for him, and the old partition goes another time.
    let reader = db.connect().await;
    reader
        .batch_execute("BEGIN; SELECT count(*) FROM outbox_events")
        .await
        .expect("read");
    assert_eq!(db.store.maintain().await.expect("looked after"), 0);
    reader.batch_execute("COMMIT").await.expect("done");
    assert_eq!(db.store.maintain().await.expect("looked after"), 1);
    assert_eq!(db.number(parts), 9);
    // Nobody was there for a week: a settle makes the partition that it needs.
    db.sql(
        "DO $$ DECLARE part regclass; BEGIN FOR part IN SELECT inhrelid::regclass FROM pg_inherits
            WHERE inhparent = 'outbox_sent'::regclass LOOP EXECUTE 'DROP TABLE ' || part; END LOOP; END $$",
    );
    let relay = db.relay("one").await;
    db.enqueue(&[event("a", "k")]).await;
    assert_eq!(relay.send_all().await, 1);
    assert_eq!(db.number("SELECT count(*) FROM outbox_sent"), 1);
}

/// Fault C17. Without a history the partitions hold what operators threw away, and must not gather either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_history_old_partitions_go_too() {
    let options = few_shards().history(None);
    let db = Db::with(options).await;
    db.sql(
        "CREATE TABLE outbox_sent_20200101 (LIKE outbox_sent);
            ALTER TABLE outbox_sent ATTACH PARTITION outbox_sent_20200101 FOR VALUES
            FROM ('2020-01-01Z') TO ('2020-01-02Z')",
    );
    assert_eq!(db.store.maintain().await.expect("looked after"), 1);
    let parts = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'outbox_sent'::regclass";
    assert_eq!(db.number(parts), 9, "from yesterday to a week ahead");
}

/// Fault A5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strict_keys_give_writers_of_a_key_an_order() {
    let options = few_shards().strict_keys(true);
    let db = Db::with(options).await;
    let (first, second) = (db.connect().await, db.connect().await);
    let insert = |id: &str| {
        format!(
            "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id) VALUES ('{id}', 'T', 'A', '1')"
        )
    };
    first
        .batch_execute(&format!("BEGIN; {}", insert("first")))
        .await
        .expect("inserted");
    let (sql, other) = (insert("second"), insert("other").replace("'1'", "'2'"));
    second
        .batch_execute(&other)
        .await
        .expect("another key does not wait");
    let waiting = tokio::spawn(async move { second.batch_execute(&sql).await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    until("the wait for the first", || db.number(waits) == 1).await;
    assert!(!waiting.is_finished(), "it waits for the first");
    first.batch_execute(&insert("more")).await.expect("inserted");
    first.batch_execute("COMMIT").await.expect("committed");
    waiting.await.expect("ended").expect("inserted");
    let ids = db.sql("SELECT event_id FROM outbox WHERE aggregate_id = '1' ORDER BY seq");
    assert_eq!(ids, "first\nmore\nsecond");
}

/// Faults A20 and A21: what rings carries no data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn producers_ring_only_while_a_relay_sleeps() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    let listener =
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted
                    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    assert_eq!(db.number(listener), 0);
    let shards: Vec<_> = relay.fence.iter().map(|(shard, _)| *shard).collect();
    let bell = relay.store.doorbell().expect("a doorbell");
    // A transaction is under way in one shard while the relay goes to sleep.
    let early = db.connect().await;
    early
        .batch_execute(
            "BEGIN; INSERT INTO outbox (event_type, aggregate_type, aggregate_id) VALUES ('T', 'A', '1')",
        )
        .await
        .expect("inserted");
    let ring = bell.arm(shards.clone()).await.expect("armed");
    assert_eq!(db.number(listener), 3, "every shard but the busy one");
    early.batch_execute("COMMIT").await.expect("committed");
    tokio::time::timeout(Duration::from_secs(2), ring)
        .await
        .expect("its commit rings");
    let began = std::time::Instant::now();
    while db.number(listener) > 0 {
        assert!(
            began.elapsed() < Duration::from_secs(2),
            "a relay that is awake holds nothing"
        );
    }
}

/// Fault A24.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tables_are_made_once_and_removed_when_empty() {
    let db = Db::without_tables(few_shards());
    let (one, two) = (db.open(few_shards()), db.open(few_shards()));
    let (first, second) = tokio::join!(one.up(), two.up());
    let mut taken = [first.expect("up").len(), second.expect("up").len()];
    taken.sort_unstable();
    assert_eq!(taken, [0, 4], "one of two makes them");
    db.enqueue(&[event("a", "k")]).await;
    let error = db.store.down().await.expect_err("a row would be lost");
    assert!(error.to_string().contains("1 queued"), "{error}");
    db.relay("one").await.send_all().await;
    assert_eq!(db.store.down().await.expect("removed"), [4, 3, 2, 1]);
    assert_eq!(db.store.status().await.expect("a status").installed, 0);
    let left = db.number("SELECT count(*) FROM pg_class WHERE relname LIKE 'outbox%'")
        + db.number("SELECT count(*) FROM pg_proc WHERE proname LIKE 'outbox%'");
    assert_eq!(left, 0, "nothing is left behind");
    // What is printed is what a team with its own tool runs.
    let printed: String = db
        .store
        .migrations()
        .into_iter()
        .map(|step| step.up + "\n")
        .collect();
    db.sql(&printed);
    assert_eq!(db.store.status().await.expect("a status").installed, 4);
    assert_eq!(db.store.stats().await.expect("stats").queued, 0);
}

/// Tables with rows in them go one step up and down again, and lose nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_up_and_down_keeps_what_is_there() {
    let db = Db::without_tables(few_shards());
    let steps = db.store.migrations();
    for step in &steps[..3] {
        db.sql(&step.up);
    }
    db.sql(
        "INSERT INTO outbox_parked (seq, destination, shard, lane, order_key, line, event_id, event_type,
             aggregate_type, aggregate_id, payload, version, dead, next_attempt_at, attempts, failures, maybe_sent,
             enqueued_at, updated_at)
         SELECT n, 'd', 0, 0, k, md5(k)::uuid, 'e' || n, 'T', 'A', 'k', '{}', 1, false, now(), 0, 0, false, now(), now()
         FROM (VALUES (1, 'A' || chr(31) || 'k'), (2, chr(31) || 'alone' || chr(31) || '2')) v(n, k);
         SELECT setval('outbox_seq', 10)",
    );
    assert_eq!(db.store.up().await.expect("up"), [4]);
    let due: Vec<_> = db.relay("one").await.page().await.parked;
    let due: BTreeSet<_> = due.iter().map(|row| row.row.event_id.as_str()).collect();
    assert_eq!(due, BTreeSet::from(["e1", "e2"]), "in a line, and alone");
    db.sql(&steps[3].down);
    assert_eq!(db.number("SELECT max(version) FROM outbox_migrations"), 3);
    assert_eq!(
        db.number("SELECT count(*) FROM outbox_events WHERE status = 'HELD'"),
        2
    );
    db.sql(&steps[3].up);
    assert_eq!(db.store.stats().await.expect("stats").parked["HELD"], 2);
}
