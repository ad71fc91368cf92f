//! How statements find their rows, with tables of a size at which it matters.

use super::Pg;
use crate::suite::Bench;
use crate::suite::stage::{accept, board, followed, person, workflows};

/// Rows of other people, events in all three places, and fresh statistics.
const MANY: &str = "
    INSERT INTO notification (event_id, event_type, audience, workflow, user_id, category, resource_id, title, body,
            metadata)
        SELECT 'x' || n, 'T', 'CUSTOMER', 'w', 'user' || n % 500, 'social', 'T:' || n, 't', 'b', '{}'
        FROM generate_series(1, 20000) n;
    INSERT INTO notification_delivery (notification_id, channel, event_id, address)
        SELECT id, c, CASE c WHEN 'email' THEN 'notification-' || id || '-email' END, ''
        FROM notification, unnest('{in_app,email}'::text[]) c;
    INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id)
        SELECT event_id, 'notification.email', 'NOTIFICATION', notification_id FROM notification_delivery
        WHERE channel = 'email' AND notification_id % 3 = 0;
    INSERT INTO outbox_sent (seq, event_id, event_type, aggregate_type, aggregate_id, outcome, published_at)
        SELECT 1000000 + notification_id, event_id, 'notification.email', 'NOTIFICATION', notification_id, 'published',
            now()
        FROM notification_delivery WHERE channel = 'email' AND notification_id % 3 = 1;
    INSERT INTO outbox_parked (seq, destination, shard, lane, order_key, line, event_id, event_type, aggregate_type,
            aggregate_id, version, dead, next_attempt_at, attempts, failures, maybe_sent, updated_at)
        SELECT 2000000 + notification_id, 'email', 0, 0, event_id, md5(event_id)::uuid, event_id, 'notification.email',
            'NOTIFICATION', notification_id, 1, false, now(), 1, 1, false, now()
        FROM notification_delivery WHERE channel = 'email' AND notification_id % 3 = 2;
    ANALYZE";

/// Reads of all tables from end to end since the last reset, in rows.
const SCANNED: &str = "SELECT coalesce(sum(seq_tup_read), 0)::bigint FROM pg_stat_user_tables
    WHERE relname LIKE 'notification%' OR relname LIKE 'outbox%'";

/// Whatever is asked of one person or one notification reads no table from end to end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_is_asked_of_one_reads_everything() {
    let pg = Pg::fresh().await;
    board(&pg).await;
    pg.run(MANY).await;
    let board = pg.open(workflows()).await;
    let scanned = async || {
        pg.run("SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()")
            .await;
        pg.number(SCANNED).await
    };
    board.put(&person("ann")).await.expect("put");
    let before = scanned().await;
    let one = accept(&board, followed("e1", "ann", "bob"))
        .await
        .one
        .expect("stored");
    accept(&board, followed("e2", "ann", "bob")).await;
    board.list("user7", None, 20, false).await.expect("listed");
    board.recent("user7", 60_000).await.expect("listed");
    assert_eq!(board.unread("user7").await.expect("counted"), 40);
    board
        .notification(one.entry.id)
        .await
        .expect("found")
        .expect("there");
    // Queued, published and parked.
    for event in ["x777", "x778", "x779"] {
        let event = board.of_event(event, 10).await.expect("listed");
        assert_eq!(event[0].deliveries.len(), 2);
    }
    board
        .of_resource("user7", "social", "T:7")
        .await
        .expect("found")
        .expect("there");
    assert_eq!(board.step().await.expect("a step"), None);
    assert!(!board.digest().await.expect("none is due"));
    // Each backend tells what it did when it ends.
    drop(board);
    let ended = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    postrider_testkit::wait::until("the connections to end", || pg.sql(ended) == "0").await;
    let after = scanned().await;
    let read = after - before;
    // The small ones: one recipient, no fan-out, no digest.
    assert!(read < 1_000, "{read} rows were read by reading whole tables");
    pg.sql("SELECT count(*) FROM notification WHERE title = 'nowhere'");
    assert!(
        scanned().await - after >= 20_000,
        "and it would have been noticed"
    );
}
