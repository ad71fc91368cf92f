//! The table of an inbox is made by many at once, and changed beside those who use it.

use std::sync::Arc;

use postrider_postgres::{Inbox, PgOptions};
use tokio::sync::Barrier;

use crate::inbox::database;
use crate::support::{Db, until};

/// Listeners that start together all make the table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_may_make_the_table_at_once() {
    let db = Db::without_tables(PgOptions::default());
    let barrier = Arc::new(Barrier::new(8));
    let mut making = Vec::new();
    for _ in 0..8 {
        let (client, barrier) = (db.connect().await, Arc::clone(&barrier));
        making.push(tokio::spawn(async move {
            barrier.wait().await;
            Inbox::default().migrate(&client).await
        }));
    }
    for made in making {
        made.await.expect("no panic").expect("the table is made");
    }
}

/// Fault D19. A table that was made before an index was thought of gets it while consumers are at work, and of several
/// processes at once none stands in the way of another; what an attempt left that was cut short is made anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_before_gets_its_indexes_beside_consumers() {
    const VALID: &str = "SELECT count(*) FROM pg_index WHERE indrelid = 'inbox'::regclass AND indisvalid";
    let db = database().await;
    db.sql("INSERT INTO inbox SELECT 'billing', n::text FROM generate_series(1, 1000) n");
    db.sql("DROP INDEX inbox_consumer_time");
    for is_cut_short in [false, true] {
        if is_cut_short {
            db.sql(
                "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'inbox_consumer_time'::regclass",
            );
        }
        assert_eq!(db.number(VALID), 2);
        let mut at_work = db.connect().await;
        let open = at_work.transaction().await.expect("a transaction");
        let record = format!("INSERT INTO inbox VALUES ('billing', 'open {is_cut_short}')");
        open.batch_execute(&record).await.expect("recorded");
        let mut making = Vec::new();
        for _ in 0..3 {
            let client = db.connect().await;
            making.push(tokio::spawn(
                async move { Inbox::default().migrate(&client).await },
            ));
        }
        until("one waits for the transaction that is open", || {
            db.number("SELECT count(*) FROM pg_locks WHERE NOT granted") > 0
        })
        .await;
        let other = db.connect().await;
        let record =
            format!("SET lock_timeout = '5s'; INSERT INTO inbox VALUES ('billing', 'beside {is_cut_short}')");
        other
            .batch_execute(&record)
            .await
            .expect("nobody waits behind it");
        open.commit().await.expect("committed");
        for made in making {
            made.await.expect("no panic").expect("the indexes are made");
        }
        assert_eq!(db.number(VALID), 3);
    }
}
