//! [redrive-crash] A redrive of 100,000 dead events is killed in the middle and resumed, and the relay that sends them
//! is killed three times on the way: none is lost, each is redriven once, and what arrives twice says so.

use std::collections::HashSet;
use std::time::Duration;

use postrider_testkit::ledger::Ledger;
use serde_json::Value;

use super::operated::{EVERYTHING, Line, Operated, STORES};
use super::outcome::Outcome;
use super::stage::Stage;
use crate::failure::{Failure, Result};

const PATIENCE: Duration = Duration::from_secs(600);

/// What one store was seen to do.
struct Crashed {
    dead: u64,
    /// Rows that were redriven when the redrive was killed.
    killed_at: u64,
    redriven: u64,
    jobs: usize,
    /// Rows that the audit says were redriven.
    audited: u64,
    /// What had arrived when the relay was killed, each time.
    relay_killed_at: Vec<u64>,
    repeats: u64,
    unmarked: u64,
}

/// Tenths of the arrivals at which the relay is killed.
const RELAY_KILLS: [u64; 3] = [2, 5, 8];

pub(super) fn play(stage: &Stage) -> Result<Outcome> {
    let many = stage.size(100_000, 6_000);
    let mut ledger = Ledger::new();
    let mut all = Vec::new();
    for store in STORES {
        all.push((store, crash(stage, store, many, &mut ledger)?));
    }
    let mut outcome = Outcome::of(ledger.report());
    let sum = |number: fn(&Crashed) -> u64| all.iter().map(|(_, one)| number(one)).sum::<u64>();
    outcome.figure("dead", sum(|one| one.dead));
    outcome.figure("redriven", sum(|one| one.redriven));
    outcome.figure(
        "killed_at",
        all.iter().map(|(_, one)| one.killed_at).collect::<Vec<_>>(),
    );
    let relay_killed_at = all.iter().map(|(_, one)| one.relay_killed_at.clone());
    outcome.figure("relay_killed_at", relay_killed_at.collect::<Vec<_>>());
    outcome.figure("jobs", sum(|one| one.jobs as u64));
    outcome.figure("audit_touched", sum(|one| one.audited));
    outcome.figure("repeats", sum(|one| one.repeats));
    outcome.figure("repeats_unmarked", sum(|one| one.unmarked));
    for (store, one) in &all {
        outcome.check(one.dead == many, || {
            format!("{store}: {} of {many} were dead", one.dead)
        });
        outcome.check(one.killed_at > 0 && one.killed_at < many, || {
            format!(
                "{store}: the redrive was killed at {} of {many}, not in the middle",
                one.killed_at
            )
        });
        let killed = &one.relay_killed_at;
        outcome.check(killed.iter().all(|at| *at > 0 && *at < many), || {
            format!("{store}: the relay was killed at {killed:?} of {many}, not in the middle")
        });
        let redriven = (one.redriven, one.audited, one.jobs);
        outcome.check(redriven == (many, many, 1), || {
            format!("{store}: (redriven, audited, jobs) is {redriven:?}")
        });
        outcome.check(one.unmarked == 0, || {
            format!(
                "{store}: {} repeats do not say that they may be some",
                one.unmarked
            )
        });
    }
    Ok(outcome)
}

fn crash(stage: &Stage, store: &'static str, many: u64, ledger: &mut Ledger) -> Result<Crashed> {
    let outbox = Operated::open(stage, store, store)?;
    stage.note(&format!("{store}: {many} events without a route"));
    // A key for each: behind a dead one its followers would wait instead of being dead themselves.
    for committed in outbox.send(&outbox.orders(0..many, many))? {
        ledger.commit(&committed)?;
    }
    outbox.ends(&["run", "--until-empty"], 1)?;
    let status = outbox.values(&["status"])?.pop().unwrap_or_default();
    outbox.route(EVERYTHING)?;

    stage.note(&format!("{store}: redriving"));
    let mut relay = outbox.start(&["run"])?;
    let redrive = outbox.start(&["dead", "redrive", "--all", "--yes"])?;
    let killed = outbox.kill_in_job(redrive, many / 10, PATIENCE)?;
    let id = text(&killed, "job")?;
    stage.note(&format!("{store}: killed at {}", killed["touched"]));
    let mut resumed = None;
    if killed["state"] == "running" {
        resumed = Some(outbox.start(&["job", "resume", &id])?);
    }
    let mut relay_killed_at = Vec::new();
    for tenths in RELAY_KILLS {
        outbox.follow("").until(many * tenths / 10, PATIENCE)?;
        relay.kill()?;
        relay_killed_at.push(outbox.arrived()?);
        relay = outbox.start(&["run"])?;
    }
    if let Some(resumed) = resumed {
        resumed.finish(PATIENCE)?;
    }
    outbox.drained(PATIENCE)?;
    relay.terminate(PATIENCE)?;

    let lines = outbox.lines()?;
    lines.iter().for_each(|line| ledger.arrive(&line.arrived()));
    let (repeats, unmarked) = repeats(&lines);
    let audit = outbox.values(&["audit", "-n", "1000"])?;
    let redrives = audit.iter().filter(|entry| entry["action"] == "redrive");
    Ok(Crashed {
        dead: number(&status, "dead"),
        killed_at: number(&killed, "touched"),
        redriven: number(&outbox.job(0, PATIENCE)?, "touched"),
        jobs: outbox.values(&["job", "list"])?.len(),
        audited: redrives.map(|entry| number(entry, "touched")).sum(),
        relay_killed_at,
        repeats,
        unmarked,
    })
}

/// Arrivals beyond the first of an event, and how many of them do not say that they may be repeats.
fn repeats(lines: &[Line]) -> (u64, u64) {
    let mut seen = HashSet::new();
    let repeats: Vec<&Line> = lines.iter().filter(|line| !seen.insert(line.id())).collect();
    let unmarked = repeats.iter().filter(|line| !line.is_marked()).count();
    (repeats.len() as u64, unmarked as u64)
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

fn text(value: &Value, name: &str) -> Result<String> {
    let text = value[name].as_str().map(str::to_owned);
    text.ok_or_else(|| Failure::new(format!("no {name} in {value}")))
}
