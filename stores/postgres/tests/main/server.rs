//! Servers that are not as they should be, and how little a relay asks of one that is.

use std::time::Duration;

use postrider_core::{Console, Schema, Store, StoreErrorKind};
use postrider_postgres::{PgOptions, PgStore, PgTls};
use postrider_testkit::servers::Postgres;
use postrider_testkit::wait::{eventually, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Db, Running, connect, event, few_shards, heartbeat};

async fn server(settings: &'static [&'static str]) -> Postgres {
    tokio::task::spawn_blocking(move || Postgres::start_with(settings).expect("a server"))
        .await
        .expect("started")
}

/// Faults A11 and A13. A standby shows rows in another order and takes no locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_is_refused() {
    let primary = server(&[]).await;
    let standby = primary.standby().expect("a standby");
    let error = PgStore::connect(&standby.url("postgres"), few_shards())
        .await
        .expect_err("it is a standby");
    assert_eq!(error.kind(), StoreErrorKind::ReadOnly, "{error:?}");
    assert!(error.to_string().contains("primary"), "{error}");
}

/// Fault A14. Settings under which a commit is worth less are named, wherever they are set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weak_settings_are_named() {
    let server = server(&["fsync=on"]).await;
    let name = server.database().name;
    let store = PgStore::connect(&server.url(&name), few_shards())
        .await
        .expect("connected");
    assert_eq!(store.weaknesses().await.expect("an answer"), Vec::<String>::new());
    server.sql(
        &name,
        &format!("ALTER DATABASE {name} SET synchronous_commit = off"),
    );
    let found = store.weaknesses().await.expect("an answer");
    assert!(
        found.len() == 1 && found[0].contains("synchronous_commit"),
        "{found:?}"
    );
    let careless = self::server(&["fsync=off", "full_page_writes=off"]).await;
    let store = PgStore::connect(&careless.url("postgres"), few_shards())
        .await
        .expect("connected");
    assert_eq!(store.weaknesses().await.expect("an answer").len(), 2);
}

/// Fault A9. A server without a free connection is asked again, and answers once there is one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_is_asked_again() {
    let server = server(&[
        "max_connections=4",
        "superuser_reserved_connections=0",
        "max_wal_senders=0",
    ])
    .await;
    let url = server.url("postgres");
    let store = PgStore::lazy(&url, few_shards()).expect("a url");
    store.up().await.expect("the tables are made");
    let mut others = Vec::new();
    while let Ok((client, connection)) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await {
        tokio::spawn(connection);
        others.push(client);
    }
    let error = store.heartbeat(heartbeat("one")).await.expect_err("it is full");
    assert!(
        matches!(error.kind(), StoreErrorKind::Busy | StoreErrorKind::Unreachable),
        "{error:?}"
    );
    drop(others);
    within(Duration::from_secs(10), "it resumes by itself", async || {
        store.heartbeat(heartbeat("one")).await.ok()
    })
    .await;
}

/// Fault A9. A server that lets a relay in and then says nothing is given up, and asked again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_falls_silent_after_the_handshake_is_given_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a connection");
        let mut startup = [0; 1024];
        let _ = socket.read(&mut startup).await.expect("a startup message");
        // Authentication is fine, ready for a query.
        let welcome = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
        socket.write_all(welcome).await.expect("written");
        std::future::pending::<()>().await;
    });
    let options = few_shards().connect_timeout(Duration::from_millis(200));
    let url = format!("postgres://u@127.0.0.1:{port}/d");
    let connecting = PgStore::connect(&url, options);
    let error = tokio::time::timeout(Duration::from_secs(5), connecting)
        .await
        .expect("it is given up")
        .expect_err("nothing was answered");
    assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error:?}");
}

/// Fault H15.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_verified() {
    let server = server(&["ssl=on"]).await;
    let authority = server.authority().expect("an authority");
    let named = server.url("postgres").replace("127.0.0.1", "localhost");
    let trusting = few_shards().tls(PgTls::Authority(authority));
    let store = PgStore::connect(&named, trusting.clone())
        .await
        .expect("verified");
    store.up().await.expect("the tables are made");
    let encrypted = server.sql(
        "postgres",
        "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
         WHERE ssl AND application_name = 'postrider'",
    );
    assert_ne!(encrypted, "0");
    let error = PgStore::connect(&server.url("postgres"), trusting)
        .await
        .expect_err("the certificate is for another name");
    assert!(error.advice().contains("ca_file"), "{}", error.advice());
    let strict = format!("{named}?sslmode=verify-full");
    assert!(
        PgStore::connect(&strict, few_shards()).await.is_err(),
        "the authority is not one of the system's"
    );
}

/// Fault H15.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_text_is_refused_off_loopback() {
    let server = server(&[]).await;
    let url = server.url("postgres").replace("127.0.0.1", "db.example") + "?hostaddr=127.0.0.1";
    let error = PgStore::connect(&url, few_shards())
        .await
        .expect_err("the server has no TLS");
    assert!(error.advice().contains("sslmode=disable"), "{}", error.advice());
}

/// Fault A24. Programs are rolled out behind their migrations: one version ahead is served, two are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_the_next_version_are_served() {
    let db = Db::new().await;
    let wanted = db.store.status().await.expect("a status").wanted;
    db.sql(&format!(
        "INSERT INTO outbox_migrations (version, name) VALUES ({wanted} + 1, 'next')"
    ));
    let relay = db.relay("one").await;
    db.sql("INSERT INTO outbox (event_type, aggregate_type, aggregate_id) VALUES ('T', 'A', '1')");
    assert_eq!(relay.send_all().await, 1);
    db.sql(&format!(
        "INSERT INTO outbox_migrations (version, name) VALUES ({wanted} + 2, 'later')"
    ));
    let error = relay
        .store
        .heartbeat(heartbeat("one"))
        .await
        .expect_err("too new");
    assert_eq!(error.kind(), StoreErrorKind::Schema, "{error:?}");
    assert!(error.advice().contains("newer version"), "{error}");
}

/// An idle relay asks at most twice a second, and an outbox takes three connections, with the doorbell and the console.
/// Fault A19: they are its own, so a pool that an application has used up takes nothing from it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_relay_asks_little() {
    const WINDOW: Duration = Duration::from_secs(10);
    let server = server(&["shared_preload_libraries=pg_stat_statements"]).await;
    let url = server.url("postgres");
    let store = PgStore::connect(&url, PgOptions::default())
        .await
        .expect("connected");
    store.up().await.expect("the tables are made");
    let running = Running::start(store.clone());
    let watcher = connect(&url).await;
    watcher
        .batch_execute("CREATE EXTENSION pg_stat_statements")
        .await
        .expect("an extension");
    let listens = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted";
    eventually("it falls asleep", async || {
        let row = watcher.query_one(listens, &[]).await.expect("locks");
        (row.get::<_, i64>(0) >= 64).then_some(())
    })
    .await;
    store.stats().await.expect("stats");
    watcher
        .batch_execute("SELECT pg_stat_statements_reset()")
        .await
        .expect("reset");
    // How much is asked in a while is what is looked at.
    tokio::time::sleep(WINDOW).await;
    let sql = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements \
        WHERE query NOT LIKE '%pg_stat_statements%'";
    let calls: i64 = watcher.query_one(sql, &[]).await.expect("statements").get(0);
    assert!(calls <= 20, "{calls} statements in {WINDOW:?}");
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'postrider'";
    let connections: i64 = watcher.query_one(sql, &[]).await.expect("activity").get(0);
    assert!(connections <= 3, "{connections} connections");
    // Dropping a day of history locks the history: a transaction around it would hold the lock for a round trip.
    watcher
        .batch_execute("SELECT pg_stat_statements_reset()")
        .await
        .expect("reset");
    store.maintain().await.expect("looked after");
    let sql =
        "SELECT count(*) FROM pg_stat_statements WHERE query LIKE 'BEGIN%' OR query LIKE '%outbox_maintain%'";
    let statements: i64 = watcher.query_one(sql, &[]).await.expect("statements").get(0);
    assert_eq!(statements, 1, "one statement by itself");
    running.stop().await;
}

/// Fault A13. A role that reads only unless it says otherwise, as some are set up: the relay says otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_begin_read_only_are_no_obstacle() {
    let db = Db::new().await;
    db.enqueue(&[event("a", "k")]).await;
    let name = &db.database.name;
    db.sql(&format!(
        "ALTER DATABASE {name} SET default_transaction_read_only = on"
    ));
    let store = db.open(few_shards());
    let relay = Db { store, ..db };
    assert_eq!(relay.relay("one").await.send_all().await, 1);
    relay.store.maintain().await.expect("looked after");
}

/// What a listing would read whole is summarized by the server's own housekeeping, for every index and soon: here it
/// looks every second. Nothing is asked of it that it writes to its log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_that_grows_is_summarized_by_the_server() {
    let server = server(&["autovacuum=on", "autovacuum_naptime=1s"]).await;
    let name = server.database().name;
    let store = PgStore::lazy(&server.url(&name), few_shards()).expect("a url");
    store.up().await.expect("the tables are made");
    let more =
        "INSERT INTO outbox_sent (seq, event_id, event_type, aggregate_type, aggregate_id, payload, outcome,
                    published_at)
                SELECT n, 'e' || n, 'T', 'A', 'k' || n, repeat('x', 200), 'published', now()
                FROM generate_series(1, 20000) n";
    // How many stretches are not summarized, the last one aside, which is not full.
    let left = "SELECT string_agg((brin_summarize_new_values(x.indexrelid) > 1)::text, ',')
                FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid JOIN pg_am a ON a.oid = c.relam
                WHERE a.amname = 'brin' AND c.relkind = 'i' AND pg_relation_size(x.indrelid) > 0";
    server.sql(&name, more);
    // The session that added them has told the server so when it ended.
    let added = "SELECT count(*) FROM pg_stat_user_tables
                 WHERE relname LIKE 'outbox\\_sent\\_2%' AND n_ins_since_vacuum > 1000";
    eventually("the day is vacuumed", async || {
        (server.sql(&name, added).trim() == "0").then_some(())
    })
    .await;
    assert_eq!(server.sql(&name, left).trim(), "false,false");
}
