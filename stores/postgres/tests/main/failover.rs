//! A failover to a standby that had not received everything.

use std::collections::BTreeMap;

use postrider_core::{Schema, header};
use postrider_postgres::{Outbox, PgStore};
use postrider_testkit::ledger::{Arrived, Committed, Ledger};
use postrider_testkit::proxy::Proxy;
use postrider_testkit::servers::Postgres;

use crate::log;
use crate::support::{Running, connect, event, few_shards, until};

const KEYS: usize = 8;
/// More than a sequence is ahead of itself in the log, so that its places are given out twice.
const LOST: usize = 200;

/// Two servers, and the one address that leads to the primary of them.
struct Pair {
    primary: Postgres,
    standby: Postgres,
    address: Proxy,
    database: String,
}

impl Pair {
    async fn start() -> Pair {
        let (primary, standby) = tokio::task::spawn_blocking(|| {
            let primary = Postgres::start().expect("a server");
            let standby = primary.standby().expect("a standby");
            (primary, standby)
        })
        .await
        .expect("started");
        let address = Proxy::start(primary.port().expect("a port"))
            .await
            .expect("a proxy");
        let database = primary.database().name;
        Pair {
            primary,
            standby,
            address,
            database,
        }
    }

    fn url(&self) -> String {
        format!(
            "postgres://postgres@127.0.0.1:{}/{}",
            self.address.port(),
            self.database
        )
    }

    async fn enqueue(&self, prefix: &str, count: usize) {
        let mut client = connect(&self.url()).await;
        for n in 0..count {
            let tx = client.transaction().await.expect("a transaction");
            let event = event(&format!("{prefix}-{n}"), &format!("k{}", n % KEYS));
            Outbox::default().enqueue(&tx, &event).await.expect("enqueued");
            tx.commit().await.expect("committed");
        }
    }

    /// Waits until the standby has everything, or from now on nothing new.
    async fn replicated(&self) {
        let written = self.primary.sql("postgres", "SELECT pg_current_wal_lsn()");
        let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
        until("the copy", || self.standby.sql("postgres", &replayed) == "t").await;
    }

    async fn part(&self) {
        self.standby
            .sql("postgres", "ALTER SYSTEM SET primary_conninfo = ''");
        self.standby.sql("postgres", "SELECT pg_reload_conf()");
        let receiving = "SELECT count(*) FROM pg_stat_wal_receiver";
        until("the end of the copy", || {
            self.standby.sql("postgres", receiving) == "0"
        })
        .await;
    }

    fn fail_over(&self) {
        self.primary.kill9().expect("killed");
        assert_eq!(self.standby.sql("postgres", "SELECT pg_promote()"), "t");
        self.address.lead_to(self.standby.port().expect("a port"));
    }

    fn number(&self, server: &Postgres, sql: &str) -> usize {
        server.sql(&self.database, sql).parse().expect("a number")
    }
}

/// Faults A10 and A12. The primary dies with commits that no other server has. What of them was published stays
/// published, and is unknown to the new primary; what was settled there only is published again under the same id;
/// places that are given out a second time are read; every key stays in order; and the log says what happened, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_that_forgets_commits_loses_nothing_that_it_kept() {
    log::keep();
    let pair = Pair::start().await;
    let store = PgStore::lazy(&pair.url(), few_shards()).expect("a url");
    store.up().await.expect("the tables are made");
    // Two relays of one process: each has leases of its own to doubt.
    let running = Running::start(store.clone());
    let beside = Running::start_into(running.sink.clone(), store);
    let owners = "SELECT count(DISTINCT owner) FROM outbox_shard";
    until("two owners", || pair.number(&pair.primary, owners) == 2).await;
    pair.enqueue("kept", 40).await;
    running.arrived(40).await;
    // Committed on both, and published and settled while only one of them listens.
    running.sink.set_reachable(false);
    pair.enqueue("again", 24).await;
    pair.replicated().await;
    pair.part().await;
    running.sink.set_reachable(true);
    pair.enqueue("lost", LOST).await;
    running.arrived(40 + 24 + LOST).await;
    let last = "SELECT max(seq) FROM outbox_sent";
    until("the settles", || {
        pair.number(&pair.primary, "SELECT count(*) FROM outbox") == 0
    })
    .await;
    let last_lost = pair.number(&pair.primary, last);

    pair.fail_over();
    pair.enqueue("new", 40).await;
    let still = "SELECT coalesce(min(seq), 0) FROM outbox_events WHERE event_id LIKE 'new-%'";
    let first_new = pair.number(&pair.standby, still);
    assert!(
        first_new < last_lost,
        "places are given out twice: {first_new}, {last_lost}"
    );
    running.arrived(40 + 24 + LOST + 24 + 40).await;
    until("an empty outbox", || {
        pair.number(&pair.standby, "SELECT count(*) FROM outbox") == 0
    })
    .await;
    assert_eq!(
        pair.number(&pair.standby, "SELECT count(*) FROM outbox_parked"),
        0
    );
    let messages = running.sink.messages();
    running.stop().await;
    beside.stop().await;

    let mut copies: BTreeMap<&str, usize> = BTreeMap::new();
    for message in &messages {
        let id = message.event_id.as_str();
        *copies.entry(id.split('-').next().expect("a prefix")).or_default() += 1;
        if id.starts_with("again-") && message.header(header::MAYBE_DUPLICATE).is_some() {
            *copies.entry("again, marked").or_default() += 1;
        }
    }
    assert_eq!(
        (copies["kept"], copies["again"], copies["lost"], copies["new"]),
        (40, 48, LOST, 40)
    );
    assert_eq!(copies["again, marked"], 24, "repeats are marked");
    in_order(&messages);
    let said = log::lines(&["WARN", "replaced, by a failover"]);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("timeline_before=\"00000001\""), "{said:?}");
}

/// Of what either primary has committed, every first arrival is in the order of its key.
fn in_order(messages: &[postrider_core::Message]) {
    let mut ledger = Ledger::new();
    let mut places: BTreeMap<usize, u64> = BTreeMap::new();
    for (prefix, count) in [("kept", 40), ("again", 24), ("lost", LOST), ("new", 40)] {
        for n in 0..count {
            let place = places.entry(n % KEYS).or_default();
            *place += 1;
            let committed = Committed::new(format!("{prefix}-{n}"), format!("k{}", n % KEYS), *place);
            ledger.commit(&committed).expect("once");
        }
    }
    for message in messages {
        let id = message.event_id.as_str();
        let n: usize = id.split('-').nth(1).expect("a number").parse().expect("a number");
        ledger.arrive(&Arrived::new(id, format!("k{}", n % KEYS), "memory"));
    }
    let report = ledger.report();
    assert_eq!(
        (report.lost, report.phantom, report.reordered),
        (0, 0, 0),
        "{report:?}"
    );
}
