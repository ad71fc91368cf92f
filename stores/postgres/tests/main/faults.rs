//! Servers that stop, crash and hang, and databases that cannot hold an outbox.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Schema, Settle, Store, StoreErrorKind};
use postrider_postgres::PgStore;
use postrider_testkit::servers::Postgres;

use crate::support::{Db, Relay, connect, event, few_shards, heartbeat, sent, until};

/// A server of its own, with tables and a relay.
async fn own_server() -> (Postgres, String, Relay) {
    let server = tokio::task::spawn_blocking(|| Postgres::start().expect("a server"))
        .await
        .expect("started");
    let url = server.database().url;
    let store = PgStore::connect(&url, few_shards()).await.expect("connected");
    store.up().await.expect("the tables are made");
    let standing = store.heartbeat(heartbeat("one")).await.expect("a heartbeat");
    let fence = standing
        .leases
        .iter()
        .map(|lease| (lease.shard, lease.token))
        .collect();
    (server, url, Relay { store, fence })
}

async fn enqueue(url: &str, id: &str) {
    let mut client = connect(url).await;
    let tx = client.transaction().await.expect("a transaction");
    postrider_postgres::Outbox::default()
        .enqueue(&tx, &event(id, "k"))
        .await
        .expect("enqueued");
    tx.commit().await.expect("committed");
}

/// Faults A2 and A8: what was committed is there afterwards, and a settle is repeated until it is taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_and_a_crash_are_survived() {
    let (server, url, relay) = own_server().await;
    for (id, crash) in [("a", false), ("b", true)] {
        enqueue(&url, id).await;
        let rows = relay.queued().await;
        assert_eq!(rows.len(), 1);
        if crash {
            server.kill9().expect("killed");
        } else {
            server.stop().expect("stopped");
        }
        let settle = Arc::new(Settle {
            fence: relay.fence.clone(),
            queued: vec![sent(&rows[0], "d")],
            parked: vec![],
        });
        let error = relay
            .store
            .settle(settle.clone())
            .await
            .expect_err("nobody is there");
        assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error:?}");
        server.start_again().expect("started");
        let began = std::time::Instant::now();
        while relay.store.settle(settle.clone()).await.is_err() {
            assert!(
                began.elapsed() < Duration::from_secs(5),
                "it resumes within seconds"
            );
        }
        assert!(relay.queued().await.is_empty());
    }
}

/// Faults A17 and A24: a lock that is not granted ends the call as busy, and the next one goes through.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_hangs_is_given_up() {
    let db = Db::new().await;
    let options = few_shards().statement_timeout(Duration::from_millis(300));
    let store = db.open(options);
    store.heartbeat(heartbeat("one")).await.expect("a heartbeat");
    let blocker = db.connect().await;
    blocker
        .batch_execute("BEGIN; LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE")
        .await
        .expect("locked");
    let relay = Relay {
        store,
        fence: vec![(postrider_core::Shard(0), postrider_core::Token(1))],
    };
    let began = std::time::Instant::now();
    let error = relay
        .store
        .read(relay.everything())
        .await
        .expect_err("it does not wait for ever");
    assert_eq!(error.kind(), StoreErrorKind::Busy, "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(3));
    blocker.batch_execute("ROLLBACK").await.expect("unlocked");
    relay.store.read(relay.everything()).await.expect("a page");
}

/// Fault A23.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_tables_are_named() {
    let db = Db::without_tables(few_shards());
    let error = db.store.heartbeat(heartbeat("one")).await.expect_err("no tables");
    assert_eq!(error.kind(), StoreErrorKind::Schema);
    assert!(error.advice().contains("postrider migrate up"), "{error}");
}

/// Fault G14.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_in_another_encoding_is_refused() {
    let server = Postgres::shared();
    let name = format!("latin_{}", std::process::id());
    server.sql(
        "postgres",
        &format!("CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0"),
    );
    let error = PgStore::connect(&server.url(&name), few_shards())
        .await
        .expect_err("not UTF-8");
    assert!(error.to_string().contains("UTF8"), "{error}");
}

/// Fault A18.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_call_leaves_no_transaction_open() {
    let db = Db::new().await;
    for micros in [0, 50, 200, 500, 1_000, 2_000, 5_000] {
        let limit = Duration::from_micros(micros);
        let _ = tokio::time::timeout(limit, db.store.heartbeat(heartbeat("one"))).await;
        let _ = tokio::time::timeout(limit, postrider_core::Console::stats(&db.store)).await;
        let _ = tokio::time::timeout(limit, db.store.status()).await;
    }
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()";
    let open = format!("{sessions} AND pid <> pg_backend_pid() AND state <> 'idle'");
    until("the end of every call", || db.number(&open) == 0).await;
    let own = format!("{sessions} AND application_name = 'postrider'");
    until("the end of sessions that were left", || db.number(&own) <= 3).await;
}
