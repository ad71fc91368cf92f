//! The process ends in the middle of a settle, as by a power cut.

use std::process::Command;

use postrider_core::{Park, Settled};
use postrider_sqlite::{SqliteOptions, SqliteStore};

use crate::support::{Db, Relay, event, heartbeat, parks, sent};

const PATH: &str = "POSTRIDER_TEST_CRASH_PATH";

/// Not a test by itself: what the process that is to end runs.
#[tokio::test]
async fn child() {
    let Some(path) = std::env::var_os(PATH) else {
        return;
    };
    let store = SqliteStore::open(path, SqliteOptions::default()).expect("opened");
    let relay = Relay::begin(store, "child").await;
    let rows = relay.queued().await;
    let wait = Park::waiting("d".into(), false);
    relay
        .settle(vec![sent(&rows[0], "d"), parks(&rows[1], vec![wait])], vec![])
        .await;
    unreachable!("the process ends before the settle is answered");
}

/// Fault A2.
#[tokio::test]
async fn a_settle_that_did_not_commit_has_not_happened() {
    let db = Db::new().await;
    db.enqueue(&[event("a", "k"), event("b", "k")]);
    let ended = Command::new(std::env::current_exe().expect("this binary"))
        .args(["crash::child", "--exact"])
        .env(PATH, db.path())
        .env("POSTRIDER_CRASH_AT", "settle.inside:1")
        .output()
        .expect("the child runs");
    assert!(!ended.status.success());
    assert!(
        !String::from_utf8_lossy(&ended.stdout).contains("unreachable"),
        "it ended at the crash point"
    );
    assert_eq!(db.number("SELECT count(*) FROM outbox"), 2);
    assert_eq!(db.number("SELECT count(*) FROM outbox_parked"), 0);
    assert_eq!(db.number("SELECT count(*) FROM outbox_sent"), 0);
    assert_eq!(db.number("SELECT published FROM outbox_meta"), 0);

    // The dead process still holds the lease; once it has ended, the next one takes over and is told so.
    db.sql("UPDATE outbox_relay SET expires_at = 0");
    use postrider_core::Store;
    let standing = db.store.heartbeat(heartbeat("heir")).await.expect("a heartbeat");
    let lease = standing.leases.first().expect("taken over");
    assert_eq!((lease.unclean, lease.maybe_sent), (1, 7));
    let relay = Relay {
        store: db.store.clone(),
        fence: vec![(lease.shard, lease.token)],
    };
    let rows = relay.queued().await;
    assert_eq!(
        relay
            .settle(rows.iter().map(|row| sent(row, "d")).collect(), vec![])
            .await,
        [Settled::Done; 2]
    );
}
