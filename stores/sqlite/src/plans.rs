//! How statements find their rows: pinned, so that no later index or statistic turns a probe into a scan.

use rusqlite::Connection;

use crate::ident::Tables;
use crate::inbox::{Inbox, PURGE, PURGE_OF};
use crate::schema::migrations;
use crate::upkeep::OLD;
use crate::{decode, heads, read, settle, timed, write};

/// Every statement of a read or a settle, with the steps of its plan.
const PINNED: &[(&str, &[&str])] = &[
    (
        read::RANGE,
        &["SEARCH outbox USING INDEX outbox_lane (lane=? AND rowid>?)"],
    ),
    (
        decode::QUEUED,
        &[
            "SEARCH o USING INTEGER PRIMARY KEY (rowid=?)",
            "SEARCH p USING COVERING INDEX outbox_parked_line (order_key=? AND lane=?)",
            "SEARCH s USING COVERING INDEX outbox_sent_event (event_id=?)",
        ],
    ),
    (
        decode::PARKED,
        &[
            "SEARCH p USING INDEX outbox_parked_place (seq=? AND destination=?)",
            "SEARCH s USING COVERING INDEX outbox_sent_event (event_id=?)",
        ],
    ),
    (
        decode::SENT,
        &["SEARCH outbox_sent USING INDEX outbox_sent_event (event_id=?)"],
    ),
    (
        decode::NEXT_BLOCK,
        &[
            "SEARCH outbox_parked USING COVERING INDEX outbox_parked_line (order_key=? AND lane=? AND destination>?)",
        ],
    ),
    (
        decode::ANY_BLOCK,
        &[
            "SEARCH outbox_parked USING COVERING INDEX outbox_parked_line (order_key=? AND lane=? AND destination=? \
             AND dead<?)",
        ],
    ),
    (
        heads::NEXT_LINE,
        &[
            "SEARCH outbox_parked USING COVERING INDEX outbox_parked_heads (destination=? AND order_key=? AND lane>?)",
            "SEARCH outbox_parked USING COVERING INDEX outbox_parked_heads (destination=? AND order_key>?)",
        ],
    ),
    (
        heads::NEXT_DESTINATION,
        &["SEARCH outbox_parked USING COVERING INDEX outbox_parked_heads (destination>?)"],
    ),
    (
        heads::BEHIND,
        &[
            "SEARCH outbox_parked USING COVERING INDEX outbox_parked_heads (destination=? AND order_key=? AND lane=? \
             AND seq>?)",
        ],
    ),
    (
        timed::NEXT_DESTINATION,
        &["SEARCH outbox_parked USING COVERING INDEX outbox_parked_time (destination>?)"],
    ),
    (
        timed::DUE,
        &[
            "SEARCH outbox_parked USING COVERING INDEX outbox_parked_time (destination=? AND next_attempt_at<?)",
        ],
    ),
    (
        timed::NEXT_DUE,
        &[
            "SEARCH outbox_parked USING COVERING INDEX outbox_parked_time (destination=? AND next_attempt_at>?)",
        ],
    ),
    (
        settle::OLDEST,
        &["SEARCH outbox_sent USING INDEX outbox_sent_time (published_at<?)"],
    ),
    (
        settle::REMOVE_SENT,
        &["SEARCH outbox_sent USING INTEGER PRIMARY KEY (rowid=?)"],
    ),
    (
        write::FIND_QUEUED,
        &["SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"],
    ),
    (
        write::REMOVE_QUEUED,
        &["SEARCH outbox USING INTEGER PRIMARY KEY (rowid=?)"],
    ),
    (
        write::FIND_PARKED,
        &["SEARCH outbox_parked USING INDEX outbox_parked_place (seq=? AND destination=?)"],
    ),
    (
        write::REMOVE_PARKED,
        &["SEARCH outbox_parked USING INDEX outbox_parked_place (seq=? AND destination=?)"],
    ),
    (
        write::CHANGE_PARKED,
        &["SEARCH outbox_parked USING INDEX outbox_parked_place (seq=? AND destination=?)"],
    ),
    (
        settle::RECORD_AS_READ,
        &[
            "SEARCH outbox_sent USING INTEGER PRIMARY KEY (rowid=?)",
            "SEARCH outbox_original USING COVERING INDEX sqlite_autoindex_outbox_original_1 (seq=? AND destination=? \
             AND version>?)",
            "SEARCH outbox_original USING INDEX sqlite_autoindex_outbox_original_1 (seq=? AND destination=? AND \
             version>?)",
        ],
    ),
    (
        write::anew::KEEP_ORIGINAL,
        &[
            "SEARCH t USING INDEX outbox_parked_place (seq=? AND destination=?)",
            "SEARCH f USING INDEX outbox_parked_place (seq=? AND destination=?)",
            "SEARCH o USING INDEX sqlite_autoindex_outbox_original_1 (seq=?)",
            "USE TEMP B-TREE FOR ORDER BY",
        ],
    ),
    (
        settle::SEND_EDITED,
        &["SEARCH outbox_parked USING INDEX outbox_parked_place (seq=? AND destination=?)"],
    ),
];

/// What relays of the version before this one ask of rows that are parked: they name an index, and fail without it.
const BEFORE: &[(&str, &[&str])] = &[
    (
        "SELECT * FROM (
             SELECT order_key, lane, seq, next_attempt_at FROM {outbox_parked} INDEXED BY {outbox_parked_live}
             WHERE dead = 0 AND destination = ?1 AND order_key = ?2 AND lane > ?3 ORDER BY lane, seq LIMIT 1)
         UNION ALL SELECT * FROM (
             SELECT order_key, lane, seq, next_attempt_at FROM {outbox_parked} INDEXED BY {outbox_parked_live}
             WHERE dead = 0 AND destination = ?1 AND order_key > ?2 ORDER BY order_key, lane, seq LIMIT 1)
         LIMIT 1",
        &[
            "SEARCH outbox_parked USING COVERING INDEX outbox_parked_live (destination=? AND order_key=? AND lane>?)",
            "SEARCH outbox_parked USING COVERING INDEX outbox_parked_live (destination=? AND order_key>?)",
        ],
    ),
    (
        "SELECT destination FROM {outbox_parked} INDEXED BY {outbox_parked_live}
         WHERE dead = 0 AND destination > ?1 ORDER BY destination LIMIT 1",
        &["SEARCH outbox_parked USING COVERING INDEX outbox_parked_live (destination>?)"],
    ),
    (
        "SELECT seq, next_attempt_at FROM {outbox_parked} INDEXED BY {outbox_parked_live}
         WHERE dead = 0 AND destination = ?3 AND order_key = ?1 AND lane = ?2 AND seq > ?4 ORDER BY seq LIMIT ?5",
        &[
            "SEARCH outbox_parked USING COVERING INDEX outbox_parked_live (destination=? AND order_key=? AND lane=? \
             AND seq>?)",
        ],
    ),
];

/// Those whose plans are longer than they are interesting: whatever they do, they walk nothing.
const NO_SCAN: &[&str] = &[
    heads::IS_HELD,
    heads::BARRIER,
    write::RECORD_QUEUED,
    write::RECORD_PARKED,
    write::PARK_QUEUED,
    write::anew::PARK_PARKED,
    write::anew::LEAD_NEXT,
];

#[test]
fn statements_find_their_rows_by_index() {
    let tables = Tables::default();
    let connection = Connection::open_in_memory().unwrap();
    for step in migrations(&tables) {
        connection.execute_batch(&step.up).unwrap();
    }
    check(&connection, &tables, "without statistics");
    // Statistics of small tables are what turns plans most easily.
    connection.execute_batch(FEW_ROWS).unwrap();
    check(&connection, &tables, "with the statistics of a few rows");
}

/// Fault D19. The oldest records may be those of a consumer that is gone.
#[test]
fn a_purge_of_the_inbox_looks_at_what_it_removes() {
    let connection = Connection::open_in_memory().unwrap();
    let inbox = Inbox::default();
    inbox.migrate(&connection).unwrap();
    let own = "SEARCH inbox USING PRIMARY KEY (consumer=? AND event_id=?)";
    for when in ["without statistics", "with the statistics of a few rows"] {
        for (template, finds) in [
            (
                PURGE_OF,
                "SEARCH inbox USING COVERING INDEX inbox_consumer_time (consumer=? AND processed_at<?)",
            ),
            (
                PURGE,
                "SEARCH inbox USING COVERING INDEX inbox_time (processed_at<?)",
            ),
        ] {
            let sql = Tables::inbox().sql(template);
            assert_eq!(plan(&connection, &sql), [own, finds], "{when}: {template}");
        }
        let rows = "INSERT INTO inbox (consumer, event_id) VALUES ('a', '1'), ('b', '1'); ANALYZE";
        connection.execute_batch(rows).unwrap();
        connection.execute_batch("DELETE FROM inbox").unwrap();
    }
}

const FEW_ROWS: &str = "
    INSERT INTO outbox (event_type, aggregate_type, aggregate_id) VALUES ('T', 'A', '1'), ('T', 'A', '2');
    INSERT INTO outbox_parked (seq, destination, lane, order_key, event_type, aggregate_type, aggregate_id, version,
    dead, next_attempt_at, attempts, failures, maybe_sent, updated_at)
        VALUES (1, 'd', 0, 'k', 'T', 'A', '1', 1, 0, 0, 0, 0, 0, 0);
    INSERT INTO outbox_sent (seq, event_id, event_type, aggregate_type, aggregate_id, outcome, published_at)
        VALUES (1, 'a', 'T', 'A', '1', 'published', 0);
    ANALYZE";

fn check(connection: &Connection, tables: &Tables, when: &str) {
    for (template, steps) in PINNED.iter().chain(BEFORE) {
        assert_eq!(
            plan(connection, &tables.sql(template)),
            *steps,
            "{when}: {template}"
        );
    }
    // Only the table itself: what stands in a row's way is asked of a few jobs.
    for (kind, by) in OLD {
        let first = |sql: String| plan(connection, &tables.sql(&sql)).remove(0);
        assert_eq!(first(kind.find()), format!("SEARCH t USING {by}"), "{when}");
        let own = "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)";
        assert_eq!(first(kind.remove()), own, "{when}: {}", kind.remove());
    }
    for template in NO_SCAN {
        let plan = plan(connection, &tables.sql(template)).join("\n");
        let walks = plan
            .lines()
            .any(|step| step.starts_with("SCAN") && step != "SCAN CONSTANT ROW");
        assert!(
            !walks && !plan.contains("TEMP B-TREE"),
            "{when}: {template}\n{plan}"
        );
    }
}

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let steps = statement.raw_query().mapped(|row| row.get::<_, String>(3));
    // Headings of subqueries, and the walk over the one row that a subquery gives, say nothing about how rows are
    // found.
    let is_step = |step: &String| {
        let is_way = ["SEARCH", "SCAN", "USE"].iter().any(|way| step.starts_with(way));
        is_way && !step.starts_with("SCAN (subquery")
    };
    steps.map(Result::unwrap).filter(is_step).collect()
}
