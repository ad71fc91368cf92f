//! Transactions that commit late, and relays that must neither miss their rows nor publish past them.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Console, Event};
use postrider_memory::MemorySink;
use postrider_postgres::{Outbox, PgOptions};
use postrider_relay::Relay;
use postrider_testkit::ledger::{Arrived, Committed, Ledger};
use tokio_util::sync::CancellationToken;

use crate::support::{Db, Running, event, until};

const WRITERS: u64 = 64;
const TURNS: u64 = 60;
const KEYS: u64 = 200;

/// Faults A4 and A5. 64 writers that take turns on a row lock per key, some holding their transaction, an unrelated
/// transaction open all the time, two relays: nothing is stranded and no key is turned round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_commits_are_neither_missed_nor_passed() {
    let db = Db::with(PgOptions::default()).await;
    db.sql(&format!(
        "CREATE TABLE aggregate (id bigint PRIMARY KEY, version bigint NOT NULL DEFAULT 0);
         INSERT INTO aggregate SELECT generate_series(0, {KEYS} - 1)"
    ));
    let unrelated = db.connect().await;
    unrelated
        .batch_execute("BEGIN; INSERT INTO aggregate VALUES (-1)")
        .await
        .expect("a transaction");

    let sink = MemorySink::new();
    let token = CancellationToken::new();
    let relays: Vec<_> = (0..2)
        .map(|_| {
            let relay = Relay::builder()
                .store(Arc::new(db.open(PgOptions::default())))
                .sink(Arc::new(sink.clone()))
                .build()
                .expect("a relay");
            let token = token.clone();
            tokio::spawn(async move { relay.run(token).await })
        })
        .collect();

    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(writer, db.database.url.clone())))
        .collect();
    for writer in writers {
        writer.await.expect("a writer");
    }
    let total = (WRITERS * TURNS) as usize;
    // What is missing then is told by the ledger.
    let _ = sink.wait_for(total, Duration::from_secs(30)).await;
    token.cancel();
    for relay in relays {
        let _ = relay.await.expect("a relay ends");
    }

    let mut ledger = Ledger::new();
    // What was committed comes from the business table: every version of every key, once.
    for line in db
        .sql("SELECT id, version FROM aggregate WHERE id >= 0 ORDER BY id")
        .lines()
    {
        let (key, versions) = line.split_once('|').expect("two columns");
        for version in 1..=versions.parse().expect("a number") {
            let id = format!("{key}#{version}");
            ledger
                .commit(&Committed::new(id, format!("ORDER/{key}"), version))
                .expect("once");
        }
    }
    for message in sink.messages() {
        let key = message
            .event_id
            .as_str()
            .split('#')
            .next()
            .expect("a key")
            .to_owned();
        ledger.arrive(&Arrived::new(
            message.event_id.as_str(),
            format!("ORDER/{key}"),
            "memory",
        ));
    }
    let report = ledger.report();
    assert_eq!(
        (report.lost, report.phantom, report.reordered),
        (0, 0, 0),
        "{report:?}"
    );
    assert_eq!(report.duplicates, 0, "nothing was interrupted: {report:?}");
    assert_eq!(
        db.store.stats().await.expect("stats").queued,
        0,
        "nothing is left behind"
    );
}

async fn write(writer: u64, url: String) {
    let mut client = crate::support::connect(&url).await;
    let outbox = Outbox::default();
    for turn in 0..TURNS {
        // A fixed walk that differs from writer to writer.
        let key = (writer * 31 + turn * 17 + turn * turn * (writer % 7)) % KEYS;
        let tx = client.transaction().await.expect("a transaction");
        let sql = "UPDATE aggregate SET version = version + 1 WHERE id = $1 RETURNING version";
        let version: i64 = tx
            .query_one(sql, &[&(key as i64)])
            .await
            .expect("a version")
            .get(0);
        let event = Event::builder("Changed")
            .id(format!("{key}#{version}"))
            .aggregate("ORDER", key)
            .json("{}")
            .build();
        outbox
            .enqueue(&tx, &event.expect("an event"))
            .await
            .expect("enqueued");
        if (writer + turn).is_multiple_of(5) {
            // A writer that takes its time before it commits is what this is about.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tx.commit().await.expect("committed");
    }
}

/// Fault A6. A writer that stays open holds back its own events and nobody else's, those behind it in its shard and its
/// key included; and the log names it, once for a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_stays_open_is_named_and_delays_nobody() {
    crate::log::keep();
    let db = Db::new().await;
    let url = format!("{}?application_name=forgetful", db.database.url);
    let mut client = crate::support::connect(&url).await;
    let tx = client.transaction().await.expect("a transaction");
    let pid: i32 = tx
        .query_one("SELECT pg_backend_pid()", &[])
        .await
        .expect("a number")
        .get(0);
    Outbox::default()
        .enqueue(&tx, &event("held", "k"))
        .await
        .expect("enqueued");

    let running = Running::start(db.store.clone());
    let others: Vec<_> = (0..50)
        .map(|n| event(&format!("e{n}"), if n % 2 == 0 { "k" } else { "l" }))
        .collect();
    db.enqueue(&others).await;
    running.arrived(50).await;
    until("they are settled", || {
        db.number("SELECT count(*) FROM outbox") == 0
    })
    .await;
    // That it was waited for so long is what is said, so this takes as long.
    let named = [
        "WARN".to_owned(),
        format!("pid={pid} "),
        "application=\"forgetful\"".to_owned(),
    ];
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    until("its name", || !crate::log::lines(&named).is_empty()).await;
    db.enqueue(&[event("later", "k")]).await;
    running.arrived(51).await;
    tx.commit().await.expect("committed");
    running.arrived(52).await;
    assert_eq!(running.ids().last().map(String::as_str), Some("held"));
    running.stop().await;
    assert_eq!(crate::log::lines(&named).len(), 1);
}

/// A writer that is prepared for a two-phase commit goes on under another name. It is still waited for: what it wrote
/// is found as soon as it commits, before what is written behind it in its key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_is_prepared_is_still_waited_for() {
    let db = Db::new().await;
    let client = crate::support::connect(&db.database.url).await;
    client
        .batch_execute(
            "BEGIN; INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, event_key, payload)
             VALUES ('held', 'Tested', 'THING', '1', 'k', '{}')",
        )
        .await
        .expect("inserted");
    let running = Running::start(db.store.clone());
    let mut count = 0;
    for round in 0..2 {
        // Long enough for several looks at who writes: first at the writer, then at what became of it.
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_millis(300) {
            db.enqueue(&[event(&format!("e{count}"), "l")]).await;
            count += 1;
            running.arrived(count).await;
        }
        if round == 0 {
            client
                .batch_execute("PREPARE TRANSACTION 'held'")
                .await
                .expect("prepared");
        }
    }
    client
        .batch_execute("COMMIT PREPARED 'held'")
        .await
        .expect("committed");
    db.enqueue(&[event("behind", "k")]).await;
    running.arrived(count + 2).await;
    assert_eq!(running.ids()[count..], ["held", "behind"]);
    running.stop().await;
}
