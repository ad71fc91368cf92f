//! [drain-null] PostgreSQL into a sink that discards, history off: the relay against a program without an engine that
//! runs the same read and settle statements in one loop.
//!
//! The arms take turns on a server that syncs every commit, each in a database of its own, and the medians are
//! compared.

use super::account::Report;
use super::outcome::Outcome;
use super::pg_measure::{Measure, median};
use super::stage::Stage;
use crate::failure::Result;

const SHARE: f64 = 0.5;

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let (events, turns) = (stage.size(500_000, 40_000), stage.size(3, 1));
    let measure = Measure::new(stage)?;
    let (mut relay, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..turns {
        for (how, rates) in [("bare", &mut bare), ("drain", &mut relay)] {
            let database = measure.database()?;
            measure.fill(&database, events);
            rates.push(measure.drain(&database, &[how], events)?.per_s);
            measure.done(&database);
        }
    }
    let (relay, bare) = (median(relay), median(bare));
    let share = relay / bare;
    let mut outcome = Outcome::of(Report::default());
    outcome.figure("events", events);
    outcome.bounded("share", share, share >= SHARE, "at least 0.5");
    outcome.figure("relay_per_s", relay as u64);
    outcome.figure("bare_per_s", bare as u64);
    Ok(outcome)
}
