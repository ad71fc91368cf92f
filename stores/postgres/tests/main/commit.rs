//! Commits of which nobody knows whether they happened, and producers that repeat them.

use std::collections::BTreeMap;

use postrider_core::Event;
use postrider_postgres::{EnqueueErrorKind, Outbox};
use postrider_testkit::proxy::{Faults, Proxy};
use postrider_testkit::servers::Postgres;

use crate::support::{Db, Running, connect, event, until};

/// What the driver sends for `COMMIT`: a letter, a length, the word, and a zero.
const COMMIT_BYTES: u64 = 12;

/// Where the connection breaks.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// After so many bytes of the request.
    Request(u64),
    /// The server has committed, and its answer never arrives.
    Answer,
}

/// Fault A3. The connection breaks at every byte of a commit, and behind it. The producer cannot know what happened and
/// repeats its transaction under the same id, at once or when the event was sent long ago: each arrives exactly once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_cut_at_any_byte_is_repeated_and_arrives_once() {
    let db = Db::new().await;
    let proxy = Proxy::start(Postgres::shared().port().expect("a private server"))
        .await
        .expect("a proxy");
    let cuts: Vec<_> = (0..=COMMIT_BYTES)
        .map(Cut::Request)
        .chain([Cut::Answer; 3])
        .collect();
    let mut repeats: BTreeMap<&str, usize> = BTreeMap::new();
    // The first half is repeated while nothing is sent, the second beside a relay that has sent it already.
    let mut relay: Option<Running> = None;
    for sent_already in [false, true] {
        for (n, cut) in cuts.iter().enumerate() {
            let event = event(&format!("{sent_already}-{n}"), "k");
            let happened = break_commit(&db, &proxy, &event, *cut).await;
            if let (true, Some(running)) = (happened, relay.as_ref()) {
                until("the event", || running.ids().contains(&event.id.to_string())).await;
            }
            let outcome = repeat(&db, &event).await;
            *repeats.entry(outcome).or_default() += 1;
            match (happened, sent_already) {
                (true, false) => assert_eq!(outcome, "refused", "{cut:?}: it is queued already"),
                (false, _) => assert_eq!(outcome, "taken", "{cut:?}: nothing of it was left"),
                // Whether it has left the outbox is the relay's affair; either answer is safe.
                (true, true) => {}
            }
        }
        relay.get_or_insert_with(|| Running::start(db.store.clone()));
    }
    let running = relay.expect("a relay");
    let empty = "SELECT count(*) FROM outbox_events WHERE status <> 'PUBLISHED'";
    until("an empty outbox", || db.number(empty) == 0).await;
    let mut arrived = running.ids();
    running.stop().await;
    arrived.sort_unstable();
    let mut wanted: Vec<_> = [false, true]
        .iter()
        .flat_map(|half| (0..cuts.len()).map(move |n| format!("{half}-{n}")))
        .collect();
    wanted.sort_unstable();
    assert_eq!(arrived, wanted, "each exactly once: {repeats:?}");
    assert!(
        repeats["refused"] >= 3 && repeats["taken"] >= 2 * 12,
        "{repeats:?}"
    );
}

/// Commits through a connection that breaks; answers whether it was committed, which the producer does not learn.
async fn break_commit(db: &Db, proxy: &Proxy, event: &Event, cut: Cut) -> bool {
    let port = Postgres::shared().port().expect("a private server");
    let proxied = format!(":{}/", proxy.port());
    let url = db.database.url.replace(&format!(":{port}/"), &proxied);
    let mut client = connect(&url).await;
    let sql = "SELECT pg_backend_pid()";
    let backend: i32 = client.query_one(sql, &[]).await.expect("a number").get(0);
    let tx = client.transaction().await.expect("a transaction");
    Outbox::default().enqueue(&tx, event).await.expect("enqueued");
    match cut {
        Cut::Request(bytes) => {
            proxy.cut_after(bytes);
            tx.commit().await.expect_err("the connection is gone");
        }
        Cut::Answer => {
            proxy.set(Faults {
                deaf: true,
                ..Faults::default()
            });
            let committed = async {
                until("the commit", || is_committed(db, event)).await;
                proxy.cut();
            };
            let (answer, ()) = tokio::join!(tx.commit(), committed);
            answer.expect_err("the connection is gone");
            proxy.set(Faults::default());
        }
    }
    // A server that has read the request carries it out, also when nobody waits any more.
    let session = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {backend}");
    until("the end of the session", || db.number(&session) == 0).await;
    is_committed(db, event)
}

fn is_committed(db: &Db, event: &Event) -> bool {
    let id = &event.id;
    db.number(&format!(
        "SELECT count(*) FROM outbox_events WHERE event_id = '{id}'"
    )) == 1
}

/// Repeats the transaction as a producer does; a refusal of the id is the proof that the first one was committed.
async fn repeat(db: &Db, event: &Event) -> &'static str {
    let mut client = db.connect().await;
    let tx = client.transaction().await.expect("a transaction");
    match Outbox::default().enqueue(&tx, event).await {
        Ok(_) => {
            tx.commit().await.expect("committed");
            "taken"
        }
        Err(error) => {
            let wanted = EnqueueErrorKind::DuplicateId(event.id.clone());
            assert_eq!(*error.kind(), wanted, "{error}");
            "refused"
        }
    }
}
