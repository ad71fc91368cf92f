//! What stands in the way of an effect that happens once: other transactions, lost answers, servers that go.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postrider_core::{Applied, ApplyError, Blame, Effects, StoreErrorKind};
use postrider_postgres::{FirstError, Inbox, OnceError, PgEffects, PgHandler, PgOptions, Recorded, handler};
use postrider_testkit::inbox::received;
use postrider_testkit::proxy::{Faults, Proxy};
use postrider_testkit::servers::Postgres;
use postrider_testkit::wait::within;
use tokio::sync::Barrier;
use tokio_postgres::Client;

use crate::support::{Db, PATIENCE, until};

/// A database with an inbox, a table of effects, and two rows to quarrel about.
pub(crate) async fn database() -> Db {
    let db = Db::without_tables(PgOptions::default());
    Inbox::default()
        .migrate(&db.connect().await)
        .await
        .expect("the table is made");
    db.sql("CREATE TABLE effects (id text, seen integer)");
    db.sql("CREATE TABLE rows (n integer PRIMARY KEY, v integer)");
    db.sql("INSERT INTO rows VALUES (1, 0), (2, 0)");
    db
}

fn effects(url: &str) -> PgEffects {
    PgEffects::new(url, PgOptions::default(), Inbox::default(), 2).expect("a url")
}

/// The same database with a setting of its own for these connections.
fn with_setting(url: &str, name: &str, value: &str) -> String {
    let mark = if url.contains('?') { '&' } else { '?' };
    format!("{url}{mark}options=-c%20{name}%3D{value}")
}

async fn apply(effects: &PgEffects, id: &str, handler: &Arc<PgHandler>) -> Result<Applied, ApplyError> {
    let deliveries = Arc::new([received(id)]);
    let mut applied = effects
        .apply("billing".into(), deliveries, Arc::clone(handler))
        .await?;
    Ok(applied.remove(0))
}

fn inserts() -> Arc<PgHandler> {
    handler(|event, tx| {
        Box::pin(async move {
            let id = event.event_id();
            tx.execute("INSERT INTO effects (id) VALUES ($1)", &[&id]).await?;
            Ok(())
        })
    })
}

/// Two transactions that read what the other writes: one of them is refused by the server, and tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_serialisation_failure_is_tried_again() {
    let db = database().await;
    let url = with_setting(&db.database.url, "default_transaction_isolation", "serializable");
    let (effects, calls) = (effects(&url), Arc::new(AtomicUsize::new(0)));
    let (met, counted) = (Arc::new(Barrier::new(2)), Arc::clone(&calls));
    let count = handler(move |event, tx| {
        let (met, call) = (Arc::clone(&met), counted.fetch_add(1, Ordering::SeqCst));
        Box::pin(async move {
            let row = tx.query_one("SELECT count(*)::integer FROM effects", &[]).await?;
            let (id, seen): (_, i32) = (event.event_id(), row.get(0));
            if call < 2 {
                met.wait().await;
            }
            tx.execute("INSERT INTO effects VALUES ($1, $2)", &[&id, &seen])
                .await?;
            Ok(())
        })
    });
    let (one, two) = tokio::join!(apply(&effects, "a", &count), apply(&effects, "b", &count));
    assert_eq!((one.unwrap(), two.unwrap()), (Applied::Now, Applied::Now));
    assert!(calls.load(Ordering::SeqCst) >= 3, "one of them was refused");
    // One after the other: the second has seen the first.
    assert_eq!(
        db.sql("SELECT string_agg(seen::text, ',' ORDER BY seen) FROM effects"),
        "0,1"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_tried_again() {
    let db = database().await;
    let (effects, calls) = (effects(&db.database.url), Arc::new(AtomicUsize::new(0)));
    let (met, counted) = (Arc::new(Barrier::new(2)), Arc::clone(&calls));
    let cross = handler(move |event, tx| {
        let (met, call) = (Arc::clone(&met), counted.fetch_add(1, Ordering::SeqCst));
        Box::pin(async move {
            let order: [i32; 2] = if event.event_id() == "a" { [1, 2] } else { [2, 1] };
            let update = "UPDATE rows SET v = v + 1 WHERE n = $1";
            tx.execute(update, &[&order[0]]).await?;
            if call < 2 {
                met.wait().await;
            }
            tx.execute(update, &[&order[1]]).await?;
            Ok(())
        })
    });
    let (one, two) = tokio::join!(apply(&effects, "a", &cross), apply(&effects, "b", &cross));
    assert_eq!((one.unwrap(), two.unwrap()), (Applied::Now, Applied::Now));
    assert!(calls.load(Ordering::SeqCst) >= 3, "one of them was refused");
    assert_eq!(
        db.sql("SELECT string_agg(v::text, ',') FROM rows"),
        "2,2",
        "each once"
    );
}

/// Fault D2. Whoever may wait for a lock only so long goes on waiting for the one that was first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_not_to_be_had_is_waited_for() {
    let db = database().await;
    let impatient = effects(&with_setting(&db.database.url, "lock_timeout", "20ms"));
    let mut client = db.connect().await;
    let tx = client.transaction().await.expect("a transaction");
    assert!(
        Inbox::default()
            .first(&tx, "billing", "a")
            .await
            .expect("it is first")
    );
    let second = tokio::spawn(async move { apply(&impatient, "a", &inserts()).await });
    let given_up = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()";
    let before = db.number(given_up);
    until("attempts that were given up", || db.number(given_up) > before + 1).await;
    tx.commit().await.expect("committed");
    assert_eq!(second.await.expect("no panic").unwrap(), Applied::Before);
    assert_eq!(db.number("SELECT count(*) FROM effects"), 0);
}

/// Fault D3. The connection breaks at every byte of the commit, and behind it. Nobody knows what happened; the same
/// call again finds out, and the effect is there once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_cut_at_any_byte_takes_effect_once() {
    let db = database().await;
    let port = Postgres::shared().port().expect("a private server");
    let proxy = Arc::new(Proxy::start(port).await.expect("a proxy"));
    let proxied = format!(":{}/", proxy.port());
    let effects = effects(&db.database.url.replace(&format!(":{port}/"), &proxied));
    // A letter, a length, the statements and a zero.
    let bytes = 1 + 4 + "SELECT 1; COMMIT".len() as u64 + 1;
    let (mut now, mut before) = (0, 0);
    for cut in (0..=bytes).map(Some).chain([None, None]) {
        let id = format!("e{cut:?}-{now}-{before}");
        let breaking = Arc::clone(&proxy);
        let broken = handler(move |event, tx| {
            let proxy = Arc::clone(&breaking);
            Box::pin(async move {
                let id = event.event_id();
                tx.execute("INSERT INTO effects (id) VALUES ($1)", &[&id]).await?;
                match cut {
                    Some(bytes) => proxy.cut_after(bytes),
                    None => proxy.set(Faults {
                        deaf: true,
                        ..Faults::default()
                    }),
                }
                Ok(())
            })
        });
        let is_committed = || db.number(&format!("SELECT count(*) FROM effects WHERE id = '{id}'")) == 1;
        let cutting = async {
            if cut.is_none() {
                until("the commit", is_committed).await;
                proxy.cut();
            }
        };
        let (failed, ()) = tokio::join!(apply(&effects, &id, &broken), cutting);
        proxy.set(Faults::default());
        match failed {
            Err(ApplyError::Store(error)) => {
                assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error:?}")
            }
            other => panic!("{cut:?}: the answer was lost: {other:?}"),
        }
        match apply(&effects, &id, &inserts()).await.expect("it works again") {
            Applied::Now => now += 1,
            Applied::Before => before += 1,
        }
        assert!(is_committed(), "{cut:?}: once");
    }
    assert!(now > 10 && before >= 2, "{now} {before}");
}

/// PostgreSQL undoes a transaction in which a statement failed, and says `ROLLBACK` to `COMMIT`. A handler that passes
/// over the error must not have its event acknowledged: its effect would be lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_passes_over_an_error_loses_nothing() {
    let db = database().await;
    let effects = effects(&db.database.url);
    let careless = handler(|event, tx| {
        Box::pin(async move {
            let id = event.event_id();
            tx.execute("INSERT INTO effects (id) VALUES ($1)", &[&id]).await?;
            let _ = tx.execute("INSERT INTO rows VALUES (1, 1)", &[]).await;
            Ok(())
        })
    });
    match apply(&effects, "a", &careless).await {
        Err(ApplyError::Handler { at: 0, error }) => {
            assert!(error.to_string().contains("savepoint"), "{error}")
        }
        other => panic!("nothing was committed: {other:?}"),
    }
    let mut client = db.connect().await;
    let effect = async |tx: &tokio_postgres::Transaction<'_>| {
        let _ = tx.execute("INSERT INTO rows VALUES (1, 1)", &[]).await;
        Ok::<_, tokio_postgres::Error>(())
    };
    let failed = Inbox::default().once(&mut client, "billing", "a", effect).await;
    match failed {
        Err(OnceError::Store(error)) => assert!(error.advice().contains("savepoint"), "{error}"),
        other => panic!("nothing was committed: {other:?}"),
    }
    assert_eq!(
        db.number("SELECT (SELECT count(*) FROM effects) + (SELECT count(*) FROM inbox)"),
        0
    );
    assert_eq!(
        apply(&effects, "a", &inserts()).await.unwrap(),
        Applied::Now,
        "it counts as not seen"
    );
    is_usable(&client).await;
}

/// A handler that ends the transaction takes its record with it, or out of it: its event must not be acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_that_ends_its_transaction_is_an_error() {
    let db = database().await;
    let mut client = db.connect().await;
    for (end, records) in [("ROLLBACK", 0), ("COMMIT", 1)] {
        let effect = async |tx: &tokio_postgres::Transaction<'_>| tx.batch_execute(end).await;
        let failed = Inbox::default().once(&mut client, "billing", "a", effect).await;
        match failed {
            Err(OnceError::Store(error)) => {
                assert!(error.advice().contains("not end its transaction"), "{error}");
            }
            other => panic!("{end}: {other:?}"),
        }
        assert_eq!(db.number("SELECT count(*) FROM inbox"), records, "{end}");
        is_usable(&client).await;
    }
}

async fn is_usable(client: &Client) {
    client
        .query_one("SELECT 1", &[])
        .await
        .expect("no transaction is open");
}

/// What is checked at the commit is the handler's affair, not trouble of the database that would be waited out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_constraint_at_the_commit_is_the_handlers_error() {
    let db = database().await;
    db.sql("CREATE TABLE late (n integer REFERENCES rows DEFERRABLE INITIALLY DEFERRED)");
    let wrong = handler(|_, tx| {
        Box::pin(async move {
            tx.execute("INSERT INTO late VALUES (7)", &[]).await?;
            Ok(())
        })
    });
    let failed = apply(&effects(&db.database.url), "a", &wrong).await;
    assert!(
        matches!(failed, Err(ApplyError::Handler { at: 0, .. })),
        "{failed:?}"
    );
}

/// Faults D10 and D15. A connection that ends while a handler works may be the fault of the database or of the event:
/// whether others take effect tells. The same effects go on when there is a connection again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_ends_under_a_handler_is_not_simply_charged() {
    let db = database().await;
    let effects = effects(&db.database.url);
    let ended = handler(|_, tx| {
        Box::pin(async move {
            tx.execute("SELECT pg_terminate_backend(pg_backend_pid())", &[])
                .await?;
            Ok(())
        })
    });
    for _ in 0..3 {
        match apply(&effects, "a", &ended).await {
            Err(ApplyError::Handler { at: 0, error }) => {
                assert_eq!(error.blamed(), Blame::Unclear, "{error:?}")
            }
            other => panic!("the connection is gone: {other:?}"),
        }
    }
    assert_eq!(apply(&effects, "a", &inserts()).await.unwrap(), Applied::Now);
    // Connections that wait are ended too, by a restart for one.
    db.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    within(PATIENCE, "it goes on by itself", async || {
        apply(&effects, "b", &inserts()).await.ok()
    })
    .await;
    assert_eq!(
        db.sql("SELECT string_agg(id, ',' ORDER BY id) FROM effects"),
        "a,b"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_table_and_a_missing_server_have_kinds() {
    let db = Db::without_tables(PgOptions::default());
    let kind = |failed: Result<Applied, ApplyError>| match failed {
        Err(ApplyError::Store(error)) => (error.kind(), error.advice()),
        other => panic!("it did not fail: {other:?}"),
    };
    let missing = kind(apply(&effects(&db.database.url), "a", &inserts()).await);
    assert!(
        missing.0 == StoreErrorKind::Schema && missing.1.contains("inbox"),
        "{missing:?}"
    );
    let nobody = kind(apply(&effects("postgres://postgres@127.0.0.1:1/none"), "a", &inserts()).await);
    assert_eq!(nobody.0, StoreErrorKind::Unreachable);
}

/// Fault D8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_without_an_id_is_refused_in_the_callers_transaction_too() {
    let db = database().await;
    let mut client = db.connect().await;
    let nothing = async |_: &tokio_postgres::Transaction<'_>| Ok::<_, std::convert::Infallible>(());
    for _ in 0..2 {
        let refused = Inbox::default().once(&mut client, "billing", "", nothing).await;
        let Err(OnceError::Store(error)) = refused else {
            panic!("another event without an id would be taken for this one: {refused:?}");
        };
        assert_eq!(error.kind(), StoreErrorKind::Invalid, "{error}");
    }
    is_usable(&client).await;
}

/// Fault D9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reused_id_is_an_error_in_the_callers_transaction_too() {
    let db = database().await;
    let inbox = Inbox::default();
    let mut client = db.connect().await;
    let nothing = async |_: &tokio_postgres::Transaction<'_>| Ok::<_, std::convert::Infallible>(());
    let done = inbox
        .once_with_hash(&mut client, "billing", "a", Some("1111"), nothing)
        .await;
    assert!(done.expect("once").is_some());
    let failed = inbox
        .once_with_hash(&mut client, "billing", "a", Some("2222"), nothing)
        .await;
    assert!(matches!(failed, Err(OnceError::Reused(_))), "{failed:?}");
    let tx = client.transaction().await.expect("a transaction");
    let failed = inbox.first_with_hash(&tx, "billing", "a", Some("2222")).await;
    match failed {
        Err(FirstError::Reused(reused)) => {
            assert_eq!(
                (reused.recorded.as_str(), reused.given.as_str()),
                ("1111", "2222")
            );
        }
        other => panic!("the id was reused: {other:?}"),
    }
    let marks = inbox
        .first_all(&tx, "billing", &[("b", None), ("a", Some("1111")), ("b", None)])
        .await;
    assert_eq!(
        marks.expect("recorded"),
        [Recorded::Now, Recorded::Before, Recorded::Before]
    );
}
