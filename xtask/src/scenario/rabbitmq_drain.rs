//! A queue of events is drained into RabbitMQ, beside a program without an engine that publishes the same messages.

use serde_json::Value;

use super::account::Report;
use super::outcome::Outcome;
use super::rabbitmq_pair::{PATIENCE, Pair};
use super::stage::Stage;
use crate::failure::{Failure, Result};

/// What the relay must reach of what the client reaches alone.
const SHARE: f64 = 0.65;
/// Keys of the load.
const KEYS: u64 = 1_000;
/// Channels of both.
const CHANNELS: u64 = 8;
/// Messages in flight on each channel of both: a publish call of the relay has as many events.
const IN_FLIGHT: u64 = 100;

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let events = stage.size(100_000, 20_000);
    let rounds = stage.size(3, 1);
    let pair = Pair::start(stage)?;
    // Both in turn, again and again: whatever else the machine does then falls on both.
    let (mut relay, mut raw, mut with_history) = (0.0, 0.0, 0.0);
    let mut account = Report::default();
    for round in 0..rounds {
        let off = drain(
            &pair,
            &format!("off-{round}"),
            "history = \"none\"\ndedup = \"none\"",
            events,
        )?;
        let again = publish_again(&pair, events, &mut account)?;
        let on = drain(&pair, &format!("on-{round}"), "history = \"7d\"", events)?;
        let second = publish_again(&pair, events, &mut account)?;
        stage.note(&format!(
            "round {round}: {:.0}/s, with history {:.0}/s, without an engine {:.0}/s and {:.0}/s",
            rate(events, off),
            rate(events, on),
            rate(events, again),
            rate(events, second)
        ));
        relay += off;
        with_history += on;
        raw += (again + second) / 2.0;
    }
    let total = events * rounds;
    let share = raw / relay;
    let mut outcome = Outcome::of(account);
    outcome.bounded("share", share, share >= SHARE, "at least 0.65");
    outcome.figure("relay_per_s", rate(total, relay).round());
    outcome.figure("raw_per_s", rate(total, raw).round());
    outcome.figure("with_history_per_s", rate(total, with_history).round());
    Ok(outcome)
}

fn rate(events: u64, seconds: f64) -> f64 {
    events as f64 / seconds
}

/// Seconds that the relay takes for so many queued events, from the first that a reader could see to the last.
fn drain(pair: &Pair<'_>, name: &str, settings: &str, events: u64) -> Result<f64> {
    let outbox = pair.outbox(name, settings)?;
    outbox.fill(events, "'ORDER'", &format!("(n % {KEYS})::text"));
    let relay = outbox.relay(&["--until-empty"])?;
    let seen = pair.watch(events)?.finish(PATIENCE)?;
    relay.finish(PATIENCE)?;
    let left =
        outbox.number("SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM outbox_parked)")?;
    if left > 0 {
        return Err(Failure::new(format!("{left} events were left behind")));
    }
    let seen: Value = serde_json::from_str(&seen)?;
    let (first, seconds) = (figure(&seen, "first")?, figure(&seen, "seconds")?);
    // What was there at the first look is not part of the time.
    Ok(seconds * events as f64 / (events as f64 - first))
}

/// Seconds that the client alone takes for what the relay has just sent; what that was is looked at on the way.
fn publish_again(pair: &Pair<'_>, events: u64, account: &mut Report) -> Result<f64> {
    let settings = [CHANNELS.to_string(), IN_FLIGHT.to_string()];
    let found = pair.raw("again", events, &settings.each_ref().map(String::as_str))?;
    let distinct = figure(&found, "distinct")? as u64;
    account.committed += events;
    account.arrived += distinct;
    account.lost += events - distinct;
    account.reordered += figure(&found, "reordered")? as u64;
    figure(&found, "seconds")
}

fn figure(found: &Value, name: &str) -> Result<f64> {
    let number = found[name].as_f64();
    number.ok_or_else(|| Failure::new(format!("there is no {name} in {found}")))
}
