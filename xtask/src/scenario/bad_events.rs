//! [bad-events] Among a thousand events one has no queue, one is too large and one has headers that are none: exactly
//! those are parked, with a reason; the rest of their keys waits in order, and everything else arrives. Then they are
//! mended.

use std::time::Duration;

use super::outcome::Outcome;
use super::pair::{Order, Pair, Setup};
use super::stage::Stage;
use super::wait::until_every;
use crate::failure::Result;

const CUSTOMERS: u64 = 100;
/// Orders of each customer.
const EACH: u64 = 10;
/// Which of a customer's orders is the bad one: some went before it, some wait behind it.
const BAD: u64 = 3;
const WAITING: u64 = 3 * (EACH - BAD);
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let pair = Pair::open(
        stage,
        &Setup {
            queues: 2,
            rabbitmq: "max_message_bytes = \"64KiB\"".to_owned(),
            ..Setup::default()
        },
    )?;
    let consumer = pair.consumer()?;
    let relay = pair.relay("relay-1")?;
    // The relay declares queues and bindings before its first event; only then can one be taken away.
    pair.place(&Order {
        id: "first",
        customer: "first",
        ..Order::default()
    })?;
    pair.settled(PATIENCE)?;
    pair.topology().unbind(1)?;
    place_all(&pair)?;

    let all = CUSTOMERS * EACH;
    let good = 1 + all - 3 - WAITING;
    let arrived = until_every(LOOK_EVERY, "the good events are out", PATIENCE, || {
        let (queued, _) = pair.waiting()?;
        let arrived = super::effects::effect_count(pair.directory())?;
        Ok((queued == 0 && arrived >= good).then_some(arrived))
    });
    let parked = parked(&pair)?;
    let waiting = pair
        .database()
        .number("SELECT count(*) FROM outbox_events WHERE status = 'WAITING'")?;
    let report = pair.account()?;

    let mended = mend(&pair);
    relay.terminate()?;
    pair.consumed(consumer)?;
    let after = pair.account()?;

    let mut outcome = Outcome::of(report);
    match arrived {
        Ok(arrived) => outcome.check(arrived == good, || {
            format!("{arrived} events arrived at first, not {good}")
        }),
        Err(failure) => outcome.went_well(Err(failure)),
    }
    outcome.went_well(mended);
    outcome.check(after.is_clean() && after.committed == 1 + all - 2, || {
        format!("after the bad ones were dealt with: {after}")
    });
    outcome.figure("parked", parked.len());
    outcome.figure("waiting", waiting);
    outcome.check(waiting == WAITING, || {
        format!("{waiting} events wait behind the bad ones, not {WAITING}")
    });
    check_reasons(&mut outcome, &parked);
    outcome.figure("delivered_after_mending", after.arrived);
    Ok(outcome)
}

fn place_all(pair: &Pair<'_>) -> Result<()> {
    let large = format!("{{\"text\":\"{}\"}}", "x".repeat(100_000));
    for n in 1..=EACH {
        for customer in 0..CUSTOMERS {
            let order = Order {
                id: &format!("order-{customer:03}-{n:02}"),
                customer: &format!("customer-{customer:03}"),
                ..Order::default()
            };
            pair.place(&match (customer, n) {
                (10, BAD) => Order {
                    line: "SHOP1",
                    ..order
                },
                (20, BAD) => Order {
                    payload: &large,
                    ..order
                },
                (30, BAD) => Order {
                    headers: Some("{\"trace\": 7"),
                    ..order
                },
                _ => order,
            })?;
        }
    }
    Ok(())
}

/// An event that is parked for a reason of its own.
struct Parked {
    id: String,
    dead: bool,
    kind: String,
    reason: String,
}

fn parked(pair: &Pair<'_>) -> Result<Vec<Parked>> {
    let sql = "SELECT event_id, status = 'DEAD_LETTER', error_kind, error_message FROM outbox_events
        WHERE status IN ('DEAD_LETTER', 'RETRYING') ORDER BY event_id";
    let rows = pair.database().rows(sql, &[])?;
    let parked = |row: &tokio_postgres::Row| -> Result<Parked> {
        let text =
            |at| Ok::<_, tokio_postgres::Error>(row.try_get::<_, Option<String>>(at)?.unwrap_or_default());
        Ok(Parked {
            id: text(0)?,
            dead: row.try_get(1)?,
            kind: text(2)?,
            reason: text(3)?,
        })
    };
    rows.iter().map(parked).collect()
}

/// The three, whether each is dead or tried again, and words that its reason must have for a person to act on it.
fn check_reasons(outcome: &mut Outcome, parked: &[Parked]) {
    let expected = [
        ("order-010-03", false, "address_not_found", ["order.shop1"]),
        ("order-020-03", true, "too_large", ["65536"]),
        ("order-030-03", true, "bad_row", ["headers"]),
    ];
    let found: Vec<_> = parked
        .iter()
        .map(|one| (one.id.as_str(), one.dead, one.kind.as_str()))
        .collect();
    let wanted: Vec<_> = expected
        .iter()
        .map(|(id, dead, kind, _)| (*id, *dead, *kind))
        .collect();
    outcome.check(found == wanted, || format!("parked: {found:?}, not {wanted:?}"));
    for (one, (.., words)) in parked.iter().zip(expected) {
        outcome.check(words.iter().all(|word| one.reason.contains(word)), || {
            format!("the reason of {} does not say {words:?}: {}", one.id, one.reason)
        });
    }
    let reasons: Vec<&str> = parked.iter().map(|one| one.reason.as_str()).collect();
    outcome.figure("reasons", reasons);
}

/// Gives the lost queue back, throws the two away that can never be sent, and waits until the rest has arrived.
fn mend(pair: &Pair<'_>) -> Result<()> {
    pair.topology().bind(1)?;
    for id in ["order-020-03", "order-030-03"] {
        pair.postrider(&["dead", "discard", id, "--reason", "cannot be sent"])?;
    }
    // The shop takes back what will never be sent, so that the account does not miss it.
    pair.database()
        .execute("DELETE FROM orders WHERE id IN ('order-020-03', 'order-030-03')")?;
    pair.settled(PATIENCE)
}
