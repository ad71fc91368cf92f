//! How long reads take, whatever is parked. The plans themselves are pinned in the crate's own tests.

use std::time::{Duration, Instant};

use postrider_core::{Blocked, Console, Filter, List, ParkedRange, Range, Read, Seq, Status, Store};
use rusqlite::Connection;

use crate::support::{Db, everything};

fn fill(connection: &Connection, keys: usize) {
    connection
        .execute_batch(&format!(
            "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload)
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {keys})
             SELECT 'q' || i, 'T', 'A', i, '{{}}' FROM n;
             INSERT INTO outbox_sent (seq, event_id, destination, event_type, aggregate_type, aggregate_id, outcome,
                    published_at)
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {keys})
             SELECT 5000000 + i, 's' || i, 'd', 'T', 'A', i, 'published', i FROM n;"
        ))
        .expect("filled");
    park(connection, keys, "'k' || i", "'d'", "0", "0");
}

/// Parks rows 1,000,001 and up, each value an expression over `i`.
fn park(connection: &Connection, rows: usize, key: &str, destination: &str, dead: &str, next_attempt: &str) {
    connection
        .execute_batch(&format!(
            "INSERT INTO outbox_parked (seq, destination, lane, order_key, event_id, event_type, aggregate_type,
                    aggregate_id, payload, version, dead, next_attempt_at, attempts, failures, maybe_sent, updated_at)
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
             SELECT coalesce((SELECT max(seq) FROM outbox_parked), 1000000) + i, {destination}, 0, {key}, 'p' || i, 'T',
                    'A', '1', '{{}}', 1, {dead}, {next_attempt}, 0, 0, 0, 0 FROM n"
        ))
        .expect("parked");
}

/// The fastest of several reads, so that a busy machine does not fail the test.
async fn fastest(db: &Db, read: impl Fn() -> Read) -> (Duration, postrider_core::Page) {
    let mut best = None;
    for _ in 0..10 {
        let read = read();
        let began = Instant::now();
        let page = db.store.read(read).await.expect("a page");
        let took = began.elapsed();
        if best.as_ref().is_none_or(|(known, _)| took < *known) {
            best = Some((took, page));
        }
    }
    best.expect("at least one read")
}

/// Whether a read costs about as much as one of an outbox where next to nothing is parked. Only a ratio means
/// anything on a busy machine; a walk over 100,000 rows is far outside of it.
fn about_as_fast(took: Duration, small: Duration) -> bool {
    took < small * 8 + Duration::from_millis(3)
}

#[tokio::test]
async fn a_key_with_a_hundred_thousand_followers_costs_as_much_as_one() {
    let db = Db::new().await;
    let connection = db.connect();
    park(&connection, 1, "'hot'", "'d'", "0", "0");
    park(&connection, 3, "'cold' || i", "'d'", "0", "0");
    let (small, _) = fastest(&db, everything).await;
    park(&connection, 100_000, "'hot'", "'d'", "0", "0");
    connection
        .execute(
            "INSERT INTO outbox (event_type, aggregate_type, aggregate_id, event_key) VALUES ('T', 'A', '1', 'hot')",
            [],
        )
        .expect("queued");
    let (took, page) = fastest(&db, everything).await;
    assert_eq!(page.parked.len(), 4, "one head a key");
    assert_eq!(page.queued[0].blocked, Blocked::At(vec!["d".into()]));
    assert!(about_as_fast(took, small), "{took:?}, {small:?}");
}

#[tokio::test]
async fn dead_keys_and_closed_destinations_are_not_walked() {
    let db = Db::new().await;
    let connection = db.connect();
    let read = || Read {
        parked: ParkedRange {
            not_for: vec!["closed".into()],
            ..everything().parked
        },
        ..everything()
    };
    park(&connection, 1, "'live'", "'e'", "0", "0");
    let (small, _) = fastest(&db, read).await;
    park(&connection, 50_000, "'dead' || i", "'d'", "1", "0");
    park(&connection, 50_000, "'down' || i", "'closed'", "0", "0");
    let (took, page) = fastest(&db, read).await;
    assert_eq!(page.parked.len(), 1);
    assert_eq!(page.next_due_in, None);
    assert!(about_as_fast(took, small), "{took:?}, {small:?}");
}

#[tokio::test]
async fn a_walk_over_many_waiting_keys_is_bounded_and_goes_on() {
    let db = Db::new().await;
    let connection = db.connect();
    park(&connection, 2_500, "'later' || i", "'d'", "0", "9000000000000000");
    let (one_round, _) = fastest(&db, everything).await;
    park(
        &connection,
        20_000,
        "'much later' || i",
        "'d'",
        "0",
        "9000000000000000",
    );
    park(&connection, 1, "'now'", "'z'", "0", "0");
    let mut reads = 0;
    loop {
        let page = db.store.read(everything()).await.expect("a page");
        reads += 1;
        if !page.parked.is_empty() {
            break;
        }
        let again = page.next_due_in.expect("there is more to look at");
        assert!(again <= Duration::from_millis(20), "{again:?}");
        assert!(reads < 20, "the walk comes around");
    }
    assert!(reads > 1, "one read does not walk over everything");
    let (took, _) = fastest(&db, everything).await;
    assert!(about_as_fast(took, one_round), "{took:?}, {one_round:?}");
}

#[tokio::test]
async fn a_hundred_thousand_scheduled_rows_cost_as_much_as_three() {
    let db = Db::new().await;
    let connection = db.connect();
    let alone = "char(31) || 'alone' || char(31) || hex(randomblob(8))";
    park(&connection, 3, alone, "'d'", "0", "9000000000000000");
    let (small, _) = fastest(&db, everything).await;
    park(&connection, 100_000, alone, "'d'", "0", "9000000000000000");
    park(&connection, 2, alone, "'d'", "0", "0");
    let (took, page) = fastest(&db, everything).await;
    assert_eq!(page.parked.len(), 2, "those whose time has come");
    assert!(page.parked_to_end, "nothing was left for the next read");
    assert!(about_as_fast(took, small), "{took:?}, {small:?}");
}

#[tokio::test]
async fn rows_in_memory_are_passed_over() {
    let db = Db::new().await;
    fill(&db.connect(), 20_000);
    let read = Read {
        ranges: vec![Range {
            skip: (1..=19_990).map(Seq).collect(),
            limit: 100,
            ..everything().ranges[1].clone()
        }],
        max_bytes: usize::MAX,
        ..Read::default()
    };
    let page = db.store.read(read).await.expect("a page");
    assert_eq!(page.queued.len(), 10);
    assert_eq!(page.queued[0].seq, Seq(19_991));
    assert_eq!(page.read_to, [Seq::MAX]);
}

#[tokio::test]
async fn a_lookup_by_id_does_not_walk_the_history() {
    let db = Db::new().await;
    fill(&db.connect(), 50_000);
    let look = async |filter: Filter| {
        let mut list = List::first(10, filter);
        let began = Instant::now();
        loop {
            let listing = db.store.list(list.clone()).await.expect("a listing");
            if let Some(found) = listing.events.first() {
                assert_eq!(found.status(), Status::Published);
                return began.elapsed();
            }
            list.from = Some(listing.next.expect("there is more to look at"));
        }
    };
    let by_id = Filter {
        event_id: vec!["s49999".into()],
        ..Filter::default()
    };
    let by_key = Filter {
        key: vec!["A/49999".to_owned()],
        status: vec![Status::Published],
        ..Filter::default()
    };
    // The second has no index and walks.
    let (probe, walk) = (look(by_id).await, look(by_key).await);
    assert!(probe < walk, "{probe:?}, {walk:?}");
}
