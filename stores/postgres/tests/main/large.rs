//! Rows that are far too large to be events: judged where they are, parked, and in nobody's way.

use postrider_core::{ErrorKind, Failure, Park, Settled};

use crate::support::{Db, parks};

/// As another language may: a large text in one column.
fn insert(id: &str, column: &str, megabytes: usize) -> String {
    format!(
        "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, {column})
         VALUES ('{id}', 'T', 'A', '{id}', repeat('x', {megabytes} * 1024 * 1024))"
    )
}

/// Faults G6 and G7. The server knows how long a value is without reading it, and a row that can be no event is not
/// moved.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_too_large_is_judged_without_being_moved() {
    let db = Db::new().await;
    let relay = db.relay("one").await;
    let columns = ["payload", "headers", "event_key", "content_type"];
    for column in columns {
        db.sql(&insert(column, column, 40));
    }
    db.sql("INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id) VALUES ('small', 'T', 'A', '1')");
    let rows = relay.queued().await;
    for (row, column) in rows.iter().zip(columns) {
        let reason = row.event.as_ref().expect_err("it is no event");
        assert_eq!(reason.kind, ErrorKind::BadRow);
        let wanted = format!("{column}: has 41943040 bytes; at most");
        assert!(reason.text.starts_with(&wanted), "{reason:?}");
    }
    let keys: Vec<_> = rows.iter().map(|row| row.key.as_str().len()).collect();
    assert_eq!(
        keys,
        [
            "A payload".len(),
            "A headers".len(),
            256,
            "A content_type".len(),
            3
        ]
    );
    assert!(rows[4].event.is_ok());
    let dead = || Park::dead(None, Failure::new(ErrorKind::BadRow, "too large"));
    let entries = rows[..4].iter().map(|row| parks(row, vec![dead()])).collect();
    assert_eq!(relay.settle(entries, vec![]).await, [Settled::Done; 4]);
    assert_eq!(
        db.sql("SELECT octet_length(concat(payload, headers, event_key, content_type)) FROM outbox_parked GROUP BY 1"),
        "41943040",
        "nothing of them is lost"
    );
    // Sent again by an operator they are judged again, and not moved either.
    db.sql("UPDATE outbox_parked SET dead = false");
    let due = relay.page().await.parked;
    assert_eq!(due.len(), 4);
    for row in due {
        let reason = row.row.event.expect_err("it is no event");
        assert!(reason.text.contains("41943040"), "{reason:?}");
    }
}

/// Fault G7. What could not be moved in the time of a settle is refused where the producer sees it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_could_not_be_parked_is_refused() {
    let db = Db::new().await;
    let client = db.connect().await;
    for column in ["payload", "headers", "event_key", "content_type"] {
        let sql = insert("a", column, 65);
        let error = client.batch_execute(&sql).await.expect_err("too large");
        let error = error.as_db_error().expect("the server's word");
        assert_eq!(error.constraint(), Some("row_is_at_most_64_mib"), "{error:?}");
    }
}
