//! A database that was changed by hand under the relay's feet.

use std::sync::Arc;

use postrider_core::{
    ErrorKind, Failure, Heartbeat, Leaves, Park, RelayId, Schema, Seq, Settle, SettleQueued, Settled, Shard,
    Store,
};
use postrider_sqlite::{SqliteOptions, SqliteStore};

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
    assert_eq!(store.settle(park("second")).await.unwrap(), [Settled::Gone]);
    let queued: i64 = db
        .query_row(
            "SELECT count(*) FROM outbox WHERE event_id = 'second'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(queued, 1, "the event is still where it can be seen");
}
