//! What is locked, for how long others wait, and how much of the server's lock table it takes.

use std::time::{Duration, Instant};

use postrider_core::{Schema, Store, StoreErrorKind};
use postrider_postgres::PgOptions;

use crate::support::{Db, few_shards, heartbeat};

const HELD: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";

fn insert(from: u32, to: u32) -> String {
    format!(
        "INSERT INTO outbox (event_type, aggregate_type, aggregate_id)
         SELECT 'T', 'A', g::text FROM generate_series({from}, {to}) g"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_the_tables_waits_for_nobody_long_and_says_who_is_in_the_way() {
    let db = Db::new().await;
    let producer = db.connect().await;
    let open = format!("BEGIN; {}", insert(1, 1));
    producer.batch_execute(&open).await.expect("inserted");
    let begun = Instant::now();
    let error = db.store.down().await.expect_err("somebody is inserting");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(error.kind(), StoreErrorKind::Busy);
    assert!(error.to_string().contains("stop the relays"), "{error}");
    producer.batch_execute("ROLLBACK").await.expect("ended");
    assert_eq!(db.store.down().await.expect("removed"), [4, 3, 2, 1]);
}

/// The lock table of a server with default settings holds some 13,000 locks, for all of its databases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_transaction_does_not_fill_the_lock_table() {
    let loose = PgOptions::default();
    let strict = PgOptions::default().strict_keys(true);
    for (options, most) in [(loose, 64), (strict, 64 + 2_048)] {
        let db = Db::with(options).await;
        let mut client = db.connect().await;
        let tx = client.transaction().await.expect("a transaction");
        tx.batch_execute(&insert(1, 40_000))
            .await
            .expect("no more locks than the server has");
        let held: i64 = tx.query_one(HELD, &[]).await.expect("a count").get(0);
        assert_eq!(held, most, "every shard, and every lock of the keys");
    }
}

/// Fault A5: keys share the locks, so a key that is not the same may wait, but one that is the same always does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strict_keys_leave_most_other_keys_alone() {
    let db = Db::with(few_shards().strict_keys(true)).await;
    let (mut first, other) = (db.connect().await, db.connect().await);
    let tx = first.transaction().await.expect("a transaction");
    tx.batch_execute(&insert(1, 1)).await.expect("inserted");
    other
        .batch_execute("SET lock_timeout = '10ms'")
        .await
        .expect("set");
    let mut waited = 0;
    for key in 1..=200 {
        waited += usize::from(other.batch_execute(&insert(key, key)).await.is_err());
    }
    assert!(
        (1..=3).contains(&waited),
        "{waited} of 200 keys waited for one of them"
    );
    let of_the_key = "SELECT count(*) FROM outbox WHERE aggregate_id = '1'";
    assert_eq!(db.number(of_the_key), 0, "the same key waits in any case");
}

/// Whoever may log in may take any advisory lock: none of them holds up a heartbeat, or the making of a partition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_stranger_can_hold_up_a_heartbeat() {
    let db = Db::new().await;
    let stranger = db.connect().await;
    stranger
        .batch_execute(
            "SELECT pg_advisory_lock(('outbox'::regclass::oid::bigint - 2147483648)::integer, n)
             FROM generate_series(-10, -1) n",
        )
        .await
        .expect("locked");
    let beat = db.store.heartbeat(heartbeat("one"));
    let standing = tokio::time::timeout(Duration::from_secs(10), beat).await;
    let standing = standing.expect("in time").expect("a heartbeat");
    assert_eq!(standing.leases.len(), usize::from(few_shards().shards));
    let part = db.sql(
        "SELECT min(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'outbox_sent'::regclass",
    );
    db.sql(&format!("DROP TABLE {part}"));
    db.store.maintain().await.expect("looked after");
    let parts = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'outbox_sent'::regclass";
    assert_eq!(db.number(parts), 9);
}
