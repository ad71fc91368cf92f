//! Pages of a long history.

use std::time::{Duration, Instant};

use postrider_core::{Console, Filter, List};

use crate::support::Db;

/// The parked rows of the time of a page are looked at together with the history beside them, and not all before it.
#[tokio::test]
async fn a_page_ends_in_time_and_comes_on_where_rows_are_parked_all_over_the_history() {
    let db = Db::new().await;
    db.sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
         INSERT INTO outbox_parked (seq, destination, lane, order_key, event_id, version, dead, next_attempt_at,
                attempts, failures, maybe_sent, updated_at, event_type, aggregate_type, aggregate_id, payload,
                enqueued_at)
         SELECT i, 'd', 0, 'k' || i, 'e' || i, 1, 0, 0, 0, 0, 0, 0, 'T', 'A', i, '{}', 0 FROM n WHERE i % 2 = 0;
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
         INSERT INTO outbox_sent (seq, event_id, destination, event_type, aggregate_type, aggregate_id, payload,
                outcome, published_at)
         SELECT i, 'e' || i, 'd', 'T', 'A', i, '{}', 'published', i FROM n WHERE i % 2 = 1;",
    );
    for newest_first in [true, false] {
        let (mut from, mut pages) = (None, 0);
        loop {
            let list = List {
                from,
                newest_first,
                ..List::first(
                    10,
                    Filter {
                        destination: Some("nobody".into()),
                        ..Filter::default()
                    },
                )
            };
            let began = Instant::now();
            let listing = db.store.list(list).await.expect("a page");
            assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
            assert!(listing.events.is_empty());
            from = listing.next;
            pages += 1;
            if from.is_none() {
                break;
            }
        }
        assert!(pages < 200, "{pages}");
    }
}
