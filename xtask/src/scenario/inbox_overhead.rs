//! [inbox-overhead] A handler that inserts one row, by a listener with the inbox and by one that does the same
//! transactions without it.

use std::time::Duration;

use super::account::Report;
use super::listeners::{effects, fill, listen, nothing_done, report};
use super::outcome::Outcome;
use super::pair::{Pair, Setup};
use super::stage::Stage;
use super::wait::until_every;
use crate::failure::{Failure, Result};

/// What is to be left of the rate without the inbox.
const SHARE: f64 = 0.7;
const QUEUE: &str = "overhead";
const LOOK_EVERY: Duration = Duration::from_millis(250);
const PATIENCE: Duration = Duration::from_secs(300);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let (events, rounds) = stage.size((50_000, 3), (5_000, 1));
    let pair = Pair::open(stage, &Setup::default())?;
    let mut seconds = [0.0; 2];
    // Each in turn, again and again: whatever else the machine does then falls on both.
    for _ in 0..rounds {
        for (arm, flags) in [&[][..], &["--without-inbox"]].into_iter().enumerate() {
            seconds[arm] += listened(stage, &pair, events, flags)?;
        }
        stage.note(&format!(
            "seconds so far, with the inbox and without: {seconds:?}"
        ));
    }
    let [with, without] = seconds;
    let share = without / with;
    let mut outcome = Outcome::of(Report::default());
    outcome.bounded("share", share, share >= SHARE, "at least 0.7");
    for (name, seconds) in [("with_inbox_per_s", with), ("without_inbox_per_s", without)] {
        outcome.figure(name, ((events * rounds) as f64 / seconds).round());
    }
    Ok(outcome)
}

/// Seconds from the first effect to the last.
fn listened(stage: &Stage, pair: &Pair<'_>, events: u64, flags: &[&str]) -> Result<f64> {
    nothing_done(pair)?;
    fill(pair, QUEUE, &["--events", &events.to_string()])?;
    let listener = listen(stage, pair, QUEUE, flags)?;
    until_every(LOOK_EVERY, "every event has taken effect", PATIENCE, || {
        Ok((effects(pair)?.0 >= events).then_some(()))
    })?;
    report(listener)?;
    let rows = pair.database().rows(
        "SELECT extract(epoch FROM max(done) - min(done))::float8 FROM effects",
        &[],
    )?;
    let row = rows.first().ok_or_else(|| Failure::new("there are no effects"))?;
    Ok(row.try_get(0)?)
}
