//! A disk that is full, below the database.

use std::time::Duration;

use postrider_core::{Console, Event, Schema};
use postrider_postgres::{EnqueueError, EnqueueErrorKind, Outbox, PgStore};
use postrider_testkit::servers::Postgres;
use tokio_postgres::Client;

use crate::log;
use crate::support::{PATIENCE, Running, connect, few_shards, until};

/// An event that takes a fifth of a page.
fn large(n: usize) -> Event {
    let text = "0123456789abcdef".repeat(100);
    Event::builder("Tested")
        .id(format!("e{n:04}"))
        .aggregate("THING", "1")
        .key(format!("k{}", n % 4))
        .json(format!("{{\"text\":\"{text}\"}}"))
        .build()
        .expect("a valid event")
}

async fn enqueue(client: &mut Client, event: &Event) -> Result<(), EnqueueError> {
    let tx = client.transaction().await.expect("a transaction");
    Outbox::default().enqueue(&tx, event).await?;
    tx.commit().await.expect("what was taken can be committed");
    Ok(())
}

/// Fills the disk, page by page in the end.
async fn fill(client: &Client) {
    client
        .batch_execute("CREATE TABLE ballast (text text)")
        .await
        .expect("a table");
    for rows in [1_000, 100, 10, 1, 1] {
        let sql = format!("INSERT INTO ballast SELECT repeat('x', 1900) FROM generate_series(1, {rows})");
        let error = loop {
            if let Err(error) = client.batch_execute(&sql).await {
                break error;
            }
        };
        assert_eq!(
            error.code(),
            Some(&tokio_postgres::error::SqlState::DISK_FULL),
            "{error}"
        );
    }
}

/// Fault A15. Below a full disk the business transaction fails, and says so. What was committed before stays, is
/// published, and is settled when there is room again, by itself; the server is not asked in a loop meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_below_the_server_fails_producers_visibly_and_heals() {
    log::keep();
    let server = tokio::task::spawn_blocking(|| Postgres::start_with_small_disk(40).expect("a server"))
        .await
        .expect("started");
    let url = server.small_database().url;
    let store = PgStore::connect(&url, few_shards()).await.expect("connected");
    store.up().await.expect("the tables are made");
    let running = Running::start(store.clone());
    running.sink.set_reachable(false);
    let mut client = connect(&url).await;
    for n in 0..300 {
        enqueue(&mut client, &large(n)).await.expect("there is room");
    }
    fill(&connect(&url).await).await;

    let mut committed = 300;
    let error = loop {
        match enqueue(&mut client, &large(committed)).await {
            Ok(()) => committed += 1,
            Err(error) => break error,
        }
        assert!(committed < 1_000, "the disk is not full");
    };
    assert_eq!(*error.kind(), EnqueueErrorKind::Store);
    assert!(format!("{error:?}").contains("53100"), "{error:?}");
    running.sink.set_reachable(true);
    let refused = || log::lines(&["free disk space"]).len();
    until("a refused settle", || refused() > 0).await;
    // How often it is asked in a while is what is looked at.
    let before = refused();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let asked = refused() - before;
    assert!(asked < 40, "{asked} times in two seconds");
    assert!(store.stats().await.expect("stats").queued > 0, "they stay");

    let freed = connect(&url).await;
    freed
        .batch_execute("DROP TABLE ballast")
        .await
        .expect("there is room again");
    let began = std::time::Instant::now();
    enqueue(&mut client, &large(committed))
        .await
        .expect("it is taken now");
    committed += 1;
    until("an empty outbox", || {
        server.sql(
            &url[url.rfind('/').expect("a name") + 1..],
            "SELECT count(*) FROM outbox",
        ) == "0"
    })
    .await;
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    let mut ids = running.ids();
    running.stop().await;
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), committed, "each has arrived");
    assert!(store.stats().await.expect("stats").parked.is_empty());
}
