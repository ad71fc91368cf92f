//! Pages of tables that are longer than a look.

use std::collections::BTreeSet;

use postrider_core::{Console, Schema, Status};
use postrider_testkit::servers::{Postgres, TestDatabase};

use tokio_postgres::types::ToSql;

use super::super::meant::Meant;
use super::super::past::{is_searched, searched};
use super::super::record::SENT;
use super::super::walk::WORDED;
use super::*;
use crate::{PgOptions, PgStore};

mod ties;

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

    /// How a statement would be answered to somebody who lists events.
    async fn plan(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> String {
        let explain = |view: View| async move {
            let sql = view.sql(&format!("EXPLAIN {sql}"));
            let lines = view.client().query(&sql, values).await?;
            let lines: Vec<String> = lines.iter().map(|line| line.get(0)).collect();
            Ok(lines.join("\n"))
        };
        self.store.still("a plan", explain).await.expect("a plan")
    }

    /// Rows of the history, of the places, keys and types that a statement answers, and of this many days ago.
    fn publish(&self, rows: &str, days: u32) {
        self.sql(&format!(
            "INSERT INTO outbox_sent (seq, destination, event_id, event_type, aggregate_type, aggregate_id, enqueued_at,
                 outcome, published_at)
             SELECT seq, 'd', 'e' || seq, type, 'A', key, now(), 'published', now() - {days} * interval '1 day'
             FROM ({rows}) r (seq, key, type)"
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

/// What the planner knows of the history: nothing, too little, all but which stretches hold what, all.
const STATISTICS: [&str; 4] = [
    "SELECT 1",
    "INSERT INTO outbox_sent (seq, event_id, event_type, aggregate_type, aggregate_id, outcome, published_at)
     SELECT n, 'e' || n, 'T', 'A', n::text, 'published', now() - n % 2 * interval '1 day'
     FROM generate_series(1, 20000) n",
    "ANALYZE outbox_sent",
    "VACUUM outbox_sent",
];

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

/// Common before 60,000 and never since, a key of few and a type of one, in a history with a gap, of two days. Looks
/// that leap too far are made again, and each row comes once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_searched_for_in_leaps_comes_whole_and_in_order() {
    let outbox = Outbox::new().await;
    let rows = "SELECT n, CASE WHEN n % 20000 = 5 THEN 'few' WHEN n % 3 = 0 AND n < 60000 THEN 'many' ELSE 'k' || n END,
                    CASE n WHEN 70001 THEN 'One' ELSE 'T' END";
    outbox.publish(&format!("{rows} FROM generate_series(1, 80000) n"), 1);
    outbox.publish(&format!("{rows} FROM generate_series(140000, 190000) n"), 0);
    outbox.sql("VACUUM outbox_sent");
    outbox.sql("SELECT setval('outbox_seq', 300000)");
    let key = |key: &str| Filter {
        key: vec![key.to_owned()],
        ..Filter::default()
    };
    let either = Filter {
        key: vec!["A/few".to_owned(), "A/nobody".to_owned(), "A/k70001".to_owned()],
        event_type: vec!["T".to_owned(), "One".to_owned()],
        ..Filter::default()
    };
    let of_type = Filter {
        event_type: vec!["One".to_owned()],
        ..Filter::default()
    };
    let few: Vec<u128> = vec![5, 20_005, 40_005, 60_005, 140_005, 160_005, 180_005];
    for (filter, wanted) in [
        (key("A/few"), few.as_slice()),
        (of_type, &[70_001]),
        (
            either,
            &[5, 20_005, 40_005, 60_005, 70_001, 140_005, 160_005, 180_005],
        ),
        (key("A/nobody"), &[]),
    ] {
        for newest_first in [false, true] {
            let mut wanted = wanted.to_vec();
            if newest_first {
                wanted.reverse();
            }
            for patience in [PATIENCE, Duration::ZERO] {
                let (places, pages) = outbox.places(filter.clone(), newest_first, patience).await;
                assert_eq!(places, wanted, "{filter:?} within {patience:?}");
                assert_eq!(pages, 1, "{filter:?} is rare enough for one page");
            }
        }
    }
    let list = List {
        newest_first: true,
        ..List::first(50, key("A/many"))
    };
    let many = outbox.store.list(list).await.expect("a page").events;
    let places: Vec<u128> = many.iter().map(|record| record.seq.0).collect();
    let wanted: Vec<u128> = (0..60_000)
        .rev()
        .filter(|n| n % 3 == 0 && n % 20_000 != 5)
        .take(50)
        .collect();
    assert_eq!(places, wanted);
}

/// The outermost pages of the history do not have its outermost places: the first was settled last, and the last first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_that_is_out_of_order_is_listed_by_place() {
    let outbox = Outbox::new().await;
    outbox.publish("SELECT 90000, 'k', 'T'", 1);
    outbox.publish("SELECT n, 'k' || n, 'T' FROM generate_series(100, 3000) n", 1);
    outbox.publish("SELECT n, 'k' || n, 'T' FROM generate_series(3001, 6000) n", 0);
    outbox.publish("SELECT 5, 'k', 'T'", 0);
    let of_key = Filter {
        key: vec!["A/k".to_owned()],
        ..Filter::default()
    };
    for (newest_first, ends) in [(true, [90_000, 6_000, 5]), (false, [5, 100, 90_000])] {
        let list = List {
            newest_first,
            ..List::first(2, Filter::default())
        };
        let page = outbox.store.list(list).await.expect("a page").events;
        let first: Vec<u128> = page.iter().map(|record| record.seq.0).collect();
        assert_eq!(first, ends[..2]);
        let (places, _) = outbox.places(of_key.clone(), newest_first, PATIENCE).await;
        assert_eq!(places, [ends[0], ends[2]]);
    }
}

/// Whatever the planner knows of the days, only the index of keys and types has what is asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_is_led_by_its_index() {
    let outbox = Outbox::new().await;
    let some = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
    let filters = [
        Filter {
            key: some(&["A/7"]),
            ..Filter::default()
        },
        Filter {
            event_type: some(&["T", "U"]),
            ..Filter::default()
        },
        Filter {
            key: some(&["A/7", "8"]),
            event_type: some(&["T", "U"]),
            status: vec![Status::Published],
            ..Filter::default()
        },
    ];
    for step in STATISTICS {
        outbox.sql(step);
        for filter in filters.clone() {
            let meant = Meant::of(&filter, Table::Sent, 0, 3).expect("something is meant");
            let mut values: Vec<&(dyn ToSql + Sync)> = vec![&10_000_i64, &51_i64];
            values.extend(meant.values.iter().map(|value| value as &(dyn ToSql + Sync)));
            let plan = outbox.plan(&searched(15_000, &meant), &values).await;
            let of = |word: &str| {
                plan.lines()
                    .filter(|line| line.contains(word))
                    .collect::<Vec<_>>()
            };
            let days = of("Bitmap Heap Scan on outbox_sent_2").len();
            assert!(days >= 9 && of("Seq Scan").is_empty(), "after {step}:\n{plan}");
            let led = of("Bitmap Index Scan on");
            assert!(
                led.iter().all(|line| line.contains("_search")),
                "after {step}:\n{plan}"
            );
            let conditions = of("Index Cond");
            let bounded = |line: &&str| line.contains("(seq + 0) <= ");
            assert!(conditions.iter().all(bounded), "after {step}:\n{plan}");
            for (column, is_asked) in [
                ("COALESCE(event_key", !filter.key.is_empty()),
                ("event_type = ", filter.key.is_empty()),
            ] {
                let has = |line: &&str| line.contains(column) || !is_asked;
                assert!(conditions.iter().all(has), "{column}, after {step}:\n{plan}");
            }
        }
    }
}

/// A database of the version before, whose days hold rows and have no index yet: they are walked. Once the last of them
/// has gone with its term every day has one, although nobody has built any.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn days_without_the_index_are_walked_until_they_are_gone() {
    let database = Postgres::shared().database();
    let store = PgStore::lazy(&database.url, PgOptions::default().shards(4)).expect("a url");
    let outbox = Outbox { store, database };
    for step in &outbox.store.migrations()[..3] {
        outbox.sql(&step.up);
    }
    outbox.publish("SELECT n, 'k' || n % 100, 'T' FROM generate_series(1, 9000) n", 0);
    outbox.sql("SELECT setval('outbox_seq', 9000)");
    outbox.store.up().await.expect("the tables are changed");
    let asked = async || {
        outbox
            .store
            .still("a look", |view| async move { is_searched(&view).await })
            .await
    };
    assert!(!asked().await.expect("an answer"));
    let key = Filter {
        key: vec!["A/k7".to_owned()],
        ..Filter::default()
    };
    let (places, _) = outbox.places(key, true, PATIENCE).await;
    assert_eq!(places.len(), 90);
    let day = "DO $$ BEGIN EXECUTE 'DROP TABLE outbox_sent_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD'); END $$";
    outbox.sql(day);
    assert!(asked().await.expect("an answer"));
}

/// A page of events is put together by their ids. To look for their places as well is to go through the index of places
/// once for each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_is_put_together_by_ids_alone() {
    let outbox = Outbox::new().await;
    let seqs: Vec<i64> = (1..51).collect();
    let ids: Vec<String> = seqs.iter().map(|seq| format!("e{seq}")).collect();
    for step in STATISTICS {
        outbox.sql(step);
        let plan = outbox.plan(SENT, &[&seqs, &ids]).await;
        assert!(plan.contains("event_id = ANY"), "after {step}:\n{plan}");
        for other in ["seq_idx", "_search", "Seq Scan"] {
            assert!(!plan.contains(other), "after {step}:\n{plan}");
        }
    }
}
