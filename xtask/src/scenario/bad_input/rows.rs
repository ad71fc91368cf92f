//! Rows that a service in another language might insert: refused by the database, or parked with their reason, while
//! the orders around them arrive.

use std::time::Duration;

use rusqlite::Connection;

use super::trial::Trial;
use crate::failure::Result;
use crate::scenario::account::Report;
use crate::scenario::shop;

const PATIENCE: Duration = Duration::from_secs(60);
/// Orders before, between and after the bad rows.
const ORDERS: u64 = 10;

/// What the database refuses: the statement, and a word of the refusal.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "both-payloads",
        "INSERT INTO outbox (event_type, aggregate_type, aggregate_id, payload, payload_bytes)
         VALUES ('A', 'BAD', 'both', '{}', x'00')",
        "CHECK constraint failed",
    ),
    (
        "bytes-as-text",
        "INSERT INTO outbox (event_type, aggregate_type, aggregate_id, payload) VALUES ('A', 'BAD', 'hex', '\\x7b7d')",
        "CHECK constraint failed",
    ),
    (
        "no-aggregate",
        "INSERT INTO outbox (event_type, aggregate_type, aggregate_id) VALUES ('A', 'BAD', NULL)",
        "NOT NULL constraint failed",
    ),
];

/// What the database takes and the relay parks: the columns and values, the kind of the error, and a word of it.
const PARKED: &[(&str, &str, &str, &str)] = &[
    ("not-json", "payload", "'{\"a\":'", "payload"),
    ("nul-in-id", "event_id", "'a' || char(0) || 'b'", "event_id"),
    ("bytes-in-id", "event_id", "CAST(x'61ff' AS TEXT)", "event_id"),
    ("nul-in-header", "headers", "'{\"h\":\"\\u0000\"}'", "headers"),
    (
        "bytes-in-header",
        "headers",
        "CAST(x'7b2268223a22ff227d' AS TEXT)",
        "headers",
    ),
    ("headers-not-an-object", "headers", "'[1]'", "headers"),
    ("empty-key", "event_key", "''", "event_key"),
    ("no-time", "available_at", "'tomorrow'", "available_at"),
];

pub(super) fn play(trial: &mut Trial<'_>) -> Result<Report> {
    let shop = trial.stage.shop("rows", "")?;
    let mut connection = shop.connection()?;
    let mut orders = 0;
    place(&mut connection, &mut orders)?;
    for (case, statement, words) in REFUSED {
        let said = match connection.execute(statement, []) {
            Ok(_) => "it was accepted".to_owned(),
            Err(error) => error.to_string(),
        };
        trial.check(case, said.contains(words), || {
            format!("{words:?} is not in: {said}")
        });
    }
    for (case, column, value, _) in PARKED {
        // Each has a key of its own: what is behind a bad row of its key waits with it.
        let insert = format!(
            "INSERT INTO outbox (event_type, aggregate_type, aggregate_id, {column})
             VALUES ('A', 'BAD', '{case}', {value})"
        );
        connection.execute(&insert, [])?;
        place(&mut connection, &mut orders)?;
    }

    let consumer = shop.consumer()?;
    let dead = format!("{} dead", PARKED.len());
    let published = format!("{orders} published");
    trial.expect(
        "bad-rows",
        shop.directory(),
        &["run", "--until-empty"],
        1,
        &[&published, &dead],
    )?;
    for (case, _, _, word) in PARKED {
        let reason = connection.query_row(
            "SELECT error_kind || ' ' || error_text FROM outbox_parked WHERE aggregate_id = ?1 AND dead = 1",
            [case],
            |row| row.get::<_, String>(0),
        );
        let reason = reason.unwrap_or_else(|error| error.to_string());
        let told = reason.starts_with("bad_row") && reason.contains(word);
        trial.check(case, told, || format!("parked with the reason {reason:?}"));
    }
    trial.expect(
        "bad-rows",
        shop.directory(),
        &["dead", "list"],
        0,
        &["bad_row", "Correct the producer"],
    )?;

    let discard = ["dead", "discard", "--all", "--yes", "--reason", "a test"];
    trial.expect(
        "bad-rows",
        shop.directory(),
        &discard,
        0,
        &[&format!("{} deliveries discarded", PARKED.len())],
    )?;
    shop.settled(PATIENCE)?;
    consumer.finish(PATIENCE)?;
    shop.account()
}

fn place(connection: &mut Connection, orders: &mut u64) -> Result<()> {
    for _ in 0..ORDERS {
        *orders += 1;
        let tx = shop::begin(connection)?;
        shop::place(&tx, &format!("customer-{}", *orders % 3), *orders)?;
        tx.commit()?;
    }
    Ok(())
}
