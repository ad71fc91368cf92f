//! [held-transaction] An unrelated transaction keeps its snapshot while events pass: the dead rows that nobody may
//! remove must not slow the reads down.

use std::process::Stdio;

use super::account::Report;
use super::outcome::Outcome;
use super::pg_measure::Measure;
use super::stage::Stage;
use crate::failure::{Doing, Failure, Result};
use postrider_testkit::process::Process;
use std::io::{BufRead, BufReader, Write};

const LAST_OVER_FIRST: f64 = 0.8;

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let events = stage.size(1_000_000, 100_000);
    let measure = Measure::new(stage)?;
    let database = measure.database()?;
    measure.fill(&database, events);
    let mut held = hold(&measure, &database.name)?;
    let drained = measure.drain(&database, &["drain"], events)?;
    let dead = measure.server.sql(
        &database.name,
        "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'outbox'",
    );
    held.kill()?;
    let ratio = drained.last / drained.first;
    let mut outcome = Outcome::of(Report::default());
    outcome.figure("events", events);
    outcome.bounded("last_over_first", ratio, ratio >= LAST_OVER_FIRST, "at least 0.8");
    outcome.figure("first_tenth_per_s", drained.first as u64);
    outcome.figure("last_tenth_per_s", drained.last as u64);
    outcome.figure("dead_rows", dead.parse::<u64>().unwrap_or(0));
    Ok(outcome)
}

/// A transaction with a snapshot that has written nothing, open until it is killed.
fn hold(measure: &Measure<'_>, database: &str) -> Result<Process> {
    let mut psql = measure.server.psql(database);
    psql.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = Process::spawn(&mut psql).doing(|| "starting psql".to_owned())?;
    let gone = || Failure::new("psql has no pipes");
    let input = process.child().stdin.as_mut().ok_or_else(gone)?;
    writeln!(input, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 'held';")?;
    input.flush()?;
    let output = process.child().stdout.take().ok_or_else(gone)?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    match line.trim() {
        "held" => Ok(process),
        other => Err(Failure::new(format!("the transaction is not open: {other}"))),
    }
}
