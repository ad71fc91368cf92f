//! One event of twenty goes to a routing key that no queue is bound to: RabbitMQ confirms those too.

use super::account::Report;
use super::outcome::Outcome;
use super::rabbitmq_pair::{PATIENCE, Pair};
use super::stage::Stage;
use super::wait::until;
use crate::failure::Result;

/// All events; one of twenty is unroutable.
const EVENTS: u64 = 10_000;
const EVERY: u64 = 20;
/// Keys of the others.
const KEYS: u64 = 1_000;

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let pair = Pair::start(stage)?;
    let outbox = pair.outbox("shop", "history = \"7d\"")?;
    let unroutable = EVENTS / EVERY;
    let nobody = format!("n % {EVERY} = 0");
    outbox.fill(
        EVENTS,
        &format!("CASE WHEN {nobody} THEN 'NOBODY' ELSE 'ORDER' END"),
        // Each of its own key, so that nothing else waits behind it.
        &format!("CASE WHEN {nobody} THEN 'n' || n ELSE (n % {KEYS})::text END"),
    );
    let relay = outbox.relay(&[])?;
    let seen = until("nothing is queued any more", PATIENCE, || {
        let queued = outbox.number("SELECT count(*) FROM outbox")?;
        Ok((queued == 0).then_some(()))
    });
    relay.terminate(PATIENCE)?;
    seen?;

    let arrived = pair.raw("take", EVENTS - unroutable, &[])?;
    let distinct = arrived["distinct"].as_u64().unwrap_or(0);
    let mut outcome = Outcome::of(Report {
        committed: EVENTS,
        arrived: distinct,
        lost: EVENTS - unroutable - distinct,
        reordered: arrived["reordered"].as_u64().unwrap_or(0),
        ..Report::default()
    });
    let sent = outbox.number("SELECT count(*) FROM outbox_sent WHERE aggregate_type = 'NOBODY'")?;
    let parked = outbox.number("SELECT count(*) FROM outbox_parked")?;
    let told = outbox.number(
        "SELECT count(*) FROM outbox_parked WHERE error_kind = 'address_not_found' AND NOT dead
         AND error_text = 'no queue is bound to the exchange \"shop\" for the routing key \"nobody\"'",
    )?;
    let settled = outbox.number("SELECT count(*) FROM outbox_sent")?;
    outcome.figure("unroutable", unroutable);
    outcome.figure("counted_as_sent", sent);
    outcome.figure("parked", parked);
    outcome.check(sent == 0, || {
        format!("{sent} unroutable events were counted as sent")
    });
    outcome.check(parked == unroutable && told == parked, || {
        format!("{parked} events are parked, {told} of them with the reason; it must be {unroutable}")
    });
    outcome.check(settled == EVENTS - unroutable, || {
        format!("{settled} events are in the history")
    });
    Ok(outcome)
}
