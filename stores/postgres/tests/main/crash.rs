//! A server that recovers without having been restarted: one of its processes was killed.

use std::process::Command;
use std::time::{Duration, Instant};

use postrider_core::{Schema, Seq, Store};
use postrider_postgres::PgStore;
use postrider_testkit::servers::Postgres;
use postrider_testkit::wait::eventually;
use tokio_postgres::{Client, NoTls};

use crate::support::{Relay, connect, few_shards};

/// Fault A2. Places that were given to transactions which never committed may be given again after a recovery, when
/// what was written of them had not reached the disk. A floor that has passed them would hide whoever gets them next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_that_a_recovery_takes_back_are_not_decided() {
    // What nobody waits for is written late.
    let start = || Postgres::start_with(&["wal_writer_delay=10s"]).expect("a server");
    let server = tokio::task::spawn_blocking(start).await.expect("started");
    let url = server.database().url;
    let store = PgStore::connect(&url, few_shards()).await.expect("connected");
    store.up().await.expect("the tables are made");
    let relay = Relay::begin(store, "one").await;
    for _ in 0..10 {
        let given = give_in_vain(&url).await;
        let decided = look(&relay).await;
        kill_one(&url).await;
        let client = reconnect(&url).await;
        let before = last_place(&client).await;
        client.batch_execute(&insert(12)).await.expect("inserted");
        let first = client.query_one("SELECT min(seq) FROM outbox", &[]).await;
        let first = Seq(first.expect("a place").get::<_, i64>(0).unsigned_abs().into());
        assert!(first > decided, "{first:?} is given when {decided:?} is decided");
        let read = async || relay.store.read(relay.everything()).await.ok();
        let page = eventually("the relay has a connection again", read).await;
        assert_eq!(page.queued.len(), 12);
        client.batch_execute("DELETE FROM outbox").await.expect("emptied");
        if before < given {
            return;
        }
    }
    panic!("no recovery has taken a place back, so nothing was shown");
}

fn insert(rows: u32) -> String {
    format!(
        "INSERT INTO outbox (event_type, aggregate_type, aggregate_id)
         SELECT 'T', 'A', g::text FROM generate_series(1, {rows}) g"
    )
}

async fn last_place(client: &Client) -> i64 {
    let row = client.query_one("SELECT last_value FROM outbox_seq", &[]).await;
    row.expect("a place").get(0)
}

/// Places are written down 32 at a time. The first of the next 32 is given to a transaction that does not commit, so
/// nobody waits until that is on the disk. Answers the last of them.
async fn give_in_vain(url: &str) -> i64 {
    let client = connect(url).await;
    let left = "SELECT log_cnt FROM outbox_seq";
    while client
        .query_one(left, &[])
        .await
        .expect("a count")
        .get::<_, i64>(0)
        > 0
    {
        let next = "SELECT nextval('outbox_seq')";
        client.batch_execute(next).await.expect("a place");
    }
    let open = format!("BEGIN; {}; ROLLBACK", insert(3));
    client.batch_execute(&open).await.expect("given up");
    last_place(&client).await
}

/// How far everything is decided after some looks, or as soon as all that was given is.
async fn look(relay: &Relay) -> Seq {
    let begun = Instant::now();
    let mut decided = Seq(0);
    while begun.elapsed() < Duration::from_millis(300) {
        decided = decided.max(relay.page().await.horizon);
    }
    decided
}

/// Kills a process of the server, which then ends all others and recovers.
async fn kill_one(url: &str) {
    let (client, witness) = (connect(url).await, connect(url).await);
    let row = client.query_one("SELECT pg_backend_pid()", &[]).await;
    let pid = row.expect("a pid").get::<_, i32>(0).to_string();
    let killed = Command::new("kill").args(["-9", &pid]).status();
    assert!(killed.expect("kill is run").success());
    // Until the server has seen it, it lets others in, whom it ends then.
    while witness.batch_execute("SELECT 1").await.is_ok() {}
}

async fn reconnect(url: &str) -> Client {
    let begun = Instant::now();
    loop {
        if let Ok((client, connection)) = tokio_postgres::connect(url, NoTls).await {
            tokio::spawn(connection);
            if client.batch_execute("SELECT 1").await.is_ok() {
                return client;
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it recovers");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
