//! Processes that end in the middle, and trouble that is mended in the middle.

use serde_json::json;

use super::house::{Happening, House, QUEUE, RESTAURANT, TAP};
use super::{LOOK_EVERY, PATIENCE};
use crate::failure::{Failure, Result};
use crate::scenario::outcome::Outcome;
use crate::scenario::wait::until_every;

const EVERYBODY: u64 = RESTAURANT.len() as u64;

/// The event is committed and nothing has left: the next relay publishes it.
pub(super) fn relay_before_publishing(house: &House<'_>, outcome: &mut Outcome) -> Result<()> {
    house.stop_relay()?;
    house.start_relay(Some("publish.before:1"))?;
    let event = house.order()?;
    house.relay_died()?;
    let early = house.told(&event)? + house.pair.ready(TAP)?;
    outcome.check(early == 0, || {
        format!("{event} left a relay that died before publishing")
    });
    house.start_relay(None)?;
    house.until_told(&event, EVERYBODY)
}

/// The broker has it and the outbox does not know: it is published again, and tells nobody anew.
pub(super) fn relay_after_publishing(house: &House<'_>, outcome: &mut Outcome) -> Result<()> {
    house.stop_relay()?;
    house.start_relay(Some("publish.after:1"))?;
    let event = house.order()?;
    house.relay_died()?;
    let queued = house.pair.waiting()?.0;
    outcome.check(queued == 1, || {
        format!("{queued} events are queued after the crash, not 1")
    });
    house.until_told(&event, EVERYBODY)?;
    house.start_relay(None)?;
    house.drained()?;
    let copies = house
        .pair
        .messages(TAP)?
        .iter()
        .filter(|one| one.id == event)
        .count();
    outcome.check(copies == 2, || {
        format!("{event} was published {copies} times, not twice")
    });
    Ok(())
}

/// The notifications are committed and the broker was not told: it delivers again, and nothing more happens.
pub(super) fn listener_before_acknowledge(house: &House<'_>, outcome: &mut Outcome) -> Result<()> {
    house.stop_notify()?;
    house.start_notify(Some("acknowledge.before:1"))?;
    let event = house.order()?;
    house.notify_died()?;
    let told = house.told(&event)?;
    outcome.check(told == EVERYBODY, || {
        format!("{told} were told before the crash, not {EVERYBODY}")
    });
    until_every(LOOK_EVERY, "the message is back in its queue", PATIENCE, || {
        Ok((house.pair.ready(QUEUE)? == 1).then_some(()))
    })?;
    house.start_notify(None)?;
    house.drained()
}

/// The notifications are committed, and the service ends before the first push: the next one sends them.
pub(super) fn stored_and_not_delivered(house: &House<'_>, outcome: &mut Outcome) -> Result<()> {
    house.settled()?;
    house.stop_notify()?;
    let before = house.hook.taken().len();
    house.start_notify(Some("publish.before:1"))?;
    let event = house.order()?;
    house.notify_died()?;
    let (told, pushed) = (house.told(&event)?, house.hook.taken().len() - before);
    outcome.check(told == EVERYBODY && pushed == 0, || {
        format!("{told} are told and {pushed} were pushed to before the crash")
    });
    house.start_notify(None)?;
    until_pushed(house, before + RESTAURANT.len())
}

/// Trouble with the database, with the words and with the url, each mended in the middle.
pub(super) fn retry_after_failure(house: &House<'_>, outcome: &mut Outcome) -> Result<()> {
    database_refuses(house)?;
    template_misses_a_field(house)?;
    url_fails(house, outcome)
}

/// Counts what it refuses in a sequence, which no rollback takes back.
const REFUSE: &str = "CREATE SEQUENCE refused;
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM nextval('refused'); RAISE EXCEPTION 'trouble'; END $$;
    CREATE TRIGGER refuse BEFORE INSERT ON notification FOR EACH STATEMENT EXECUTE FUNCTION refuse()";
const MEND: &str = "DROP TRIGGER refuse ON notification; DROP FUNCTION refuse(); DROP SEQUENCE refused";

fn database_refuses(house: &House<'_>) -> Result<()> {
    house.notes.execute(REFUSE)?;
    let event = house.order()?;
    let tried = until_every(LOOK_EVERY, "the database has refused twice", PATIENCE, || {
        let times = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM refused";
        Ok((house.notes.number(times)? >= 2).then_some(()))
    });
    house.notes.execute(MEND)?;
    tried?;
    house.until_told(&event, EVERYBODY)
}

/// The event becomes a dead letter with a reason. When the template is mended, it is delivered again.
fn template_misses_a_field(house: &House<'_>) -> Result<()> {
    house.pair.messages("notification.dead")?;
    let event = house.happen(&Happening {
        event_type: "OrderPriced",
        audience: "RESTAURANT",
        payload: json!({ "recipientType": "BROADCAST" }),
        at: None,
        told: &RESTAURANT,
    })?;
    until_every(LOOK_EVERY, "there is a dead letter", PATIENCE, || {
        Ok((house.pair.ready("notification.dead")? == 1).then_some(()))
    })?;
    house.stop_notify()?;
    house.configure("{{ payload.price | default('a price') }}")?;
    house.start_notify(None)?;
    let carried = house.pair.carry("notification.dead", QUEUE, 1)?;
    let told = house.until_told(&event, EVERYBODY);
    // As it was, for the next round.
    house.configure("{{ payload.price }}")?;
    house.stop_notify()?;
    house.start_notify(None)?;
    match carried {
        1 => told,
        _ => Err(Failure::new(format!("{carried} dead letters, not 1"))),
    }
}

fn url_fails(house: &House<'_>, outcome: &mut Outcome) -> Result<()> {
    house.settled()?;
    let (before, refused) = (house.hook.taken().len(), house.hook.refused());
    house.hook.answer_with(500);
    let event = house.order()?;
    let failed = until_every(LOOK_EVERY, "the url has refused a push", PATIENCE, || {
        Ok((house.hook.refused() > refused).then_some(()))
    });
    let path = format!("/notifications?event_id={event}");
    let states = house.ask(("GET", &path), None, None)?.expect(200)?.to_string();
    outcome.check(states.contains("\"pending\""), || {
        format!("no delivery is pending while its url fails: {states}")
    });
    house.hook.answer_with(200);
    failed?;
    until_pushed(house, before + RESTAURANT.len())
}

fn until_pushed(house: &House<'_>, wanted: usize) -> Result<()> {
    until_every(LOOK_EVERY, "everybody is pushed to", PATIENCE, || {
        Ok((house.hook.taken().len() >= wanted).then_some(()))
    })
}
