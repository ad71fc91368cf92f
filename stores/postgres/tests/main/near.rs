//! Reads that take the short way, and what they keep from one session to the next.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use postrider_core::{ErrorKind, Failure, Park, Store};
use postrider_testkit::wait::eventually;

use crate::support::{Db, event, parks};

/// Polls a call so often and drops it.
async fn abandon<T>(call: impl Future<Output = T>, polls: usize) {
    let mut call = pin!(call);
    for _ in 0..polls {
        if poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_ready())).await {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// Fault A18. A row behind a parked one is left by the short way to the long one: dropped anywhere between them, a read
/// leaves the connection as it was and hides nothing from the next.
#[tokio::test]
async fn a_read_dropped_between_its_two_ways_skips_nothing() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    db.enqueue(&[event("dead", "k")]).await;
    let rows = relay.queued().await;
    let dead = Park::dead(Some("d".into()), Failure::new(ErrorKind::Rejected, "no"));
    relay.settle(vec![parks(&rows[0], vec![dead])], vec![]).await;
    // One that finds nothing parked that moves allows the short way for those that follow.
    assert!(relay.queued().await.is_empty());
    db.enqueue(&[event("behind", "k"), event("beside", "l")]).await;
    let session = "SELECT string_agg(DISTINCT pid::text, ' ' ORDER BY pid::text) FROM pg_stat_activity
                   WHERE datname = current_database() AND application_name = 'postrider'";
    let before = db.sql(session);
    for polls in 0..60 {
        abandon(db.store.read(relay.everything()), polls * polls).await;
        let rows = relay.queued().await;
        let ids: Vec<&str> = rows.iter().map(|row| row.event_id.as_str()).collect();
        assert_eq!(ids, ["behind", "beside"], "dropped after {} polls", polls * polls);
    }
    assert_eq!(db.sql(session), before, "no session was given up");
}

/// Fault A7. A session that ends says nothing about who wrote before it: floors that began anew with every session
/// would mean a read of everything dead since.
#[tokio::test]
async fn a_horizon_survives_the_session_that_found_it() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    db.enqueue(&[event("a", "k")]).await;
    let place = relay.queued().await[0].seq;
    eventually("the row is known to be decided", async || {
        (relay.page().await.horizon >= place).then_some(())
    })
    .await;
    // With a writer under way a new session cannot find out by itself what was decided before it.
    let writer = db.connect().await;
    let open = "BEGIN; SELECT outbox_send('Tested', 'Test', 'open', '{}')";
    writer.batch_execute(open).await.expect("a transaction");
    db.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = 'postrider'",
    );
    let page = eventually("a new session", async || {
        db.store.read(relay.everything()).await.ok()
    })
    .await;
    assert!(page.horizon >= place, "{:?} is behind {place:?}", page.horizon);
}
