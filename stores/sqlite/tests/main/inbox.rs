//! Effects that happen once.

use std::time::Duration;

use postrider_core::StoreErrorKind;
use postrider_sqlite::{Inbox, OnceError};
use rusqlite::Connection;

fn database() -> (tempfile::TempDir, Connection) {
    let folder = tempfile::tempdir().expect("a folder");
    let connection = open(&folder);
    connection
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE effect (n INTEGER)")
        .expect("a table");
    Inbox::default().migrate(&connection).expect("migrated");
    (folder, connection)
}

fn open(folder: &tempfile::TempDir) -> Connection {
    let connection = Connection::open(folder.path().join("consumer.db")).expect("a connection");
    connection
        .busy_timeout(Duration::from_millis(1))
        .expect("impatient");
    connection
}

fn effects(connection: &Connection) -> i64 {
    connection
        .query_row("SELECT count(*) FROM effect", [], |row| row.get(0))
        .expect("a count")
}

/// Fault B14.
#[test]
fn an_event_takes_effect_once_per_consumer() {
    let (_folder, mut connection) = database();
    let inbox = Inbox::default();
    inbox
        .migrate(&connection)
        .expect("migrating again changes nothing");
    for (consumer, id, first) in [
        ("a", "1", true),
        ("a", "1", false),
        ("b", "1", true),
        ("a", "2", true),
        ("b", "1", false),
    ] {
        let done = inbox
            .once(&mut connection, consumer, id, |tx| {
                tx.execute("INSERT INTO effect VALUES (1)", [])
            })
            .expect("once");
        assert_eq!(done.is_some(), first, "{consumer} {id}");
    }
    assert_eq!(effects(&connection), 3);
}

#[test]
fn an_effect_that_fails_may_be_tried_again() {
    let (_folder, mut connection) = database();
    let inbox = Inbox::default();
    let failed = inbox.once(&mut connection, "a", "1", |tx| {
        tx.execute("INSERT INTO effect VALUES (1)", []).expect("inserted");
        Err::<(), _>("no")
    });
    assert!(matches!(failed, Err(OnceError::Effect("no"))));
    assert_eq!(effects(&connection), 0, "rolled back");
    let done = inbox.once(&mut connection, "a", "1", |tx| {
        tx.execute("INSERT INTO effect VALUES (1)", [])
    });
    assert!(done.expect("once").is_some());
}

/// Fault B14.
#[test]
fn many_deliveries_at_once_have_one_effect() {
    let (folder, connection) = database();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let mut connection = open(&folder);
            std::thread::spawn(move || {
                let inbox = Inbox::default();
                let mut done = 0;
                for n in 0..50 {
                    // The time-out of these connections is too short on purpose: waiting is `once`'s business.
                    let effect =
                        |tx: &rusqlite::Transaction<'_>| tx.execute("INSERT INTO effect VALUES (?1)", [n]);
                    done += usize::from(
                        inbox
                            .once(&mut connection, "a", &n.to_string(), effect)
                            .expect("once")
                            .is_some(),
                    );
                }
                done
            })
        })
        .collect();
    let done: usize = threads
        .into_iter()
        .map(|thread| thread.join().expect("no panic"))
        .sum();
    assert_eq!((done, effects(&connection)), (50, 50));
}

#[test]
fn first_works_in_the_callers_transaction() {
    let (_folder, mut connection) = database();
    let inbox = Inbox::default();
    let tx = connection.transaction().expect("a transaction");
    assert!(inbox.first(&tx, "a", "1").expect("first"));
    assert!(!inbox.first(&tx, "a", "1").expect("not first"));
    tx.rollback().expect("rolled back");
    let tx = connection.transaction().expect("a transaction");
    assert!(
        inbox
            .first_with_hash(&tx, "a", "1", Some("abc"))
            .expect("first again")
    );
    tx.commit().expect("committed");
    assert!(inbox.forget(&connection, "a", "1").expect("forgotten"));
    assert!(!inbox.forget(&connection, "a", "1").expect("not there"));
}

#[test]
fn old_records_are_purged_in_steps() {
    let (_folder, mut connection) = database();
    let inbox = Inbox::default();
    let tx = connection.transaction().expect("a transaction");
    for n in 0..10 {
        inbox.first(&tx, "a", &n.to_string()).expect("first");
    }
    tx.execute(
        "UPDATE inbox SET processed_at = processed_at - 7200000000 WHERE event_id < '5'",
        [],
    )
    .expect("aged");
    tx.commit().expect("committed");
    let hour = Duration::from_secs(3_600);
    assert_eq!(inbox.purge(&connection, None, hour, 3).expect("purged"), 3);
    assert_eq!(inbox.purge(&connection, None, hour, 100).expect("purged"), 2);
    assert_eq!(inbox.purge(&connection, None, hour, 100).expect("purged"), 0);
}

#[test]
fn a_missing_table_and_a_bad_name_are_said() {
    let mut connection = Connection::open_in_memory().expect("a connection");
    let tx = connection.transaction().expect("a transaction");
    let error = Inbox::new("seen")
        .expect("a name")
        .first(&tx, "a", "1")
        .expect_err("no table");
    assert_eq!(error.kind(), StoreErrorKind::Schema);
    assert!(Inbox::new("in\"box").is_err());
}

/// Fault D8.
#[test]
fn an_event_without_an_id_is_refused() {
    let (_folder, mut connection) = database();
    let nothing = |_: &rusqlite::Transaction<'_>| Ok::<_, rusqlite::Error>(());
    for _ in 0..2 {
        let refused = Inbox::default().once(&mut connection, "a", "", nothing);
        let Err(OnceError::Store(error)) = refused else {
            panic!("another event without an id would be taken for this one: {refused:?}");
        };
        assert_eq!(error.kind(), StoreErrorKind::Invalid, "{error}");
    }
}

/// Fault D4. SQLite has rolled the transaction back, with the record in it.
#[test]
fn an_effect_that_passes_over_the_end_of_its_transaction_fails() {
    let (_folder, mut connection) = database();
    let inbox = Inbox::default();
    let undone = |tx: &rusqlite::Transaction<'_>| {
        let again = "INSERT OR ROLLBACK INTO inbox (consumer, event_id) VALUES ('a', '1')";
        assert!(tx.execute(again, []).is_err());
        Ok::<_, rusqlite::Error>(())
    };
    let failed = inbox.once(&mut connection, "a", "1", undone);
    let Err(OnceError::Store(error)) = failed else {
        panic!("nothing is recorded: {failed:?}");
    };
    assert!(error.advice().contains("return the error"), "{error}");
    assert!(
        !inbox.forget(&connection, "a", "1").expect("asked"),
        "it counts as not seen"
    );
}
