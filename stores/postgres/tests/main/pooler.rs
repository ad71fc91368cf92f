//! PgBouncer in transaction mode: every transaction is on another session of the server.

use postrider_core::{Console, Schema};
use postrider_postgres::PgStore;
use postrider_testkit::servers::{PgBouncer, Postgres};

use crate::support::{Running, connect, few_shards};

/// Relays through a pooler while an application works on the same pool, and looks at what was left on its sessions.
async fn relays_behind_a_pooler(direct: bool) {
    let server = tokio::task::spawn_blocking(|| Postgres::start().expect("a server"))
        .await
        .expect("started");
    let bouncer = PgBouncer::start(&server, 3).expect("a pooler");
    let name = server.database().name;
    let options = match direct {
        true => few_shards().listen_url(server.url(&name)),
        false => few_shards().poll_only(true),
    };
    let store = PgStore::connect(&bouncer.url(&name), options)
        .await
        .expect("connected");
    store.up().await.expect("the tables are made");
    let running = Running::start(store.clone());
    let service = connect(&bouncer.url(&name)).await;
    for n in 0..200 {
        let sql = format!(
            "INSERT INTO public.outbox (event_id, event_type, aggregate_type, aggregate_id, payload)
             VALUES ('e{n}', 'T', 'A', '{}', '{{}}')",
            n % 7
        );
        service
            .batch_execute(&sql)
            .await
            .expect("the service is not disturbed");
    }
    running.arrived(200).await;
    store.stats().await.expect("stats");
    running.stop().await;
    assert_eq!(store.stats().await.expect("stats").queued, 0);
    // Settings of the relay on a session of the pool would be those of the service.
    for _ in 0..6 {
        let found = service
            .simple_query("SHOW enable_seqscan")
            .await
            .expect("an answer");
        assert!(format!("{found:?}").contains("on"), "{found:?}");
        let found = service.simple_query("SHOW search_path").await.expect("an answer");
        assert!(!format!("{found:?}").contains("pg_catalog"), "{found:?}");
    }
}

/// Faults A20 and A22.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_only_polls_works_behind_a_pooler() {
    relays_behind_a_pooler(false).await;
}

/// Faults A20 and A22.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_with_a_direct_way_beside_the_pooler_is_rung() {
    relays_behind_a_pooler(true).await;
}
