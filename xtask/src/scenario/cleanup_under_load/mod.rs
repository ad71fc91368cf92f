//! [cleanup-under-load] A million old rows are removed by the cleanup of a relay, at its time, while services insert
//! one event a transaction and the relay publishes them; on PostgreSQL that drops days and removes what was restored
//! row by row, on SQLite everything goes row by row.
//!
//! Slices with and without cleaning take turns until nothing old is left, and each is compared with its neighbour: a
//! machine that gets slower meanwhile must not look like a cost of the cleaning. A relay whose term for the history is
//! long finds nothing to do.

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
use super::wait::until;
use crate::cargo::release_binary;
use crate::failure::{Failure, Result};

use self::old::{Days, PARKED};

const RATIO: f64 = 2.0;
/// Over the few seconds of the reduced size only a cleanup that shuts producers out can be told from the machine.
const RATIO_REDUCED: f64 = 20.0;
const PATIENCE: Duration = Duration::from_secs(600);
/// Far more turns than a million rows take.
const TURNS: u64 = 80;

/// What one store was seen to do.
struct Cleaned {
    ratio: f64,
    p99: f64,
    p99_without: f64,
    /// Slices with cleaning.
    turns: u64,
    /// Old rows that went while producers were at work.
    removed: u64,
    /// New events that are neither queued nor published.
    lost: u64,
    parked: u64,
}

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let days = Days {
        count: stage.size(8, 2),
        rows: stage.size(125_000, 4_000),
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
        let values = [one.ratio, one.p99, one.p99_without, one.turns as f64];
        for (name, value) in names.into_iter().zip(values) {
            outcome.bounded(name, value, true, "anything");
        }
        judge(&mut outcome, store, &days, one);
    }
    let sum = |number: fn(&Cleaned) -> u64| all.iter().map(|(_, one)| number(one)).sum::<u64>();
    outcome.figure("removed", sum(|one| one.removed));
    outcome.figure("queued_touched", sum(|one| one.lost));
    outcome.figure("parked_touched", sum(|one| PARKED - one.parked.min(PARKED)));
    Ok(outcome)
}

fn names(store: &str) -> [&'static str; 4] {
    match store {
        "postgres" => [
            "p99_ratio_postgres",
            "p99_ms_postgres",
            "p99_ms_without_postgres",
            "slices_postgres",
        ],
        _ => [
            "p99_ratio_sqlite",
            "p99_ms_sqlite",
            "p99_ms_without_sqlite",
            "slices_sqlite",
        ],
    }
}

fn judge(outcome: &mut Outcome, store: &str, days: &Days, one: &Cleaned) {
    let (all, removed) = (days.all(), one.removed);
    outcome.check(removed == all, || {
        format!("{store}: {removed} of {all} old rows were removed under load")
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
        seconds: seconds(stage, store),
        inserted: 0,
    };
    let (mut with, mut without, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut left = days.all();
    for turn in 0..TURNS {
        let term = days.due(store, turn);
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
        left = old::left(&outbox)?;
        stage.note(&format!(
            "{store}: p99 {calm:.1} ms, with cleaning {cleaning:.1} ms, {left} old rows left"
        ));
        without.push(calm);
        with.push(cleaning);
        ratios.push(cleaning / calm.max(0.001));
        if left == 0 {
            break;
        }
    }
    let kept = outbox.number(
        "SELECT (SELECT count(*) FROM outbox)
              + (SELECT count(*) FROM outbox_sent WHERE event_id NOT LIKE 'old-%')",
    )?;
    Ok(Cleaned {
        turns: ratios.len() as u64,
        ratio: median(ratios),
        p99: median(with),
        p99_without: median(without),
        removed: days.all() - left,
        lost: slices.inserted.saturating_sub(kept),
        parked: outbox.number("SELECT count(*) FROM outbox_parked")?,
    })
}

/// How long a slice is, without cleaning and with it. A file is cleaned at a pace that producers do not feel, which
/// takes minutes; days are dropped within seconds, and the rest of a long slice would hide what that costs.
fn seconds(stage: &Stage, store: &str) -> [&'static str; 2] {
    match store {
        "postgres" => stage.size(["6", "6"], ["2", "2"]),
        _ => stage.size(["6", "18"], ["2", "2"]),
    }
}

/// Producers for a while beside a relay, again and again.
struct Slices<'a> {
    outbox: &'a Operated<'a>,
    /// Of one without cleaning, and of one with it.
    seconds: [&'static str; 2],
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
        let producers = self.producers(self.seconds[usize::from(term.is_some())])?;
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
    fn producers(&self, seconds: &str) -> Result<Process> {
        let how = match self.outbox.store() {
            "postgres" => ["--clients", "16", "--pause-ms", "0"],
            _ => ["--clients", "4", "--pause-ms", "5"],
        };
        let mut command = Command::new(release_binary("postrider-bench")?);
        command.args(["--url", &self.outbox.url(), "insert", "--seconds", seconds]);
        let log = self.outbox.directory().join("producers.log");
        command.args(how);
        Process::start("the producers", command, &log)
    }
}
