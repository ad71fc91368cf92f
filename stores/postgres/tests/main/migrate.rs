//! Tables that are changed while others use them.

use std::time::{Duration, Instant};

use postrider_core::{Schema, Store};

use crate::log;
use crate::support::{Db, few_shards, heartbeat, until};

/// Others wait behind a lock that is waited for, and for a change itself.
const LONGEST: Duration = Duration::from_millis(1_500);

/// Tables of the version before this one.
fn one_version_behind() -> Db {
    let db = Db::without_tables(few_shards());
    for step in &db.store.migrations()[..3] {
        db.sql(&step.up);
    }
    db
}

/// How many rows of the history are there, each a day older than the one before.
fn fill_history(db: &Db, days: u32) {
    db.sql(&format!(
        "INSERT INTO outbox_sent (seq, destination, event_id, event_type, aggregate_type, aggregate_id, payload,
             outcome, published_at)
         SELECT n, 'd', 'e' || n, 'T', 'A', 'k' || n, '{{}}', 'published', now() - n * interval '1 day'
         FROM generate_series(0, {days} - 1) n"
    ));
}

const INDEXED: &str = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'outbox_sent_search'::regclass";
const BEGUN: &str =
    "SELECT count(*) FROM pg_index WHERE NOT indisvalid AND indrelid::regclass::text LIKE 'outbox_sent_2%'";
const IS_COMPLETE: &str =
    "SELECT indisvalid::int FROM pg_index WHERE indexrelid = 'outbox_sent_search'::regclass";

/// Fault A24. Somebody looks at the parked rows and forgets to end the transaction. The migration waits for him, and
/// nobody else waits for the migration.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_behind_a_migration_that_waits() {
    log::keep();
    let db = one_version_behind();
    let reader = db.connect().await;
    let open = "BEGIN; SELECT count(*) FROM outbox_parked";
    reader.batch_execute(open).await.expect("a transaction is open");
    let pid = reader
        .query_one("SELECT pg_backend_pid()", &[])
        .await
        .expect("a pid");
    let pid = format!("process {} ", pid.get::<_, i32>(0));
    let store = db.store.clone();
    let up = tokio::spawn(async move { store.up().await });
    let other = db.connect().await;
    let mut longest = Duration::ZERO;
    let begun = Instant::now();
    // Long enough for some attempts.
    while begun.elapsed() < 3 * LONGEST {
        let asked = Instant::now();
        let read = "SELECT (SELECT count(*) FROM outbox_parked), (SELECT count(*) FROM outbox_events)";
        other.batch_execute(read).await.expect("read");
        longest = longest.max(asked.elapsed());
    }
    assert!(longest < LONGEST, "a read took {longest:?}");
    assert!(!up.is_finished(), "the table is still held");
    let said = log::lines(&[
        "waiting for the outbox tables",
        &pid,
        "idle in transaction",
        "outbox_parked",
    ]);
    assert!(!said.is_empty(), "who is in the way is told");
    reader.batch_execute("ROLLBACK").await.expect("ended");
    assert_eq!(up.await.expect("no panic").expect("migrated"), [4]);
}

/// Fault A24. The days that hold rows are indexed beside the relays, and every day has the index in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_is_indexed_day_by_day() {
    let db = one_version_behind();
    fill_history(&db, 2);
    let step = &db.store.migrations()[3];
    db.sql(&step.up);
    assert_eq!(db.number(INDEXED), 7, "days that hold nothing have it at once");
    assert_eq!(db.number(IS_COMPLETE), 0);
    assert_eq!(db.store.complete().await.expect("indexed"), 2);
    assert_eq!(db.number(INDEXED), 9);
    assert_eq!(db.number(IS_COMPLETE), 1);
    assert_eq!(db.store.complete().await.expect("nothing to do"), 0);
    db.store.down().await.expect("removed");
}

/// A day that is written to and read for long is not waited for for ever: it is left without its index, and the next
/// migration builds it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_that_is_in_use_is_indexed_another_time() {
    log::keep();
    let db = one_version_behind();
    fill_history(&db, 1);
    let writer = db.connect().await;
    let day = db.sql("SELECT tableoid::regclass::text FROM outbox_sent");
    let open = format!("BEGIN; DELETE FROM {day} WHERE false");
    writer.batch_execute(&open).await.expect("a transaction is open");
    assert_eq!(db.store.up().await.expect("migrated"), [4]);
    // It settles in the same day: relays go on meanwhile.
    let store = db.store.clone();
    let complete = tokio::spawn(async move { store.complete().await });
    until("it is begun", || db.number(BEGUN) > 0).await;
    let standing = db.open(few_shards()).heartbeat(heartbeat("one")).await;
    assert_eq!(standing.expect("a heartbeat").leases.len(), 4);
    fill_history(&db, 1);
    assert_eq!(complete.await.expect("no panic").expect("no failure"), 0);
    assert!(!log::lines(&["has no index yet", &day]).is_empty(), "it is told");
    assert_eq!(db.number(IS_COMPLETE), 0);
    writer.batch_execute("ROLLBACK").await.expect("ended");
    assert_eq!(db.store.complete().await.expect("indexed"), 1);
    assert_eq!(db.number(IS_COMPLETE), 1);
}
