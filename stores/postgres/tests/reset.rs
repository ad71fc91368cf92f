//! A database that was changed by hand under the relay's feet.

use std::time::Duration;

use postrider_core::{ErrorKind, Failure, Heartbeat, Park, Seq, Settled, Store};

use crate::common::{Db, event, few_shards, heartbeat, parks, sent};

fn nowhere() -> Park {
    Park::dead(None, Failure::new(ErrorKind::NoRoute, "nowhere"))
}

/// Fault A25. A sequence that was reset gives places out again; an event must not vanish because another is parked at its
/// own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_whose_place_is_taken_stays_queued() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    db.enqueue(&[event("first", "k")]).await;
    let rows = relay.queued().await;
    assert_eq!(
        relay.settle(vec![parks(&rows[0], vec![nowhere()])], vec![]).await,
        [Settled::Done]
    );
    db.sql("ALTER SEQUENCE outbox_seq RESTART");
    db.enqueue(&[event("second", "k")]).await;
    let rows = relay.queued().await;
    assert_eq!(rows[0].event_id.as_str(), "second");
    assert_eq!(
        relay.settle(vec![parks(&rows[0], vec![nowhere()])], vec![]).await,
        [Settled::Gone]
    );
    assert_eq!(
        db.number("SELECT count(*) FROM outbox WHERE event_id = 'second'"),
        1
    );
    assert_eq!(
        db.sql("SELECT event_id FROM outbox_parked"),
        "first",
        "and nobody else's row is changed"
    );
}

/// Faults A25 and A26. Rows that are deleted, tables that are emptied: the settle says so, and nothing comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_deleted_by_hand_are_gone() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    db.enqueue(&[event("a", "k"), event("b", "l")]).await;
    let rows = relay.queued().await;
    db.sql("TRUNCATE outbox");
    let entries = vec![sent(&rows[0], "d"), parks(&rows[1], vec![nowhere()])];
    assert_eq!(relay.settle(entries, vec![]).await, [Settled::Gone; 2]);
    assert_eq!(db.number("SELECT count(*) FROM outbox_parked"), 0);
    assert_eq!(db.number("SELECT count(*) FROM outbox_sent"), 0);
}

/// Fault A26. A database that is restored, or made anew, must not know the tokens of the relays of the old one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_do_not_begin_anew() {
    let db = Db::new().await;
    let old = db.relay("one").await;
    db.enqueue(&[event("a", "k")]).await;
    postrider_core::Schema::down(&db.store)
        .await
        .expect_err("an event is queued");
    db.sql("DELETE FROM outbox");
    postrider_core::Schema::down(&db.store).await.expect("removed");
    postrider_core::Schema::up(&db.store).await.expect("made");
    db.relay("two").await;
    db.enqueue(&[event("a", "k")]).await;
    let rows = old.queued().await;
    assert_eq!(
        old.settle(vec![sent(&rows[0], "d")], vec![]).await,
        [Settled::Fenced],
        "the shards of the new tables are not its own"
    );
}

/// Fault A25. Places that begin anew lie below the floors of the relay: the horizon goes back, which tells it so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_horizon_goes_back_with_the_places() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    let events: Vec<_> = (0..20).map(|n| event(&format!("e{n}"), "k")).collect();
    db.enqueue(&events).await;
    relay.send_all().await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
    while relay.page().await.horizon < Seq(20) {
        assert!(tokio::time::Instant::now() < deadline, "everything is decided");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    db.sql("TRUNCATE outbox RESTART IDENTITY");
    db.enqueue(&[event("new", "k")]).await;
    let mut behind = relay.everything();
    for range in &mut behind.ranges {
        range.floor = Seq(20);
    }
    let page = relay.store.read(behind).await.expect("a page");
    assert!(page.horizon < Seq(20), "{:?}", page.horizon);
}

/// Fault F2. A lease that ends in years was written before the clock was set back: it is not waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_ends_in_years_is_not_believed() {
    let db = Db::new().await;
    db.relay("one").await;
    let beat = || Heartbeat {
        term: Duration::from_secs(10),
        ..heartbeat("two")
    };
    let standing = db.store.heartbeat(beat()).await.expect("a heartbeat");
    assert!(standing.leases.is_empty(), "the other is alive: {standing:?}");
    db.sql("UPDATE outbox_relay SET expires_at = now() + interval '3 years' WHERE relay = 'one'");
    let standing = db.store.heartbeat(beat()).await.expect("a heartbeat");
    assert_eq!(standing.leases.len(), usize::from(few_shards().shards));
}
