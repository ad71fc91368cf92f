//! [cleanup-under-load] A million old rows are removed by the cleanup of a relay, at its time, while services insert
//! one event a transaction and the relay publishes them; on PostgreSQL that drops days and removes what was restored
//! row by row, on SQLite everything goes row by row.
//!
//! Slices with and without cleaning take turns, and each is compared with its neighbour: a machine that gets slower
//! meanwhile must not look like a cost of the cleaning. A relay whose term for the history is long finds nothing to do;
//! one whose term is shorter than that of the slice before finds another day.

mod old;

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::account::Report;
use super::operated::{Operated, STORES};
use super::outcome::Outcome;
use super::pg_measure::median;
use super::process::Process;
use super::stage::Stage;
use super::wait::{until, until_every};
use crate::cargo::release_binary;
use crate::failure::{Failure, Result};

use self::old::{Days, PARKED};

const RATIO: f64 = 2.0;
/// Over the few seconds of the reduced size only a cleanup that shuts producers out can be told from the machine.
const RATIO_REDUCED: f64 = 20.0;
const PATIENCE: Duration = Duration::from_secs(600);
/// A look counts rows.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What one store was seen to do.
struct Cleaned {
    ratio: f64,
    p99: f64,
    p99_without: f64,
    /// Old rows that went while producers were at work, and in all.
    under_load: u64,
    removed: u64,
    /// New events that are neither queued nor published.
    lost: u64,
    parked: u64,
}

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let days = Days {
        count: stage.size(8, 2),
        rows: stage.size(125_000, 10_000),
    };
    let mut outcome = Outcome::of(Report::default());
    let mut all = Vec::new();
    for store in STORES {
        all.push((store, clean(stage, store, &days)?));
    }
    let worst = all.iter().map(|(_, one)| one.ratio).fold(0.0, f64::max);
    let limit = stage.size(RATIO, RATIO_REDUCED);
    outcome.bounded("p99_ratio", worst, worst <= limit, &format!("at most {limit}"));
    for (store, one) in &all {
        let names = names(store);
        let values = [one.ratio, one.p99, one.p99_without];
        for (name, value) in names.into_iter().zip(values) {
            outcome.bounded(name, value, true, "anything");
        }
        judge(&mut outcome, store, &days, one);
    }
    let sum = |number: fn(&Cleaned) -> u64| all.iter().map(|(_, one)| number(one)).sum::<u64>();
    outcome.figure("removed", sum(|one| one.removed));
    outcome.figure("removed_under_load", sum(|one| one.under_load));
    outcome.figure("queued_touched", sum(|one| one.lost));
    outcome.figure("parked_touched", sum(|one| PARKED - one.parked.min(PARKED)));
    Ok(outcome)
}

fn names(store: &str) -> [&'static str; 3] {
    match store {
        "postgres" => ["p99_ratio_postgres", "p99_ms_postgres", "p99_ms_without_postgres"],
        _ => ["p99_ratio_sqlite", "p99_ms_sqlite", "p99_ms_without_sqlite"],
    }
}

fn judge(outcome: &mut Outcome, store: &str, days: &Days, one: &Cleaned) {
    let (all, removed, under_load) = (days.all(), one.removed, one.under_load);
    outcome.check(removed == all, || {
        format!("{store}: {removed} of {all} old rows were removed")
    });
    outcome.check(under_load > all / 4, || {
        format!("{store}: only {under_load} of {all} old rows were removed under load")
    });
    outcome.check(one.parked == PARKED, || {
        format!("{store}: {} of {PARKED} parked rows are left", one.parked)
    });
    outcome.check(one.lost == 0, || {
        format!(
            "{store}: {} new events are neither queued nor published",
            one.lost
        )
    });
}

fn clean(stage: &Stage, store: &'static str, days: &Days) -> Result<Cleaned> {
    let outbox = Operated::open(stage, store, store)?;
    stage.note(&format!("{store}: writing {} old rows", days.all()));
    days.fill(&outbox)?;
    let mut slices = Slices {
        outbox: &outbox,
        seconds: stage.size("6", "2"),
        inserted: 0,
    };
    let (mut with, mut without, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..days.count {
        let term = days.term(turn);
        let (calm, cleaning) = match turn % 2 {
            0 => {
                let calm = slices.play(None)?;
                (calm, slices.play(Some(term))?)
            }
            _ => {
                let cleaning = slices.play(Some(term))?;
                (slices.play(None)?, cleaning)
            }
        };
        stage.note(&format!(
            "{store}: p99 {calm:.1} ms, with cleaning {cleaning:.1} ms"
        ));
        without.push(calm);
        with.push(cleaning);
        ratios.push(cleaning / calm.max(0.001));
    }
    let under_load = days.all() - old::left(&outbox)?;
    slices.finish(days.term(days.count - 1))?;
    let kept = outbox.number(
        "SELECT (SELECT count(*) FROM outbox)
              + (SELECT count(*) FROM outbox_sent WHERE event_id NOT LIKE 'old-%')",
    )?;
    Ok(Cleaned {
        ratio: median(ratios),
        p99: median(with),
        p99_without: median(without),
        under_load,
        removed: days.all() - old::left(&outbox)?,
        lost: slices.inserted.saturating_sub(kept),
        parked: outbox.number("SELECT count(*) FROM outbox_parked")?,
    })
}

/// Producers for a while beside a relay, again and again.
struct Slices<'a> {
    outbox: &'a Operated<'a>,
    seconds: &'static str,
    /// Events of all producers so far.
    inserted: u64,
}

impl Slices<'_> {
    /// One slice, in which history older than so many days is removed, or nothing; gives the slow end of the inserts,
    /// in milliseconds.
    fn play(&mut self, term: Option<u64>) -> Result<f64> {
        self.due(term)?;
        let newest = "SELECT coalesce(max(seq), 0) FROM outbox";
        let before = self.outbox.number(newest)?;
        let producers = self.producers()?;
        until("producers insert", PATIENCE, || {
            Ok((self.outbox.number(newest)? > before).then_some(()))
        })?;
        let relay = self.outbox.start(&["run"])?;
        let figures: Value = serde_json::from_str(&producers.finish(PATIENCE)?)?;
        let claimed = self
            .outbox
            .number("SELECT count(*) FROM outbox_duty WHERE name = 'cleanup'")?;
        relay.terminate(PATIENCE)?;
        if claimed == 0 {
            return Err(Failure::new("no relay looked after the cleanup in a slice"));
        }
        self.inserted += figures["events"].as_u64().unwrap_or(0);
        figures["p99_ms"]
            .as_f64()
            .ok_or_else(|| Failure::new(format!("there is no p99 in {figures}")))
    }

    /// What the slices left, at the same pace.
    fn finish(&self, term: u64) -> Result<()> {
        self.due(Some(term))?;
        let relay = self.outbox.start(&["run"])?;
        let finished = "SELECT count(*) FROM outbox_duty WHERE name = 'cleanup' AND finished_at IS NOT NULL";
        until_every(LOOK_EVERY, "the cleanup is over", PATIENCE, || {
            Ok((self.outbox.number(finished)? > 0).then_some(()))
        })?;
        relay.terminate(PATIENCE)
    }

    /// Makes the cleanup of last night one that was missed, so that the next relay makes up for it at once.
    fn due(&self, term: Option<u64>) -> Result<()> {
        let days = term.unwrap_or(old::LONG);
        self.outbox
            .route_beside(&format!("[cleanup]\nretention = \"{days}d\"\n"))?;
        self.outbox
            .sql("DELETE FROM outbox_duty WHERE name = 'cleanup'")
            .map(drop)
    }

    /// On a file, where one writes at a time, a few that leave pauses; elsewhere as many as the server can serve.
    fn producers(&self) -> Result<Process> {
        let how = match self.outbox.store() {
            "postgres" => ["--clients", "16", "--pause-ms", "0"],
            _ => ["--clients", "4", "--pause-ms", "5"],
        };
        let mut command = Command::new(release_binary("postrider-bench")?);
        command.args(["--url", &self.outbox.url(), "insert", "--seconds", self.seconds]);
        let log = self.outbox.directory().join("producers.log");
        command.args(how);
        Process::start("the producers", command, &log)
    }
}
