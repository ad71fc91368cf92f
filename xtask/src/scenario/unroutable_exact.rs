//! [unroutable-exact] One event of twenty goes to a routing key that no queue is bound to: RabbitMQ confirms those
//! too, and not one of them may count as sent.

use std::time::Duration;

use super::outcome::Outcome;
use super::pair::{Pair, Setup};
use super::stage::Stage;
use super::wait::until;
use crate::failure::Result;

/// All events; one of twenty is unroutable.
const EVENTS: u64 = 10_000;
const EVERY: u64 = 20;
/// Keys of the others.
const KEYS: u64 = 1_000;
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let pair = Pair::open(stage, &Setup::default())?;
    let unroutable = EVENTS / EVERY;
    pair.fill("u", EVENTS, KEYS)?;
    // Each of its own key, so that nothing else waits behind it.
    pair.database().execute(&format!(
        "UPDATE outbox SET aggregate_type = 'NOBODY', aggregate_id = event_id WHERE seq % {EVERY} = 0"
    ))?;
    let consumer = pair.consumer()?;
    let relay = pair.relay("relay-1")?;
    let emptied = until("nothing is queued any more", PATIENCE, || {
        Ok((pair.waiting()?.0 == 0).then_some(()))
    });
    relay.terminate()?;
    pair.consumed(consumer)?;

    let number = |sql: &str| pair.database().number(sql);
    let sent = number("SELECT count(*) FROM outbox_sent WHERE aggregate_type = 'NOBODY'")?;
    let settled = number("SELECT count(*) FROM outbox_sent")?;
    let counted = number("SELECT coalesce(sum(published), 0)::bigint FROM outbox_counter")?;
    let parked = pair.waiting()?.1;
    let told = number(
        "SELECT count(*) FROM outbox_parked WHERE error_kind = 'address_not_found' AND NOT dead AND error_text
         = 'no queue is bound to the exchange \"shop.exchange\" for the routing key \"order.nobody\"'",
    )?;
    let mut outcome = Outcome::of(pair.account()?);
    outcome.went_well(emptied);
    outcome.figure("unroutable", unroutable);
    outcome.figure("counted_as_sent", sent);
    outcome.figure("parked", parked);
    outcome.check(sent == 0, || {
        format!("{sent} unroutable events were counted as sent")
    });
    outcome.check(parked == unroutable && told == parked, || {
        format!("{parked} events are parked, {told} of them with the reason; it must be {unroutable}")
    });
    let routable = EVENTS - unroutable;
    outcome.check(settled == routable && counted == routable, || {
        format!("{settled} events are in the history, {counted} are counted")
    });
    Ok(outcome)
}
