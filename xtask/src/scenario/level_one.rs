//! [level-one] Ids that were sent come again: with the same content they are duplicates, with other content they wait
//! for a person, and an error of some other constraint is neither.

use std::time::Duration;

use super::effects;
use super::outcome::Outcome;
use super::pair::{Order, Pair, Setup};
use super::stage::Stage;
use super::wait::{until, until_every};
use crate::failure::{Failure, Result};

const EVENTS: u64 = 200;
const CUSTOMERS: u64 = 20;
/// Ids that come again with other content.
const REUSED: u64 = 5;
const LOOK_EVERY: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(60);

/// What was sent comes once more, as a service does that is not sure of its commit.
const AGAIN: &str = "
    INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, event_key, payload, headers)
    SELECT event_id, event_type, aggregate_type, aggregate_id, event_key, payload, '{\"attempt\":\"2\"}'
    FROM outbox_sent ORDER BY seq";
/// The history refuses some rows with the very code that a duplicate key has. A sequence counts how often: it is not
/// rolled back.
const TRAP: &str = "
    CREATE SEQUENCE traps;
    CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM nextval('public.traps');
        RAISE EXCEPTION 'duplicate key value violates unique constraint \"trap\"' USING ERRCODE = 'unique_violation';
    END $$;
    CREATE TRIGGER trap BEFORE INSERT ON outbox_sent FOR EACH ROW WHEN (starts_with(NEW.event_id, 'trap'))
    EXECUTE FUNCTION trap()";

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let pair = Pair::open(stage, &Setup::default())?;
    let consumer = pair.consumer()?;
    let mut relay = pair.relay("relay-1")?;
    pair.fill("order", EVENTS, CUSTOMERS)?;
    pair.settled(PATIENCE)?;

    pair.database().execute(AGAIN)?;
    let emptied = until("the duplicates have left the outbox", PATIENCE, || {
        Ok((pair.waiting()? == (0, 0)).then_some(()))
    });
    let duplicates = duplicates(&pair)?;
    stage.note(&format!("{duplicates} duplicates"));

    let reused = reuse(&pair)?;
    let refused = refuse(&pair)?;
    let trapped = trap(&pair)?;
    let settled = pair.settled(PATIENCE);
    relay.expect_alive()?;
    let counted = self::duplicates(&pair)?;
    relay.terminate()?;
    pair.consumed(consumer)?;

    let report = pair.account()?;
    let (arrived, repeated) = (report.arrived, report.duplicates);
    let mut outcome = Outcome::of(report);
    outcome.went_well(emptied);
    outcome.went_well(settled);
    outcome.figure("duplicates_settled", duplicates);
    outcome.check(duplicates == EVENTS, || {
        format!("{duplicates} duplicates were counted, not {EVENTS}")
    });
    outcome.figure("id_reused", reused.len());
    outcome.check(reused.len() as u64 == REUSED, || {
        format!("{} events are parked as id_reused, not {REUSED}", reused.len())
    });
    outcome.figure("reason", reused.first().cloned());
    outcome.figure("refused_inserts", refused);
    outcome.figure("trapped", trapped);
    outcome.check(counted == duplicates, || {
        format!(
            "{} events were taken for duplicates of others",
            counted - duplicates
        )
    });
    // The trapped were published and could not be settled: only they may arrive again.
    outcome.check(arrived - repeated == EVENTS + 2, || {
        format!("{arrived} messages arrived, {repeated} of them repeats")
    });
    outcome.figure("repeats_of_trapped", repeated);
    Ok(outcome)
}

/// How many duplicates were counted.
fn duplicates(pair: &Pair<'_>) -> Result<u64> {
    pair.database()
        .number("SELECT coalesce(sum(duplicates), 0)::bigint FROM outbox_counter")
}

/// Sent ids with other content; gives the reasons that they are parked for. They are thrown away afterwards.
fn reuse(pair: &Pair<'_>) -> Result<Vec<String>> {
    pair.database().execute(&format!(
        "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload)
         SELECT event_id, event_type, aggregate_type, aggregate_id, '{{\"other\":true}}'
         FROM outbox_sent WHERE outcome = 'published' ORDER BY seq LIMIT {REUSED}"
    ))?;
    until("the reused ids have left the outbox", PATIENCE, || {
        Ok((pair.waiting()?.0 == 0).then_some(()))
    })?;
    let sql = "SELECT error_text FROM outbox_parked WHERE dead AND error_kind = 'id_reused'";
    let rows = pair.database().rows(sql, &[])?;
    let reasons = rows
        .iter()
        .map(|row| Ok(row.try_get(0)?))
        .collect::<Result<_>>()?;
    let discard = [
        "dead",
        "discard",
        "--kind",
        "id_reused",
        "--reason",
        "a mistake",
        "--yes",
    ];
    pair.postrider(&discard)?;
    Ok(reasons)
}

/// Rows that other constraints refuse: the service is told, and nobody counts a duplicate. Gives how many were refused.
fn refuse(pair: &Pair<'_>) -> Result<u64> {
    let columns =
        "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload, payload_bytes)";
    let rows = [
        // Bytes bound to the text column by mistake.
        "('order-000000001', 'OrderPlaced', 'SHOP0', 'c', '\\x7b7d', NULL)",
        // Two payloads.
        "('order-000000002', 'OrderPlaced', 'SHOP0', 'c', '{}', '{}')",
        // No type.
        "('order-000000003', NULL, 'SHOP0', 'c', '{}', NULL)",
    ];
    for row in rows {
        if pair
            .database()
            .execute(&format!("{columns} VALUES {row}"))
            .is_ok()
        {
            return Err(Failure::new(format!("{row} was accepted")));
        }
    }
    // An id that is queued still: held back by a transaction that the relay cannot see the row of.
    let other = pair.connection();
    other.execute(&format!(
        "BEGIN; {columns} VALUES ('queued', 'OrderPlaced', 'SHOP0', 'c', '{{}}', NULL)"
    ))?;
    let twice = other.execute(&format!(
        "{columns} VALUES ('queued', 'OrderPlaced', 'SHOP0', 'c', '{{}}', NULL)"
    ));
    other.execute("ROLLBACK")?;
    match twice {
        Ok(()) => Err(Failure::new("one id was queued twice")),
        Err(_) => Ok(rows.len() as u64 + 1),
    }
}

/// An event whose settle fails by a unique constraint stays in the outbox, and others pass. Gives how many stayed.
fn trap(pair: &Pair<'_>) -> Result<u64> {
    pair.database().execute(TRAP)?;
    let before = effects::effect_count(pair.directory())?;
    for id in ["trap", "free"] {
        pair.place(&Order {
            id,
            customer: id,
            ..Order::default()
        })?;
    }
    let free = "SELECT count(*) FROM outbox_sent WHERE event_id = 'free'";
    let tried = "SELECT last_value FROM traps";
    until_every(
        LOOK_EVERY,
        "the other event is settled, and this one was tried twice",
        PATIENCE,
        || {
            let arrived = effects::effect_count(pair.directory())? >= before + 2;
            let settled = pair.database().number(free)? == 1 && pair.database().number(tried)? >= 2;
            Ok((arrived && settled).then_some(()))
        },
    )?;
    let stayed = pair
        .database()
        .number("SELECT count(*) FROM outbox WHERE event_id = 'trap'")?;
    pair.database().execute("DROP TRIGGER trap ON outbox_sent")?;
    match stayed {
        1 => Ok(stayed),
        _ => Err(Failure::new("an event whose settle was refused left the outbox")),
    }
}
