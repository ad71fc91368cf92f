//! The doorbell: silent while nothing comes, and nothing of it is left behind.

use std::sync::Arc;
use std::time::Duration;

use futures_util::poll;
use postrider_core::{Console, Control, Doorbell, Ring, Scope, Shard, Store, StoreErrorKind};

use crate::support::{Db, event, few_shards};

/// Sleeps and wakes longer than this would be noticed.
const PATIENCE: Duration = Duration::from_secs(5);

fn shards() -> Vec<Shard> {
    (0..few_shards().shards).map(Shard).collect()
}

async fn arm(bell: &Arc<dyn Doorbell>) -> Ring {
    bell.arm(shards()).await.expect("armed")
}

async fn heard(ring: Ring) {
    tokio::time::timeout(PATIENCE, ring).await.expect("it rings");
}

const SLEEPING: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

async fn until(db: &Db, sql: &str, wanted: i64) {
    crate::support::until(sql, || db.number(sql) == wanted).await;
}

/// Fault A21. A bell that goes on ringing keeps the relay awake for ever, at hundreds of statements a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_armed_bell_is_silent_after_it_rang_once() {
    let db = Db::new().await;
    let bell = db.store.doorbell().expect("a doorbell");
    let ring = arm(&bell).await;
    db.enqueue(&[event("a", "k")]).await;
    heard(ring).await;
    let mut ring = arm(&bell).await;
    let rang = tokio::time::timeout(Duration::from_millis(500), &mut ring).await;
    assert!(rang.is_err(), "nothing was committed");
    db.enqueue(&[event("b", "k")]).await;
    heard(ring).await;
}

/// Relays of one process share the session: what one gives back must not be the other's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_two_sleepers_has_its_own_locks() {
    let db = Db::new().await;
    let bell = db.store.doorbell().expect("a doorbell");
    let (low, high) = (vec![Shard(0), Shard(1)], vec![Shard(2), Shard(3)]);
    let one = bell.arm(low.clone()).await.expect("armed");
    let two = bell.arm(high).await.expect("armed");
    until(&db, SLEEPING, 4).await;
    drop(two);
    until(&db, SLEEPING, 2).await;
    // The same shards once more, as when a relay wakes and sleeps again: a lock that is taken twice is given back
    // twice.
    let again = bell.arm(low).await.expect("armed");
    drop(one);
    drop(again);
    until(&db, SLEEPING, 0).await;
}

/// Fault A18. A lock that stays would make every producer notify, with nobody asleep.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_arming_that_is_interrupted_leaves_no_lock() {
    let db = Db::new().await;
    let bell = db.store.doorbell().expect("a doorbell");
    let ring = arm(&bell).await;
    until(&db, SLEEPING, 4).await;
    drop(ring);
    until(&db, SLEEPING, 0).await;
    // Everything is prepared, so the first poll sends the statement that locks, and nobody waits for its answer. A
    // server that answers before the poll is over has armed it, which must leave nothing behind either.
    let mut arming = bell.arm(shards());
    drop(poll!(&mut arming));
    drop(arming);
    // Answers come in order: after this one the locks were taken.
    let _ = db.relay("one").await.page().await;
    until(&db, SLEEPING, 0).await;
    let ring = arm(&bell).await;
    db.enqueue(&[event("a", "k")]).await;
    heard(ring).await;
}

/// Fault A22. Beside a pooler the doorbell and the operators share the direct connection: neither is part of what the
/// other does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bell_is_armed_outside_of_an_operators_transaction() {
    let db = Db::new().await;
    let store = db.open(few_shards().listen_url(db.database.url.as_str()));
    store
        .control(Control::Resume(Scope::Outbox), "-".to_owned())
        .await
        .expect("the row is there");
    let holder = db.connect().await;
    holder
        .batch_execute("BEGIN; SELECT 1 FROM outbox_control FOR UPDATE")
        .await
        .expect("held");
    let pausing = tokio::spawn({
        let store = store.clone();
        async move { store.control(Control::Pause(Scope::Outbox), "-".to_owned()).await }
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    until(&db, waits, 1).await;
    let bell = store.doorbell().expect("a doorbell");
    let mut arming = bell.arm(shards());
    assert!(poll!(&mut arming).is_pending());
    // The operator's transaction fails, and with it everything that is in it.
    db.sql(
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
         WHERE wait_event_type = 'Lock' AND datname = current_database()",
    );
    let ring = arming.await.expect("armed, whatever became of the operator");
    pausing.await.expect("it ends").expect_err("it was cancelled");
    db.enqueue(&[event("a", "k")]).await;
    heard(ring).await;
}

/// Fault A18. Whoever stops waiting for an operator's call does not leave its locks to others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operators_call_that_is_dropped_leaves_no_lock() {
    let db = Db::new().await;
    db.store
        .control(Control::Resume(Scope::Outbox), "-".to_owned())
        .await
        .expect("the row is there");
    let holder = db.connect().await;
    holder
        .batch_execute("BEGIN; SELECT 1 FROM outbox_control FOR UPDATE")
        .await
        .expect("held");
    let pausing = tokio::spawn({
        let store = db.store.clone();
        async move { store.control(Control::Pause(Scope::Outbox), "-".to_owned()).await }
    });
    let locks = "SELECT count(*) FROM pg_locks WHERE relation = 'outbox_control'::regclass \
        AND mode = 'RowExclusiveLock'";
    until(&db, locks, 1).await;
    pausing.abort();
    until(&db, locks, 0).await;
    holder.batch_execute("ROLLBACK").await.expect("free");
    db.store
        .control(Control::Pause(Scope::Outbox), "-".to_owned())
        .await
        .expect("on another session");
}

/// Zero would be no limit for the server and no time for the relay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_lets_nothing_end_is_refused() {
    let options = few_shards().statement_timeout(Duration::ZERO);
    let error = postrider_postgres::PgStore::lazy("postgres://u@127.0.0.1/d", options).expect_err("refused");
    assert_eq!(error.kind(), StoreErrorKind::Other);
    assert!(error.to_string().contains("statement_timeout"), "{error}");
}

/// Fault A21. A queue of notifications that is full would fail the commit of every producer that rings: a producer
/// does not ring then, and the poll finds its event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_of_notifications_fails_no_producer() {
    let db = Db::new().await;
    let bell = db.store.doorbell().expect("a doorbell");
    let mut ring = arm(&bell).await;
    until(&db, SLEEPING, 4).await;
    // Eight gigabytes are needed to fill it: the server is made to say that they are there.
    let superuser = db.connect().await;
    superuser
        .batch_execute(
            "SET allow_system_table_mods = on;
             CREATE OR REPLACE FUNCTION pg_catalog.pg_notification_queue_usage() RETURNS double precision
                 LANGUAGE sql AS 'SELECT 0.9::double precision'",
        )
        .await
        .expect("it says so");
    db.enqueue(&[event("a", "k")]).await;
    let rang = tokio::time::timeout(Duration::from_millis(500), &mut ring).await;
    assert!(rang.is_err(), "nobody was rung for");
    assert_eq!(db.relay("one").await.queued().await.len(), 1);
}
