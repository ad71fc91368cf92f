//! A database that was changed by hand under the relay's feet.

use std::time::Duration;

use postrider_core::{
    Console, ErrorKind, Failure, Filter, Heartbeat, HistoryAsk, HistoryRow, List, Park, Receipt, Seq,
    Settled, Store, Then, Upkeep,
};
use postrider_testkit::by_hand;
use postrider_testkit::wait::within;

use crate::support::{Db, Relay, again, event, few_shards, heartbeat, parks, sent};

fn nowhere() -> Park {
    Park::dead(None, Failure::new(ErrorKind::NoRoute, "nowhere"))
}

/// Fault A25. A sequence that was reset gives places out again; an event must not vanish because another is parked at
/// its own.
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
        [Settled::Kept],
        "it is still there, and the relay must not forget it"
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

/// Fault A25. The same when a parked row is routed anew: it stays, dead and with the reason, where a person sees it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_routed_to_a_place_that_is_taken_stays() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    db.enqueue(&[event("first", "k")]).await;
    let rows = relay.queued().await;
    relay.settle(vec![parks(&rows[0], vec![nowhere()])], vec![]).await;
    db.sql("ALTER SEQUENCE outbox_seq RESTART");
    db.enqueue(&[event("second", "l")]).await;
    let rows = relay.queued().await;
    let waits = vec![Park::waiting("d".into(), false)];
    assert_eq!(
        relay.settle(vec![parks(&rows[0], waits)], vec![]).await,
        [Settled::Done],
        "another destination is another place"
    );
    let redrive = "UPDATE outbox_parked SET dead = false WHERE event_id = 'first'";
    db.sql(redrive);
    let page = relay.page().await;
    let due = page.parked.iter().find(|row| row.destination.is_none());
    let split = Then::Split(vec![
        Park::waiting("d".into(), false),
        Park::waiting("e".into(), false),
    ]);
    let entry = again(due.expect("it is due"), split);
    assert_eq!(relay.settle(vec![], vec![entry]).await, [Settled::Done]);
    assert_eq!(
        db.sql("SELECT event_id, destination, dead, error_kind FROM outbox_parked ORDER BY 1"),
        "first||t|place_taken\nsecond|d|f|"
    );
    // The other one leaves: now it goes.
    let other = relay.page().await.parked.remove(0);
    let entry = again(&other, Then::Sent(Receipt::default()));
    relay.settle(vec![], vec![entry]).await;
    db.sql(redrive);
    let due = relay.page().await.parked.remove(0);
    let split = Then::Split(vec![Park::waiting("d".into(), false)]);
    assert_eq!(
        relay.settle(vec![], vec![again(&due, split)]).await,
        [Settled::Done]
    );
    assert_eq!(
        db.sql("SELECT event_id, destination, dead FROM outbox_parked"),
        "first|d|f"
    );
}

/// Fault G6. Whoever switches triggers off inserts rows without an id: they are parked, hold their key, and can be
/// named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_without_an_id_is_parked_with_its_reason() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    db.sql(
        "SET session_replication_role = replica;
         INSERT INTO outbox (event_type, aggregate_type, aggregate_id) VALUES ('T', 'A', '1')",
    );
    let all = db
        .store
        .list(List::first(10, Filter::default()))
        .await
        .expect("listed");
    assert_eq!(all.events[0].event_id.as_str(), "seq-1");
    let rows = relay.queued().await;
    let reason = rows[0].event.as_ref().expect_err("it is no event");
    assert!(reason.text.contains("event_id"), "{reason:?}");
    assert_eq!(
        relay.settle(vec![parks(&rows[0], vec![nowhere()])], vec![]).await,
        [Settled::Done]
    );
    assert_eq!(db.number("SELECT count(*) FROM outbox"), 0);
    assert_eq!(db.sql("SELECT event_id FROM outbox_parked"), "seq-1");
}

/// Fault A25. A trigger that keeps rows from being deleted: what was published must not be read and published again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_a_trigger_keeps_is_not_said_to_be_gone() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    db.enqueue(&[event("a", "k"), event("b", "l")]).await;
    let rows = relay.queued().await;
    let waits = vec![Park::waiting("d".into(), false)];
    relay.settle(vec![parks(&rows[1], waits)], vec![]).await;
    db.sql(
        "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
         CREATE TRIGGER keep BEFORE DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION keep();
         CREATE TRIGGER keep BEFORE DELETE ON outbox_parked FOR EACH ROW EXECUTE FUNCTION keep()",
    );
    let due = relay.page().await.parked.remove(0);
    let leaves = || again(&due, Then::Sent(Receipt::default()));
    assert_eq!(
        relay.settle(vec![sent(&rows[0], "d")], vec![leaves()]).await,
        [Settled::Kept, Settled::Kept]
    );
    assert_eq!(db.number("SELECT count(*) FROM outbox_sent"), 0);
    db.sql("DROP TRIGGER keep ON outbox; DROP TRIGGER keep ON outbox_parked");
    assert_eq!(
        relay.settle(vec![sent(&rows[0], "d")], vec![leaves()]).await,
        [Settled::Done, Settled::Done]
    );
    assert_eq!(
        relay.settle(vec![sent(&rows[0], "d")], vec![leaves()]).await,
        [Settled::Gone, Settled::Gone]
    );
}

/// Fault A26. A table may have more columns than ours, whatever their names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_of_others_are_in_nobodys_way() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    let names = [
        "n",
        "place",
        "id",
        "destination",
        "outcome",
        "receipt",
        "parks",
        "more",
        "order_key",
        "range",
        "size",
        "blocked",
        "version",
        "kind",
        "line",
        "wait",
        "slot",
        "floor",
        "lim",
        "head",
        "token",
    ];
    for name in names {
        db.sql(&format!(
            "ALTER TABLE outbox ADD COLUMN IF NOT EXISTS {name} text"
        ));
        db.sql(&format!(
            "ALTER TABLE outbox_parked ADD COLUMN IF NOT EXISTS {name} text"
        ));
    }
    db.enqueue(&[event("a", "k"), event("b", "l")]).await;
    let rows = relay.queued().await;
    let waits = vec![Park::waiting("d".into(), false)];
    assert_eq!(
        relay
            .settle(vec![sent(&rows[0], "d"), parks(&rows[1], waits)], vec![])
            .await,
        [Settled::Done; 2]
    );
    let due = relay.page().await.parked.remove(0);
    let split = Then::Split(vec![Park::waiting("e".into(), false)]);
    assert_eq!(
        relay.settle(vec![], vec![again(&due, split)]).await,
        [Settled::Done]
    );
    let due = relay.page().await.parked.remove(0);
    let leaves = again(&due, Then::Sent(Receipt::default()));
    assert_eq!(relay.settle(vec![], vec![leaves]).await, [Settled::Done]);
    assert_eq!(db.number("SELECT count(*) FROM outbox_sent"), 2);
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

/// A relay that has sent twenty events, and whose horizon has passed them.
async fn twenty_sent() -> (Db, Relay) {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    let events: Vec<_> = (0..20).map(|n| event(&format!("e{n}"), "k")).collect();
    db.enqueue(&events).await;
    relay.send_all().await;
    within(Duration::from_secs(5), "everything is decided", async || {
        (relay.page().await.horizon >= Seq(20)).then_some(())
    })
    .await;
    (db, relay)
}

/// Fault A25. Places that begin anew lie below the floors of the relay: the horizon goes back, which tells it so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_horizon_goes_back_with_the_places() {
    let (db, relay) = twenty_sent().await;
    db.sql("TRUNCATE outbox RESTART IDENTITY");
    db.enqueue(&[event("new", "k")]).await;
    let mut behind = relay.everything();
    for range in &mut behind.ranges {
        range.floor = Seq(20);
    }
    let page = relay.store.read(behind).await.expect("a page");
    assert!(page.horizon < Seq(20), "{:?}", page.horizon);
}

/// Fault A25. The same when they have come further than before by the next look: the table is in another file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_horizon_goes_back_with_the_places_however_many_there_are() {
    let (db, relay) = twenty_sent().await;
    db.sql("TRUNCATE outbox RESTART IDENTITY");
    let events: Vec<_> = (0..100).map(|n| event(&format!("n{n}"), "k")).collect();
    db.enqueue(&events).await;
    assert!(
        relay.page().await.horizon < Seq(20),
        "nothing of these is decided"
    );
}

/// Fault A25. Floors begin at zero, so nothing may stand at or below.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_that_no_relay_looks_at_is_refused() {
    let db = Db::new().await;
    let client = db.connect().await;
    for place in [0, -5] {
        let sql = format!(
            "INSERT INTO outbox (seq, event_type, aggregate_type, aggregate_id) OVERRIDING SYSTEM VALUE
             VALUES ({place}, 'T', 'A', '1')"
        );
        client.batch_execute(&sql).await.expect_err("refused");
    }
}

/// Fault C17. The partition of today was detached: it is attached again, with what it holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_was_detached_comes_back() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    db.enqueue(&[event("a", "k")]).await;
    relay.send_all().await;
    let part = db.sql("SELECT tableoid::regclass FROM outbox_sent");
    db.sql(&format!("ALTER TABLE outbox_sent DETACH PARTITION {part}"));
    assert_eq!(db.number("SELECT count(*) FROM outbox_sent"), 0);
    db.enqueue(&[event("b", "k")]).await;
    relay.send_all().await;
    assert_eq!(
        db.sql("SELECT string_agg(event_id, ' ' ORDER BY event_id) FROM outbox_sent"),
        "a b"
    );
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

/// Fault A25. What is beyond the sequence is history like any other: an archive that ended at the sequence would say
/// that all of its time is in it, and the rest would be removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_beyond_the_sequence_is_read_listed_and_replayed() {
    let db = Db::new().await;
    db.sql(
        "INSERT INTO outbox_sent (seq, destination, event_id, event_type, aggregate_type, aggregate_id, payload,
             enqueued_at, outcome, published_at)
         SELECT n, 'd', 'e' || n, 'T', 'A', 'k', '{}', now(), 'published', now()
         FROM (VALUES (3), (70000), (5000000)) v (n);
         SELECT setval('outbox_seq', 10)",
    );
    let ask = HistoryAsk {
        limit: 10,
        max_bytes: 1 << 20,
        ..HistoryAsk::default()
    };
    let places = |rows: &[HistoryRow]| rows.iter().map(|row| row.seq.0).collect::<Vec<_>>();
    let page = db.store.history(ask).await.expect("a page");
    assert_eq!(places(&page.rows), [3, 70_000, 5_000_000]);
    let of_key = Filter {
        key: vec!["A/k".to_owned()],
        ..Filter::default()
    };
    for filter in [Filter::default(), of_key] {
        let list = List {
            newest_first: true,
            ..List::first(10, filter)
        };
        let listed = db.store.list(list).await.expect("a page").events;
        let listed: Vec<u128> = listed.iter().map(|record| record.seq.0).collect();
        assert_eq!(listed, [5_000_000, 70_000, 3]);
    }
    let replay = by_hand::replay_all();
    let job = db.store.begin(replay).await.expect("begun");
    let mut touched = 0;
    for _ in 0..10 {
        touched = db
            .store
            .step(job.id.clone(), 100)
            .await
            .expect("a step")
            .job
            .touched;
    }
    assert_eq!(touched, 3);
}
