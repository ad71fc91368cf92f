//! The sides of services: enqueueing, and taking effect once.

use postrider_core::Event;
use postrider_postgres::{EnqueueErrorKind, Inbox, Outbox, testing};

use crate::support::{Db, event};

/// Fault A1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_there_if_and_only_if_its_transaction_commits() {
    let db = Db::new().await;
    let mut client = db.connect().await;
    let outbox = Outbox::default();
    let tx = client.transaction().await.expect("a transaction");
    outbox.enqueue(&tx, &event("never", "k")).await.expect("enqueued");
    testing::assert_enqueued(&tx, &outbox, &["Tested"]).await;
    tx.rollback().await.expect("rolled back");
    let events: Vec<Event> = (0..100).map(|n| event(&format!("e{n:02}"), "k")).collect();
    let tx = client.transaction().await.expect("a transaction");
    let ids = outbox.enqueue_all(&tx, &events).await.expect("enqueued");
    assert!(outbox.enqueue_all(&tx, &[]).await.expect("nothing").is_empty());
    tx.commit().await.expect("committed");
    let rows = db.relay("one").await.queued().await;
    let read: Vec<_> = rows.into_iter().map(|row| row.event_id).collect();
    assert_eq!(read, ids, "in the order of the batch");
}

/// Fault G10, and what makes the retry of fault A3 safe: an id that is there already is told apart from any other
/// refusal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_have_kinds() {
    let db = Db::new().await;
    let mut client = db.connect().await;
    let outbox = Outbox::default();
    db.enqueue(&[event("same", "k")]).await;
    let tx = client.transaction().await.expect("a transaction");
    let error = outbox
        .enqueue_all(&tx, &[event("other", "k"), event("same", "k")])
        .await
        .expect_err("twice");
    assert_eq!(*error.kind(), EnqueueErrorKind::DuplicateId("same".into()));
    tx.rollback().await.expect("rolled back");
    let bad = Event {
        event_type: String::new(),
        ..event("bad", "k")
    };
    let tx = client.transaction().await.expect("a transaction");
    assert!(matches!(
        outbox.enqueue(&tx, &bad).await.expect_err("invalid").kind(),
        EnqueueErrorKind::Invalid(_)
    ));
    outbox
        .enqueue(&tx, &event("good", "k"))
        .await
        .expect("the transaction goes on");
    let error = Outbox::new("missing")
        .expect("a name")
        .enqueue(&tx, &event("x", "k"))
        .await
        .expect_err("no table");
    assert_eq!(*error.kind(), EnqueueErrorKind::Schema);
}

/// Fault D1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_happens_once() {
    let db = Db::new().await;
    let inbox = Inbox::default();
    inbox
        .migrate(&db.connect().await)
        .await
        .expect("the table is made");
    db.sql("CREATE TABLE effects (n integer)");
    let deliveries = (0..8).map(|_| {
        let (url, inbox) = (db.database.url.clone(), inbox.clone());
        tokio::spawn(async move {
            let mut client = crate::support::connect(&url).await;
            let effect = async |tx: &tokio_postgres::Transaction<'_>| {
                tx.execute("INSERT INTO effects VALUES (1)", &[]).await
            };
            inbox
                .once(&mut client, "mailer", "event-1", effect)
                .await
                .expect("once")
                .is_some()
        })
    });
    let mut done = 0;
    for delivery in deliveries.collect::<Vec<_>>() {
        done += usize::from(delivery.await.expect("a delivery"));
    }
    assert_eq!((done, db.number("SELECT count(*) FROM effects")), (1, 1));
    let client = db.connect().await;
    assert!(
        inbox
            .forget(&client, "mailer", "event-1")
            .await
            .expect("forgotten")
    );
}

#[cfg(feature = "sqlx")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlx_produces_in_its_own_transaction() {
    use postrider_core::Console;
    let db = Db::new().await;
    let pool = sqlx::PgPool::connect(&db.database.url).await.expect("a pool");
    let mut tx = pool.begin().await.expect("a transaction");
    let outbox = Outbox::default();
    outbox
        .enqueue_sqlx(&mut tx, &event("a", "k"))
        .await
        .expect("enqueued");
    outbox
        .enqueue_all_sqlx(&mut tx, &[event("b", "k"), event("c", "k")])
        .await
        .expect("enqueued");
    tx.commit().await.expect("committed");
    let mut tx = pool.begin().await.expect("a transaction");
    let error = outbox
        .enqueue_sqlx(&mut tx, &event("a", "k"))
        .await
        .expect_err("twice");
    assert_eq!(*error.kind(), EnqueueErrorKind::DuplicateId("a".into()));
    drop(tx);
    let store = postrider_postgres::PgStore::from_sqlx(&pool, crate::support::few_shards()).expect("a store");
    assert_eq!(store.stats().await.expect("stats").queued, 3);
}

/// `#[sqlx::test]` gives each test a database of its own, and a store is made from its pool. It finds the server in a
/// variable, which a child of this process has.
#[cfg(feature = "sqlx")]
#[test]
#[allow(
    unnameable_test_items,
    reason = "the inner one is called here, where its server is known"
)]
fn a_test_of_sqlx_has_a_store() {
    const VARIABLE: &str = "POSTRIDER_TEST_CHILD";
    #[sqlx::test]
    async fn with_a_pool(pool: sqlx::PgPool) {
        use postrider_core::{Console, Schema};
        let store =
            postrider_postgres::PgStore::from_sqlx(&pool, crate::support::few_shards()).expect("a store");
        store.up().await.expect("the tables are made");
        let mut tx = pool.begin().await.expect("a transaction");
        Outbox::default()
            .enqueue_sqlx(&mut tx, &event("a", "k"))
            .await
            .expect("enqueued");
        assert_eq!(store.stats().await.expect("stats").queued, 0, "not committed yet");
        tx.commit().await.expect("committed");
        let running = crate::support::Running::start(store.clone());
        running.arrived(1).await;
        running.stop().await;
        assert_eq!(store.stats().await.expect("stats").published, 1);
    }
    if std::env::var_os(VARIABLE).is_some() {
        return with_a_pool();
    }
    let url = postrider_testkit::servers::Postgres::shared().url("postgres");
    let child = std::process::Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "produce::a_test_of_sqlx_has_a_store", "--nocapture"])
        .envs([(VARIABLE, "1"), ("DATABASE_URL", url.as_str())])
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&child.stderr)
    );
}

#[cfg(feature = "diesel-async")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn diesel_produces_in_its_own_transaction() {
    use diesel_async::{AsyncConnection, AsyncPgConnection};
    let db = Db::new().await;
    let mut connection = AsyncPgConnection::establish(&db.database.url)
        .await
        .expect("a connection");
    let outbox = Outbox::default();
    let error = outbox
        .enqueue_diesel(&mut connection, &event("a", "k"))
        .await
        .expect_err("no transaction");
    assert_eq!(*error.kind(), EnqueueErrorKind::NoTransaction);
    let done: Result<(), diesel::result::Error> = connection
        .transaction(async |connection| {
            outbox
                .enqueue_diesel(connection, &event("a", "k"))
                .await
                .expect("enqueued");
            outbox
                .enqueue_all_diesel(connection, &[event("b", "k")])
                .await
                .expect("enqueued");
            Ok(())
        })
        .await;
    done.expect("committed");
    assert_eq!(db.number("SELECT count(*) FROM outbox"), 2);
}
