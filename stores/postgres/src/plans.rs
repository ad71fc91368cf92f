//! Plans of the relay's statements: the same for empty, fresh, filled and badly analysed tables.

mod anew;
mod before;
mod inbox;
mod purge;

use postrider_core::Schema;
use postrider_testkit::servers::Postgres;

use crate::connect::Role;
use crate::console::{COUNTED, GROUPS, HEADS};
use crate::ident::Tables;
use crate::session::Session;
use crate::supervise::Link;
use crate::tls::Address;
use crate::{PgOptions, PgStore, near, read, settle};
use std::sync::Arc;

const SHARDS: usize = 64;

struct Planner {
    session: Arc<Session>,
}

impl Planner {
    async fn new() -> Self {
        let database = Postgres::shared().database();
        let options = PgOptions::default();
        let store = PgStore::lazy(&database.url, options.clone()).unwrap();
        store.up().await.unwrap();
        let address = Address::parse(&database.url, &options).unwrap();
        let session = Link::new(address, Role::Relay, &options, Arc::default())
            .session("a test")
            .await
            .unwrap();
        session
            .client
            .batch_execute("SET statement_timeout = 0")
            .await
            .unwrap();
        session
            .client
            .batch_execute("UPDATE public.outbox_shard SET token = 0")
            .await
            .unwrap();
        let tables = Tables::default();
        for (name, sql) in [
            ("read", read::sql(&tables, true)),
            ("read_before", read::sql_before(&tables)),
            ("near", near::Near::new(&tables, true).sql().to_owned()),
            ("settle", settle::sql(&tables, true, false)),
            ("settle_anew", settle::sql(&tables, true, true)),
            ("purge", tables.sql(crate::upkeep::PURGE)),
        ] {
            session
                .client
                .batch_execute(&format!("PREPARE {name} AS {sql}"))
                .await
                .unwrap();
        }
        Self { session }
    }

    async fn run(&self, sql: &str) {
        self.session.client.batch_execute(sql).await.unwrap();
    }

    async fn explain(&self, execute: &str) -> String {
        self.plan(&format!("EXECUTE {execute}")).await
    }

    async fn plan(&self, statement: &str) -> String {
        let sql = format!("EXPLAIN (ANALYZE, BUFFERS OFF) {statement}");
        let messages = self.session.client.simple_query(&sql).await.unwrap();
        let lines = messages.into_iter().filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    async fn read(&self, limit: usize) -> String {
        let plan = self.ask("read", limit).await;
        let old = plan.contains("outbox_parked_live");
        assert!(!old, "the index of the version before is read:\n{plan}");
        plan
    }

    /// One of the reads, of all shards from the beginning.
    async fn ask(&self, statement: &str, limit: usize) -> String {
        let list = |text: &dyn Fn(usize) -> String| (0..SHARDS).map(text).collect::<Vec<_>>().join(",");
        let shards = list(&|shard| shard.to_string());
        let slots = list(&|shard| (shard * 4).to_string());
        let zeros = list(&|_| "0".to_owned());
        let limits = list(&|_| limit.to_string());
        let empty = list(&|_| "\"\"".to_owned());
        let lines = list(&|_| "00000000-0000-0000-0000-000000000000".to_owned());
        let lanes = list(&|_| "-2".to_owned());
        self.explain(&format!(
            "{statement}('{{{slots}}}', '{{{zeros}}}', '{{{limits}}}', '{{1,2,3}}', 100000000, '{{}}', '{{{shards}}}',
             '{{{empty}}}', '{{{lines}}}', '{{{lanes}}}', 2000, 256, '{{}}', '{{}}', '{{}}', 16, 86400)"
        ))
        .await
    }

    /// The short way, from one floor.
    async fn near(&self, floor: usize) -> String {
        let list = |text: &dyn Fn(usize) -> String| (0..SHARDS).map(text).collect::<Vec<_>>().join(",");
        let shards = list(&|shard| shard.to_string());
        self.explain(&format!(
            "near({floor}, '{{1,2,3}}', '{{{shards}}}', '{{{shards}}}', 86400)"
        ))
        .await
    }

    async fn settle(&self, count: usize) -> String {
        self.settle_by("settle", count, (5, r#"{"5:d":{"outcome":"sent"}}"#))
            .await
    }

    /// Queued rows from the first on, and a parked one with what becomes of it.
    async fn settle_by(&self, statement: &str, count: usize, (parked, entries): (u64, &str)) -> String {
        let list = |text: &dyn Fn(usize) -> String| (1..=count).map(text).collect::<Vec<_>>().join(",");
        let shards = (0..SHARDS)
            .map(|shard| shard.to_string())
            .collect::<Vec<_>>()
            .join(",");
        let tokens = (0..SHARDS).map(|_| "0").collect::<Vec<_>>().join(",");
        let (seqs, ids) = (list(&|n| n.to_string()), list(&|n| format!("id-{n}")));
        let (outcomes, names, nulls) = (
            list(&|_| "decided".to_owned()),
            list(&|_| "d".to_owned()),
            list(&|_| "NULL".to_owned()),
        );
        self.explain(&format!(
            "{statement}('{{{shards}}}', '{{{tokens}}}', '{{{seqs}}}', '{{{ids}}}', '{{{ids}}}', '{{{outcomes}}}', \
             '{{{names}}}', '{{{nulls}}}',
             '{{{nulls}}}', '{{{nulls}}}', '{{{parked}}}', '{entries}', '{{}}')"
        ))
        .await
    }

    /// Rows that wait for tomorrow, and one that is due.
    async fn schedule(&self, rows: usize) {
        self.run(&format!(
            "INSERT INTO public.outbox_parked (seq, destination, shard, lane, order_key, line, event_id, event_type,
                 aggregate_type, aggregate_id, payload, version, dead, next_attempt_at, attempts, failures, maybe_sent,
                 updated_at)
             SELECT n, 'd', n % {SHARDS}, 0, E'\\x1falone\\x1f' || n, md5(n::text)::uuid, 'id-' || n, 'T', 'ORDER',
                 n::text, '{{}}', 1, false, now() + CASE n WHEN 7 THEN -1 ELSE 1 END * interval '1 day', 0, 0, false,
                 now()
             FROM generate_series(1, {rows}) n"
        ))
        .await;
    }

    /// Rows of a destination that is down, a hundred a key.
    async fn hold(&self, rows: usize) {
        self.run(&format!(
            "INSERT INTO public.outbox_parked (seq, destination, shard, lane, order_key, line, event_id, event_type,
                 aggregate_type, aggregate_id, payload, version, dead, next_attempt_at, attempts, failures, maybe_sent,
                 updated_at)
             SELECT 1000000 + n, 'd', n % {SHARDS}, 0, 'ORDER' || E'\\x1f' || n % ({rows} / 100),
                 md5('ORDER' || E'\\x1f' || n % ({rows} / 100))::uuid, 'held-' || n, 'T', 'ORDER',
                 (n % ({rows} / 100))::text, '{{}}', 1, false, now() - interval '1 second', 0, 0, false, now()
             FROM generate_series(1, {rows}) n"
        ))
        .await;
    }

    async fn fill(&self, rows: usize) {
        self.run(&format!(
            "INSERT INTO public.outbox (event_id, event_type, aggregate_type, aggregate_id, payload)
             SELECT 'id-' || n, 'T', 'ORDER', (n % 5000)::text, '{{\"pad\":\"' || repeat('x', 220) || '\"}}'
             FROM generate_series(1, {rows}) n"
        ))
        .await;
    }
}

/// What no plan of the relay may do to a table that grows.
fn check(plan: &str) {
    for table in ["outbox o", "outbox_parked", "outbox_sent"] {
        let scanned = plan
            .lines()
            .any(|line| line.contains(&format!("Seq Scan on {table}")));
        assert!(!scanned, "{table} is scanned:\n{plan}");
    }
    // Without a condition an index is walked from end to end. Whether there is anything at all is asked without one.
    let lines: Vec<&str> = plan.lines().map(str::trim).collect();
    let named = |line: &str| {
        let alias = line
            .split_once("Scan using ")
            .and_then(|(_, rest)| rest.split_once(" on outbox_parked "));
        alias.is_some_and(|(_, alias)| !alias.starts_with([' ', 'o']))
    };
    for pair in lines.windows(2).filter(|pair| named(pair[0])) {
        assert!(
            pair[1].starts_with("Index Cond"),
            "{} has no condition:\n{plan}",
            pair[0]
        );
    }
}

/// Where many rows are parked, every index is entered by its first column: a condition on another one walks all of it.
fn check_grown(plan: &str) {
    let lines: Vec<&str> = plan.lines().map(str::trim).collect();
    for pair in lines.windows(2) {
        let Some((_, index)) = pair[0].split_once("Scan using outbox_parked_") else {
            continue;
        };
        if pair[1].starts_with("Index Cond") {
            let first = first_column(index);
            assert!(
                pair[1].contains(&format!("({first} ")) || pair[1].contains(&format!("ROW({first},")),
                "{}\n{}\nenters an index in its middle:\n{plan}",
                pair[0],
                pair[1]
            );
        }
    }
}

/// The first column of the index that a line of a plan names.
fn first_column(index: &str) -> &'static str {
    let firsts = [
        ("pkey", "seq"),
        ("line", "line"),
        ("heads", "shard"),
        ("time", "shard"),
        ("event", "event_id"),
    ];
    let found = firsts.iter().find(|(name, _)| index.starts_with(name));
    found.map_or_else(
        || panic!("no statement of the relay needs this index: {index}"),
        |(_, first)| first,
    )
}

fn check_read(plan: &str) {
    check(plan);
    assert!(
        !plan.contains("Index Scan using outbox_pkey on outbox o "),
        "a range is walked by the primary key:\n{plan}"
    );
    assert!(
        plan.lines()
            .any(|line| line.contains("Index Scan using outbox_range on outbox o")),
        "the ranges are read from their index:\n{plan}"
    );
    assert!(
        !plan.contains("Sort Key: ((o."),
        "the order of the index is enough:\n{plan}"
    );
}

fn check_near(plan: &str) {
    check(plan);
    let lines: Vec<&str> = plan.lines().map(str::trim).collect();
    let found = lines
        .iter()
        .position(|line| line.contains("Index Scan using outbox_pkey on outbox o"));
    assert!(
        found.is_some_and(|at| lines[at + 1].starts_with("Index Cond: (seq > ")),
        "the end is read from the primary key:\n{plan}"
    );
    assert!(
        !plan.contains("outbox_range"),
        "the ranges are left alone:\n{plan}"
    );
    assert!(
        !plan.contains("Sort Key: o.seq"),
        "the order of the key is enough:\n{plan}"
    );
}

fn check_settle(plan: &str) {
    check(plan);
    let condition = "Index Cond: (seq = ANY (ARRAY[x_1.place]))";
    assert!(
        plan.contains(condition),
        "rows are found by their primary key:\n{plan}"
    );
    // A scan without a condition is a scan of everything.
    let lines: Vec<&str> = plan.lines().collect();
    for pair in lines
        .windows(2)
        .filter(|pair| pair[0].contains("Scan using outbox_"))
    {
        assert!(
            pair[1].contains("Index Cond"),
            "{} has no condition:\n{plan}",
            pair[0]
        );
    }
    assert!(!plan.contains("outbox_event_id_key"), "not by their id:\n{plan}");
}

/// How many rows a step of a plan gave, each time on average.
fn rows(line: &str) -> u64 {
    let actual = line
        .split_once("(actual ")
        .and_then(|(_, rest)| rest.split_once("rows="));
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    actual.map_or(0, |(_, rest)| digits(rest).parse().unwrap_or(0))
}

/// However many rows are scheduled, a read looks at what is due and at the first that is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scheduled_rows_are_found_by_their_time() {
    let planner = Planner::new().await;
    planner.schedule(20_000).await;
    for analysed in [false, true] {
        if analysed {
            planner.run("ANALYZE public.outbox_parked").await;
        }
        let plan = planner.read(32).await;
        check_read(&plan);
        assert!(plan.contains("outbox_parked_time"), "by their time:\n{plan}");
        let many = plan
            .lines()
            .filter(|line| line.contains("on outbox_parked"))
            .find(|line| rows(line) > 1);
        assert!(many.is_none(), "{many:?} reads more than it needs:\n{plan}");
    }
}

/// What people see first costs entries of indexes, and nothing of the history.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_and_groups_scan_no_table() {
    let planner = Planner::new().await;
    planner.run("SET enable_seqscan = off").await;
    for rows in [0, 20_000] {
        planner.schedule(rows).await;
        for sql in [COUNTED, HEADS, GROUPS] {
            let plan = planner.plan(&Tables::default().sql(sql)).await;
            assert!(!plan.contains("Seq Scan"), "a table is scanned:\n{plan}");
            assert!(!plan.contains("outbox_sent"), "the history is read:\n{plan}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_do_not_turn() {
    let planner = Planner::new().await;
    // Empty and never analysed.
    check_read(&planner.read(32).await);
    check_near(&planner.near(0).await);
    check_settle(&planner.settle(100).await);
    // Analysed while it was empty, then filled.
    planner
        .run("ANALYZE public.outbox; ANALYZE public.outbox_parked")
        .await;
    planner.fill(30_000).await;
    check_read(&planner.read(32).await);
    check_near(&planner.near(29_990).await);
    check_settle(&planner.settle(100).await);
    // Analysed as it is.
    planner.run("ANALYZE public.outbox").await;
    check_read(&planner.read(32).await);
    check_near(&planner.near(29_990).await);
    check_settle(&planner.settle(2_000).await);
    // Many keys wait for a destination, before and after somebody has counted them. The plans are made anew, as the
    // store has them made when it sees the table grow.
    planner.hold(20_000).await;
    for analysed in [false, true] {
        planner
            .run(if analysed {
                "ANALYZE public.outbox_parked"
            } else {
                "DISCARD PLANS"
            })
            .await;
        for plan in [
            planner.read(32).await,
            planner.near(29_990).await,
            planner.settle(100).await,
        ] {
            check(&plan);
            check_grown(&plan);
        }
    }
}
