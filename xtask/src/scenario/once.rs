//! [once-rabbitmq-postgres] Every event several times, four listeners, two of them killed again and again: each effect
//! happens once, and with a single active consumer each key is in order.

use std::time::Duration;

use super::account::Report;
use super::listeners::{effects, fill, listen, nothing_done, report};
use super::outcome::Outcome;
use super::pair::{Pair, Setup};
use super::process::Process;
use super::stage::Stage;
use super::wait::until_every;
use crate::failure::{Failure, Result};

const LISTENERS: usize = 4;
/// The first of them are killed, in turn.
const KILLED: usize = 2;
const KILLS: usize = 12;
const LOOK_EVERY: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(900);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let events: u64 = stage.size(100_000, 4_000);
    let pair = Pair::open(stage, &Setup::default())?;
    let mut outcome = Outcome::of(Report::default());
    for (queue, single) in [("once", false), ("once-in-order", true)] {
        // The second time is about order, for which fewer events do.
        let events = if single { events / 4 } else { events };
        let found = listeners(stage, &pair, queue, single, events)?;
        outcome.check(found.effects == events && found.of_events == events, || {
            format!(
                "{queue}: {} effects of {} events, not {events}",
                found.effects, found.of_events
            )
        });
        outcome.check(found.kills >= 10, || {
            format!("{queue}: {} kills are too few", found.kills)
        });
        outcome.check(found.dead == 0, || {
            format!("{queue}: {} dead letters", found.dead)
        });
        if single {
            let reordered = reordered(&pair)?;
            outcome.check(reordered == 0, || {
                format!("{reordered} effects before an earlier one of their key")
            });
            outcome.figure("effects_in_order", found.effects);
        } else {
            outcome.figure("effects", found.effects);
            outcome.figure("messages", found.messages);
            outcome.figure("kills", found.kills);
        }
    }
    Ok(outcome)
}

struct Found {
    effects: u64,
    of_events: u64,
    messages: u64,
    kills: usize,
    dead: u64,
}

fn listeners(stage: &Stage, pair: &Pair<'_>, queue: &str, single: bool, events: u64) -> Result<Found> {
    nothing_done(pair)?;
    let number = events.to_string();
    let mut arguments = vec!["--events", &number, "--copies", "4"];
    if single {
        arguments.push("--single");
    }
    let filled = fill(pair, queue, &arguments)?;
    let messages = filled["messages"].as_u64().unwrap_or(0);
    stage.note(&format!("{messages} messages of {events} events in {queue}"));
    let start = || listen(stage, pair, queue, &["--prefetch", "100", "--batch", "20"]);
    let mut running: Vec<Process> = (0..LISTENERS).map(|_| start()).collect::<Result<_>>()?;
    let mut kills = 0;
    while kills < KILLS {
        // Evenly over the run, and each in the middle of its work.
        let wanted = events * (kills as u64 + 1) / (KILLS as u64 + 2);
        until_every(LOOK_EVERY, "there are more effects", PATIENCE, || {
            Ok((effects(pair)?.0 >= wanted).then_some(()))
        })?;
        let killed = std::mem::replace(&mut running[kills % KILLED], start()?);
        killed.kill()?;
        kills += 1;
    }
    until_every(LOOK_EVERY, "the queue is empty", PATIENCE, || {
        Ok((pair.ready(queue)? == 0 && effects(pair)?.1 >= events).then_some(()))
    })?;
    for listener in running {
        let report = report(listener)?;
        stage.note(&format!("{queue}: {report}"));
    }
    // Whatever a listener held without an acknowledgement has come back by now.
    if pair.ready(queue)? > 0 {
        return Err(Failure::new(format!("{queue} is not empty")));
    }
    let (effects, of_events) = effects(pair)?;
    let dead = pair.ready("dead")?;
    Ok(Found {
        effects,
        of_events,
        messages,
        kills,
        dead,
    })
}

/// Effects that came before an earlier event of their key.
fn reordered(pair: &Pair<'_>) -> Result<u64> {
    pair.database().number(
        "SELECT count(*) FROM (
           SELECT n < lag(n) OVER (PARTITION BY key ORDER BY at) AS wrong FROM effects) ordered WHERE wrong",
    )
}
