//! Pages of a long history.

use std::time::{Duration, Instant};

use postrider_core::{Console, Filter, List, Status};

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
            assert!(pages < 200, "it does not end");
            if from.is_none() {
                break;
            }
        }
    }
}

/// An outage parks rows without an error, and what has been refused for hours may come behind all of them. However many
/// they are, and however many are dead of the same error, one page finds it, or a few where the machine is busy: those
/// who walked over all of them would need a hundred.
#[tokio::test]
async fn what_is_refused_is_found_behind_any_number_of_rows_that_wait() {
    let db = Db::new().await;
    db.sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000)
         INSERT INTO outbox_parked (seq, destination, lane, order_key, event_id, version, dead, next_attempt_at,
                attempts, failures, maybe_sent, updated_at, event_type, aggregate_type, aggregate_id, payload,
                enqueued_at, error_kind, first_failed_at, last_failed_at)
         SELECT i, 'd', 0, 'k' || i, 'e' || i, 1, i % 3 = 0, 0, 0, i % 3 = 0, 0, 0, 'T', 'A', i, '{}', 0,
                iif(i % 3 = 0, 'rejected', NULL), iif(i % 3 = 0, 0, NULL), iif(i % 3 = 0, 0, NULL) FROM n;
         UPDATE outbox_parked SET dead = 0 WHERE seq = 75000;
         UPDATE outbox_parked SET dead = 0, failures = 3, error_kind = 'too_large', first_failed_at = 0,
                last_failed_at = 0 WHERE seq IN (149998, 149999);
         -- Redriven by a person, and tried by nobody since: it is refused all the same.
         UPDATE outbox_parked SET failures = 0 WHERE seq = 149999;",
    );
    for (newest_first, found) in [
        (false, ["e75000", "e149998", "e149999"]),
        (true, ["e149999", "e149998", "e75000"]),
    ] {
        let filter = Filter {
            status: vec![Status::Retrying],
            failing_for: Some(Duration::from_secs(60)),
            ..Filter::default()
        };
        let mut list = List {
            newest_first,
            ..List::first(10, filter)
        };
        let mut ids = Vec::new();
        for _ in 0..5 {
            let listing = db.store.list(list.clone()).await.expect("a page");
            ids.extend(listing.events.iter().map(|event| event.event_id.to_string()));
            list.from = listing.next;
            if list.from.is_none() {
                break;
            }
        }
        assert_eq!((ids, list.from), (found.map(str::to_owned).to_vec(), None));
    }
}
