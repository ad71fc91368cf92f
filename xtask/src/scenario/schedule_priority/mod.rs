//! [schedule-priority] Scheduled events leave at their time; a high one overtakes whatever is queued; low ones leave
//! too while there are high ones. From SQLite into a file, from PostgreSQL into RabbitMQ.

mod fair;
mod overtake;
mod scheduled;

use super::account::Report;
use super::operated::STORES;
use super::outcome::Outcome;
use super::stage::Stage;
use crate::failure::Result;

const LATE_LIMIT_MS: f64 = 100.0;
const OVERTAKE_LIMIT_MS: f64 = 50.0;
/// At the reduced size, among other tests, it is only told whether there are times and lanes at all: a high event that
/// waits for the others takes ten seconds and more.
const REDUCED_LIMIT_MS: f64 = 2_000.0;
/// What must have left of the low ones when the last of twenty times as many high ones leaves.
const FAIR: f64 = 0.9;

/// The names of a store's figures. `overtake_ms` is the 99th percentile, as the lateness of scheduled events is; the
/// worst stands beside it, which on a machine that shares its cores is that of the machine, and what the commits of the
/// inserts alone took, and what they waited for other writers before.
struct Names {
    late_p50: &'static str,
    late_p99: &'static str,
    overtake_p50: &'static str,
    overtake: &'static str,
    overtake_worst: &'static str,
    commit: &'static str,
    lock: &'static str,
    backlog: &'static str,
    low: &'static str,
}

const SQLITE: Names = Names {
    late_p50: "late_p50_ms_sqlite",
    late_p99: "late_p99_ms_sqlite",
    overtake_p50: "overtake_p50_ms_sqlite",
    overtake: "overtake_ms_sqlite",
    overtake_worst: "overtake_worst_ms_sqlite",
    commit: "overtake_commit_p99_ms_sqlite",
    lock: "overtake_lock_p99_ms_sqlite",
    backlog: "backlog_sqlite",
    low: "low_beside_high_sqlite",
};
const POSTGRES: Names = Names {
    late_p50: "late_p50_ms_postgres",
    late_p99: "late_p99_ms_postgres",
    overtake_p50: "overtake_p50_ms_postgres",
    overtake: "overtake_ms_postgres",
    overtake_worst: "overtake_worst_ms_postgres",
    commit: "overtake_commit_p99_ms_postgres",
    lock: "overtake_lock_p99_ms_postgres",
    backlog: "backlog_postgres",
    low: "low_beside_high_postgres",
};

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let mut outcome = Outcome::of(Report::default());
    let late_limit = stage.size(LATE_LIMIT_MS, REDUCED_LIMIT_MS);
    let overtake_limit = stage.size(OVERTAKE_LIMIT_MS, REDUCED_LIMIT_MS);
    for (store, names) in STORES.into_iter().zip([SQLITE, POSTGRES]) {
        let late = scheduled::play(stage, store)?;
        outcome.check(late.early == 0, || {
            format!("{store}: {} left before their time", late.early)
        });
        outcome.bounded(names.late_p50, late.times.p50, true, "anything");
        let bound = format!("at most {late_limit}");
        outcome.bounded(
            names.late_p99,
            late.times.p99,
            late.times.p99 <= late_limit,
            &bound,
        );

        let overtaken = overtake::play(stage, store)?;
        outcome.bounded(names.overtake_p50, overtaken.times.p50, true, "anything");
        let bound = format!("at most {overtake_limit}");
        let p99 = overtaken.times.p99;
        outcome.bounded(names.overtake, p99, p99 <= overtake_limit, &bound);
        outcome.bounded(names.overtake_worst, overtaken.worst, true, "anything");
        outcome.bounded(names.commit, overtaken.commits.p99, true, "anything");
        outcome.bounded(names.lock, overtaken.waits.p99, true, "anything");
        outcome.figure(names.backlog, vec![overtaken.before, overtaken.after]);
        outcome.check(overtaken.after > 0, || {
            format!("{store}: nothing was left to overtake in the end")
        });

        let low = fair::play(stage, store)?;
        outcome.figure(names.low, (low * 1_000.0).round() / 1_000.0);
        outcome.check(low >= FAIR, || {
            format!("{store}: {low:.3} of the low ones left beside high ones, it must be at least {FAIR}")
        });
    }
    Ok(outcome)
}
