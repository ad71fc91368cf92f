//! Pages of tables that are longer than a look.

use std::collections::BTreeSet;

use postrider_core::{Schema, Status};
use postrider_testkit::servers::{Postgres, TestDatabase};

use super::super::walk::WORDED;
use super::*;
use crate::{PgOptions, PgStore};

struct Outbox {
    store: PgStore,
    database: TestDatabase,
}

impl Outbox {
    async fn new() -> Self {
        let database = Postgres::shared().database();
        let store = PgStore::lazy(&database.url, PgOptions::default().shards(4)).expect("a url");
        store.up().await.expect("the tables are made");
        Self { store, database }
    }

    fn sql(&self, sql: &str) {
        Postgres::shared().sql(&self.database.name, sql);
    }

    /// Parked rows, of the places, destinations and keys that a statement answers with how long it is until they are
    /// due.
    fn park(&self, rows: &str) {
        self.sql(&format!(
            "INSERT INTO outbox_parked (seq, destination, shard, lane, order_key, line, event_id, event_type,
                 aggregate_type, aggregate_id, payload, version, dead, next_attempt_at, attempts, failures, maybe_sent,
                 updated_at, enqueued_at)
             SELECT seq, destination, 0, 0, key, md5(key)::uuid, 'e' || seq, 'T', 'A', key, '{{}}', 1, false,
                 now() + due_in, 0, 0, false, now(), now()
             FROM ({rows}) r (seq, destination, key, due_in)"
        ));
    }

    /// The places of all pages, each of which comes further than the one before. `patience` is what a page has.
    async fn places(&self, filter: Filter, newest_first: bool, patience: Duration) -> (Vec<u128>, usize) {
        let mut list = List {
            newest_first,
            ..List::first(10, filter)
        };
        let (mut places, mut cursors) = (Vec::new(), BTreeSet::new());
        for pages in 1..200 {
            let asked = list.clone();
            let look = move |view: View| async move { page(&view, &asked, Budget::within(patience)).await };
            let listing = self.store.still("a page", look).await.expect("a page");
            places.extend(listing.events.iter().map(|record| record.seq.0));
            let Some(next) = listing.next else {
                return (places, pages);
            };
            assert!(cursors.insert(next.0.clone()), "the page at {} again", next.0);
            list.from = Some(next);
        }
        panic!("the listing does not end: {cursors:?}");
    }
}

fn with(status: Status) -> Filter {
    Filter {
        status: vec![status],
        ..Filter::default()
    }
}

/// A look ends at some row, be it the last of its event or not. Only one row of this event has the word that is asked
/// for, and either is the one behind the end for somebody: rows of one place are in no order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_whose_rows_a_look_cuts_apart_is_listed() {
    let first_look = WORDED / 10;
    for (held, other) in [("a", "b"), ("b", "a")] {
        let outbox = Outbox::new().await;
        // All are of keys of their own and held, but for the event at the end of the first look. The head of its key
        // is dead, which makes one of its rows wait and is itself not looked at.
        outbox.park(&format!(
            "SELECT n, 'd', 'k' || n, interval '0' FROM generate_series(2, {first_look}) n
             UNION ALL SELECT n, 'd', 'k' || n, interval '0' FROM generate_series({first_look} + 2, 1500) n
             UNION ALL SELECT {first_look} + 1, '{held}', 'cut', interval '0'
             UNION ALL SELECT {first_look} + 1, '{other}', 'cut', interval '1 hour'
             UNION ALL SELECT 1, '{other}', 'cut', interval '0'"
        ));
        outbox.sql("UPDATE outbox_parked SET dead = true WHERE seq = 1");
        let cut: Vec<u128> = vec![(first_look + 1).unsigned_abs().into()];
        for newest_first in [false, true] {
            let waiting = outbox.places(with(Status::Waiting), newest_first, PATIENCE).await;
            assert_eq!(waiting.0, cut, "waiting at {other}");
        }
        outbox.sql("DELETE FROM outbox_parked WHERE seq = 1");
        for newest_first in [false, true] {
            let scheduled = outbox
                .places(with(Status::Scheduled), newest_first, PATIENCE)
                .await;
            assert_eq!(scheduled.0, cut, "scheduled at {other}");
        }
    }
}

/// Nothing but its rows fits into the first look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_with_more_rows_than_a_look_takes_is_listed() {
    let outbox = Outbox::new().await;
    outbox.park(
        "SELECT 7, 'd' || lpad(n::text, 4, '0'), 'k', interval '0' FROM generate_series(1, 1500) n
         UNION ALL SELECT 2, 'd1500', 'k', interval '0'
         UNION ALL SELECT 8, 'd1500', 'k', interval '0'",
    );
    outbox.sql("UPDATE outbox_parked SET dead = true WHERE seq < 7");
    for newest_first in [false, true] {
        let (mut places, _) = outbox.places(with(Status::Waiting), newest_first, PATIENCE).await;
        places.sort_unstable();
        assert_eq!(places, [7, 8]);
    }
}

/// What one look at the live tables costs is all the time of these pages, or more. Each comes further all the same, and
/// nothing that was found is dropped because another table was not looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_without_time_comes_further_and_drops_nothing() {
    let outbox = Outbox::new().await;
    outbox.sql(
        "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload)
         SELECT 'e' || n, CASE n WHEN 12000 THEN 'Needle' ELSE 'T' END, 'A', n::text, '{}'
         FROM generate_series(1, 20000) n;
         DELETE FROM outbox WHERE seq IN (3, 10000, 19990);
         INSERT INTO outbox_sent (seq, destination, event_id, event_type, aggregate_type, aggregate_id, enqueued_at,
             outcome, published_at)
         SELECT n, 'd', 'e' || n, 'Needle', 'A', n::text, now(), 'published', now() FROM (VALUES (3), (19990)) v (n)",
    );
    outbox.park("SELECT 10000, 'd', 'needle', interval '0'");
    let needle = Filter {
        text: Some("needle".to_owned()),
        ..Filter::default()
    };
    for (newest_first, wanted) in [
        (false, [3, 10_000, 12_000, 19_990]),
        (true, [19_990, 12_000, 10_000, 3]),
    ] {
        let (places, pages) = outbox.places(needle.clone(), newest_first, Duration::ZERO).await;
        assert_eq!(places, wanted);
        assert!(pages > 2, "20,000 rows are not looked at in one go: {pages}");
        assert!(pages < 20, "and not one by one: {pages}");
        let (places, _) = outbox.places(needle.clone(), newest_first, PATIENCE).await;
        assert_eq!(places, wanted, "with time");
    }
}
