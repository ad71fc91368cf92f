//! A database that was changed by hand under the relay's feet.

use std::sync::Arc;

use postrider_core::{
    ErrorKind, Failure, Heartbeat, Leaves, Park, Receipt, RelayId, Schema, Seq, Settle, SettleQueued,
    Settled, Shard, Store, Then,
};
use postrider_sqlite::{SqliteOptions, SqliteStore};

use crate::support::{Db, again, event, parks, sent};

/// Fault A25.
///
/// `DELETE FROM sqlite_sequence` gives places out again; an event must not vanish because another is parked at its own.
#[tokio::test]
async fn a_row_whose_place_is_taken_stays_queued() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("reset.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    store.up().await.unwrap();
    let db = rusqlite::Connection::open(&path).unwrap();
    let insert =
        "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id) VALUES (?1, 'T', 'A', '1')";
    db.execute(insert, ["first"]).unwrap();
    let beat = Heartbeat {
        relay: RelayId("r".into()),
        term: std::time::Duration::from_secs(30),
        held: vec![],
        release: vec![],
        claim: true,
        window: 1,
        suspects: vec![],
    };
    let token = store.heartbeat(beat).await.unwrap().leases[0].token;
    let park = |id: &str| {
        Arc::new(Settle {
            fence: vec![(Shard(0), token)],
            queued: vec![SettleQueued {
                shard: Shard(0),
                seq: Seq(1),
                event_id: id.into(),
                key: "A\u{1f}1".into(),
                leaves: Leaves::Decided {
                    sent: vec![],
                    parked: vec![Park::dead(None, Failure::new(ErrorKind::NoRoute, "nowhere"))],
                },
            }],
            parked: vec![],
        })
    };
    assert_eq!(store.settle(park("first")).await.unwrap(), [Settled::Done]);
    db.execute("DELETE FROM sqlite_sequence WHERE name = 'outbox'", [])
        .unwrap();
    db.execute(insert, ["second"]).unwrap();
    assert_eq!(store.settle(park("second")).await.unwrap(), [Settled::Kept]);
    let queued: i64 = db
        .query_row(
            "SELECT count(*) FROM outbox WHERE event_id = 'second'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(queued, 1, "the event is still where it can be seen");
}

/// Fault A25. The same when a parked row is routed anew: it stays, dead and with the reason, where a person sees it.
#[tokio::test]
async fn a_row_that_is_routed_to_a_place_that_is_taken_stays() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    db.enqueue(&[event("first", "k")]);
    let rows = relay.queued().await;
    let nowhere = Park::dead(None, Failure::new(ErrorKind::NoRoute, "nowhere"));
    relay.settle(vec![parks(&rows[0], vec![nowhere])], vec![]).await;
    db.sql("DELETE FROM sqlite_sequence WHERE name = 'outbox'");
    db.enqueue(&[event("second", "l")]);
    let rows = relay.queued().await;
    let waits = || Park::waiting("d".into(), false);
    assert_eq!(
        relay.settle(vec![parks(&rows[0], vec![waits()])], vec![]).await,
        [Settled::Done],
        "another destination is another place"
    );
    let redrive = "UPDATE outbox_parked SET dead = 0 WHERE event_id = 'first'";
    db.sql(redrive);
    let page = relay.page().await;
    let due = page.parked.iter().find(|row| row.destination.is_none());
    let split = Then::Split(vec![waits(), Park::waiting("e".into(), false)]);
    let entry = again(due.expect("it is due"), split);
    assert_eq!(relay.settle(vec![], vec![entry]).await, [Settled::Done]);
    let rows = "SELECT group_concat(event_id || ' ' || destination || ' ' || dead || ' ' ||
         coalesce(error_kind, '-'), ', ')
         FROM (SELECT * FROM outbox_parked ORDER BY event_id)";
    assert_eq!(
        db.text(rows).as_deref(),
        Some("first  1 place_taken, second d 0 -")
    );
    // The other one leaves: now it goes.
    let other = relay.page().await.parked.remove(0);
    let leaves = again(&other, Then::Sent(Receipt::default()));
    relay.settle(vec![], vec![leaves]).await;
    db.sql(redrive);
    let due = relay.page().await.parked.remove(0);
    let entry = again(&due, Then::Split(vec![waits()]));
    assert_eq!(relay.settle(vec![], vec![entry]).await, [Settled::Done]);
    assert_eq!(db.text(rows).as_deref(), Some("first d 0 -"));
}

/// Fault A25. A trigger that keeps rows from being deleted: what was published must not be read and published again.
#[tokio::test]
async fn a_row_that_a_trigger_keeps_is_not_said_to_be_gone() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    db.enqueue(&[event("a", "k")]);
    let rows = relay.queued().await;
    db.sql("CREATE TRIGGER keep BEFORE DELETE ON outbox BEGIN SELECT RAISE(IGNORE); END");
    let settle = Arc::new(Settle {
        fence: relay.fence.clone(),
        queued: vec![sent(&rows[0], "d")],
        parked: vec![],
    });
    let error = relay.store.settle(settle.clone()).await.expect_err("refused");
    assert!(error.to_string().contains("trigger"), "{error}");
    assert_eq!(db.number("SELECT count(*) FROM outbox_sent"), 0);
    db.sql("DROP TRIGGER keep");
    assert_eq!(
        relay.store.settle(settle).await.expect("settled"),
        [Settled::Done]
    );
}
