//! The table of an inbox is made by many at once, and changed beside those who use it.

use std::sync::Arc;

use postrider_postgres::{Inbox, PgOptions};
use tokio::sync::Barrier;

use crate::support::Db;

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
