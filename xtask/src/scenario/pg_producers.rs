//! [producers-beside-relay] 64 connections that insert one event a transaction, beside a relay that is rung, against
//! the same table with neither relay nor trigger.
//!
//! Producers, relay and server share the cores of one machine, as they do nowhere in production: the relay's own work
//! is part of what is measured. The arms take turns, each in a database of its own.

use std::time::Duration;

use super::account::Report;
use super::outcome::Outcome;
use super::pg_measure::{Measure, median};
use super::stage::Stage;
use crate::failure::{Failure, Result};

const SHARE: f64 = 0.85;
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let (seconds, turns) = (stage.size("8", "1.5"), stage.size(7, 1));
    let measure = Measure::new(stage)?;
    let (mut alone, mut beside, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..turns {
        // The machine grows slower or faster over a run: who goes first changes, and a pair is compared with itself.
        let first = insert(&measure, seconds, turn % 2 == 1)?;
        let second = insert(&measure, seconds, turn % 2 == 0)?;
        let (without, with) = match turn % 2 {
            0 => (first, second),
            _ => (second, first),
        };
        stage.note(&format!("alone {without:.0}/s, beside a relay {with:.0}/s"));
        alone.push(without);
        beside.push(with);
        shares.push(with / without);
    }
    let share = median(shares);
    let (alone, beside) = (median(alone), median(beside));
    let mut outcome = Outcome::of(Report::default());
    outcome.bounded("share", share, share >= SHARE, "at least 0.85");
    outcome.figure("beside_per_s", beside as u64);
    outcome.figure("alone_per_s", alone as u64);
    Ok(outcome)
}

fn insert(measure: &Measure<'_>, seconds: &str, with_relay: bool) -> Result<f64> {
    let database = measure.database()?;
    let relay = match with_relay {
        true => Some(measure.start(&database, &["relay"])?),
        false => {
            let sql = "ALTER TABLE outbox DISABLE TRIGGER outbox_ring";
            measure.server.sql(&database.name, sql);
            None
        }
    };
    let figures = measure.run(&database, &["insert", "--clients", "64", "--seconds", seconds])?;
    if let Some(relay) = relay {
        relay.finish(PATIENCE)?;
    }
    measure.done(&database);
    figures["per_s"]
        .as_f64()
        .ok_or_else(|| Failure::new(format!("there is no rate in {figures}")))
}
