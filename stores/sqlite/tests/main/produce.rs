//! Producing in the caller's transaction, and nowhere else.

use postrider_core::{Event, Payload, Store, Timestamp};
use postrider_sqlite::{EnqueueErrorKind, Outbox, SqliteOptions, testing};

use crate::support::{Db, event, everything};

#[test]
fn only_a_transaction_is_taken() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
    if cfg!(feature = "sqlx") {
        cases.compile_fail("tests/compile_fail_sqlx/*.rs");
    }
}

#[tokio::test]
async fn what_goes_in_comes_out() {
    let db = Db::new().await;
    let full = Event::builder("OrderPlaced")
        .id("e1")
        .aggregate("ORDER", 42)
        .key("customer-7")
        .bytes(vec![0, 255, 10])
        .content_type("application/x-thing")
        .header("correlation-id", "req-1")
        .priority(-3)
        .available_at(Timestamp(1_700_000_000_123_456))
        .build()
        .expect("valid");
    let full = Event {
        created_at: Some(Timestamp(-62_000_000_000_000_001)),
        ..full
    };
    let bare = Event {
        payload: Payload::Tombstone,
        ..event("e2", "k")
    };
    db.enqueue(&[full.clone(), bare.clone()]);
    let page = db.store.read(everything()).await.expect("a page");
    let read: Vec<Event> = page
        .queued
        .iter()
        .map(|row| Event::clone(row.event.as_ref().expect("an event")))
        .collect();
    let Event { created_at, .. } = &read[0];
    assert!(created_at.is_some());
    assert_eq!(read[1], full);
    assert_eq!(
        Event {
            created_at: None,
            ..read[0].clone()
        },
        bare
    );
}

/// Fault G10.
#[tokio::test]
async fn an_id_that_is_queued_is_a_duplicate_and_the_transaction_goes_on() {
    let db = Db::new().await;
    let outbox = Outbox::default();
    let mut connection = db.connect();
    let tx = connection.transaction().expect("a transaction");
    assert_eq!(
        outbox.enqueue(&tx, &event("a", "k")).expect("enqueued").as_str(),
        "a"
    );
    let error = outbox.enqueue(&tx, &event("a", "k")).expect_err("a duplicate");
    assert_eq!(*error.kind(), EnqueueErrorKind::DuplicateId("a".into()));
    assert!(error.to_string().contains("id a"), "{error}");
    outbox.enqueue(&tx, &event("b", "k")).expect("enqueued");
    tx.commit().expect("committed");
    assert_eq!(db.number("SELECT count(*) FROM outbox"), 2);
}

#[tokio::test]
async fn another_constraint_is_not_a_duplicate() {
    let db = Db::new().await;
    // A service's own trigger, with a unique column of the same name in its own table.
    db.sql(
        "CREATE TABLE audit (event_id TEXT UNIQUE, one INTEGER UNIQUE);
         CREATE TRIGGER copy AFTER INSERT ON outbox BEGIN INSERT INTO audit VALUES (NEW.event_id || 'x', 1); END;",
    );
    let mut connection = db.connect();
    let tx = connection.transaction().expect("a transaction");
    Outbox::default()
        .enqueue(&tx, &event("a", "k"))
        .expect("enqueued");
    let error = Outbox::default()
        .enqueue(&tx, &event("b", "k"))
        .expect_err("the service's own constraint");
    assert_eq!(*error.kind(), EnqueueErrorKind::Store);
    tx.execute_batch("DELETE FROM audit; INSERT INTO audit VALUES ('cx', 2)")
        .expect("changed");
    let error = Outbox::default()
        .enqueue(&tx, &event("c", "k"))
        .expect_err("the service's own constraint");
    assert_eq!(*error.kind(), EnqueueErrorKind::Store, "its event_id is not ours");
}

#[tokio::test]
async fn errors_say_what_to_do() {
    let db = Db::without_tables(SqliteOptions::default());
    let mut connection = db.connect();
    let tx = connection.transaction().expect("a transaction");
    let error = Outbox::default()
        .enqueue(&tx, &event("a", "k"))
        .expect_err("no table");
    assert_eq!(*error.kind(), EnqueueErrorKind::Schema);
    assert!(error.to_string().contains("postrider migrate up"), "{error}");
    let bad = Event {
        id: "".into(),
        ..event("a", "k")
    };
    let error = Outbox::default().enqueue_all(&tx, &[bad]).expect_err("invalid");
    assert!(
        matches!(error.kind(), EnqueueErrorKind::Invalid(_)),
        "checked before the database is asked: {error}"
    );
    assert!(Outbox::new("no good").is_err());
}

#[tokio::test]
async fn a_batch_keeps_its_order() {
    let db = Db::new().await;
    let events: Vec<_> = (0..1_000).map(|n| event(&format!("e{n}"), "k")).collect();
    let mut connection = db.connect();
    let tx = connection.transaction().expect("a transaction");
    let ids = Outbox::default().enqueue_all(&tx, &events).expect("enqueued");
    assert_eq!(ids.len(), 1_000);
    assert_eq!(Outbox::default().enqueue_all(&tx, &[]).expect("nothing"), []);
    let seen: Vec<_> = testing::enqueued(&tx, &Outbox::default())
        .into_iter()
        .map(|event| event.id)
        .collect();
    assert_eq!(seen, ids);
}

#[cfg(feature = "sqlx")]
mod sqlx {
    use postrider_core::Store;
    use postrider_sqlite::{EnqueueErrorKind, Outbox};
    use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

    use crate::support::{Db, event, everything};

    #[tokio::test]
    async fn a_transaction_of_sqlx_enqueues_too() {
        let db = Db::new().await;
        let options = SqliteConnectOptions::new().filename(db.path());
        let pool = SqlitePoolOptions::new()
            .connect_with(options)
            .await
            .expect("a pool");
        let outbox = Outbox::default();
        let mut tx = pool.begin().await.expect("a transaction");
        outbox
            .enqueue_sqlx(&mut tx, &event("a", "k"))
            .await
            .expect("enqueued");
        outbox
            .enqueue_all_sqlx(&mut tx, &[event("b", "k"), event("c", "k")])
            .await
            .expect("enqueued");
        let error = outbox
            .enqueue_sqlx(&mut tx, &event("a", "k"))
            .await
            .expect_err("a duplicate");
        assert_eq!(*error.kind(), EnqueueErrorKind::DuplicateId("a".into()));
        tx.commit().await.expect("committed");
        let page = db.store.read(everything()).await.expect("a page");
        let ids: Vec<_> = page.queued.iter().map(|row| row.event_id.to_string()).collect();
        assert_eq!(ids, ["a", "b", "c"]);
        let mut tx = pool.begin().await.expect("a transaction");
        outbox
            .enqueue_sqlx(&mut tx, &event("d", "k"))
            .await
            .expect("enqueued");
        tx.rollback().await.expect("rolled back");
        assert_eq!(db.store.read(everything()).await.expect("a page").queued.len(), 3);
    }
}
