//! A pool gives any connection: the event would not share the fate of the business row.

use postrider_core::Event;
use postrider_sqlite::Outbox;

async fn enqueue(mut pool: sqlx::SqlitePool, event: Event) {
    Outbox::default().enqueue_sqlx(&mut pool, &event).await.unwrap();
}

fn main() {}
