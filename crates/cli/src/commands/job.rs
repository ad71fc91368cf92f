//! `postrider job`: long work that somebody began, and who goes on with it.

use std::cmp::Reverse;
use std::time::Instant;

use postrider_core::{Filter, Job, JobId, JobKind, JobState, JobVerb, Status, StoreError, Verb};
use serde_json::{Value, json};

use super::ask::actor;
use super::drive::{Drive, Driven};
use super::merge::merged;
use super::page::through;
use crate::cli::JobArg;
use crate::config::Config;
use crate::failure::{Done, Failed, Failure};
use crate::leave::Leave;
use crate::output::{Output, cell, time};
use crate::signal;
use crate::wire::{self, Opened};

/// The jobs that are looked at, the newest of them.
const JOBS: u32 = 1_000;
/// Steps in which a replay is seen to its end, of some thousand rows each: what is left then is left to the next time.
const PASSES: u32 = 1_000;

/// Which job.
pub struct Wanted<'a> {
    pub id: &'a str,
    pub outbox: Option<&'a str>,
}

impl<'a> From<&'a JobArg> for Wanted<'a> {
    fn from(job: &'a JobArg) -> Self {
        Self {
            id: &job.id,
            outbox: job.outbox.outbox.as_deref(),
        }
    }
}

/// Jobs, the newest first.
pub async fn list(config: &Config, out: Output, outbox: Option<&str>, limit: u32) -> Result<Done, Failure> {
    let mut failed = Failed::default();
    let mut found = Vec::new();
    for (name, outbox) in wire::chosen(config, outbox)? {
        let jobs = async {
            let opened = wire::ready(name, outbox).await?;
            let jobs = opened.console.jobs(None, limit).await;
            jobs.map_err(|error| Failure::store(name, &error))
        };
        let jobs = failed.keep(jobs.await).unwrap_or_default();
        found.push(jobs.into_iter().map(|job| (name, job)).collect());
    }
    let mut rows = Vec::new();
    for (name, job) in merged(found, limit, |(_, job)| Reverse(job.begun_at)) {
        match out.is_json() {
            true => out.value(&value(name, &job))?,
            false => rows.push(row(name, &job)),
        }
    }
    match (out.is_json() || failed.is_some(), rows.is_empty()) {
        (true, true) => {}
        (false, true) => out.line("no jobs")?,
        (_, false) => out.table(&HEADERS, rows)?,
    }
    failed.or(out.is_json(), Done::Fine)
}

/// As `job show` says it: of a replay, `DONE` counts the copies that are made, also those that are not sent.
const HEADERS: [&str; 8] = [
    "JOB", "KIND", "STATE", "DONE", "NOT SENT", "REFUSED", "BEGUN", "BY",
];

fn row(outbox: &str, job: &Job) -> Vec<String> {
    vec![
        job.id.to_string(),
        job.kind.as_str().to_owned(),
        job.state.as_str().to_owned(),
        job.touched.to_string(),
        match job.kind {
            JobKind::Replay(_) => job.waiting.to_string(),
            JobKind::Act(_) | JobKind::Restore(_) => "-".to_owned(),
        },
        job.refused.to_string(),
        time(job.begun_at),
        format!("{} ({outbox})", cell(&job.actor)),
    ]
}

/// Everything known about one job.
pub async fn show(config: &Config, out: Output, wanted: Wanted<'_>) -> Result<Done, Failure> {
    let (opened, job) = find(config, &wanted).await?;
    tell(config, out, &opened, &job).await
}

/// Goes on with a job: one that was paused, or one that nobody drives any more.
pub async fn resume(
    config: &Config,
    out: Output,
    wanted: Wanted<'_>,
    rate: Option<u32>,
) -> Result<Done, Failure> {
    let (opened, mut job) = find(config, &wanted).await?;
    // Before anything is changed.
    if rate.is_some() && !matches!(job.kind, JobKind::Replay(_)) {
        return Err(Failure::input("only a replay has a rate").advice("leave out --rate"));
    }
    match job.state {
        JobState::Done | JobState::Cancelled => return Err(over(config, &opened.name, &job, "resumed")),
        _ if matches!(job.kind, JobKind::Restore(_)) => {
            let kind = job.kind.as_str();
            let failure = Failure::input(format!("a job of the kind {kind} goes on where its files are"));
            return Err(failure.advice(format!("give {}", goes_on_by(config, &opened.name, &job))));
        }
        JobState::Paused => job = steer(&opened, &job, JobVerb::Resume).await?,
        JobState::Running => {}
    }
    if let Some(rate) = rate {
        job = steer(&opened, &job, JobVerb::Pace(rate)).await?;
    }
    let stop = signal::stop_token();
    let drive = Drive {
        outbox: &opened,
        out,
        of: None,
        stop: &stop,
    };
    finish(out, &drive.on(job).await?)
}

/// What goes on with a job of an outbox. One that reads files has to be told which outbox it is of.
pub fn goes_on_by(config: &Config, outbox: &str, job: &Job) -> String {
    match job.kind {
        JobKind::Restore(_) => format!(
            "`postrider archive restore --job {}{}` with the same --dir",
            job.id,
            wire::option(config, outbox)
        ),
        JobKind::Act(_) | JobKind::Replay(_) => format!("`postrider job resume {}`", job.id),
    }
}

/// What a job that is running needs of a person: whether somebody drives it is not known here.
pub const UNLESS_DRIVEN: &str = "if nobody drives it any more";

/// What sends what a restore has read back.
pub fn sent_by(config: &Config, outbox: &str, job: &Job) -> String {
    let option = wire::option(config, outbox);
    format!("`postrider replay --restored {}{option}`", job.id)
}

/// Tells how a job that was driven ended.
pub fn finish(out: Output, driven: &Driven) -> Result<Done, Failure> {
    out.either(&driven.value(), driven.text())?;
    Ok(driven.done())
}

/// How many copies of a replay are in a state. A job is done when nothing of it is left to a relay, so only how many
/// are dead tells whether they arrived.
pub async fn copies(opened: &Opened, job: &Job, status: Status) -> Result<u64, Failure> {
    if !matches!(job.kind, JobKind::Replay(_)) {
        return Ok(0);
    }
    let filter = Filter {
        replay: Some(job.id.clone()),
        status: vec![status],
        ..Filter::default()
    };
    let mut found = 0;
    through(opened, &filter, |events| {
        let copies = events.iter().map(|record| filter.matching(record).len());
        found += copies.sum::<usize>() as u64;
        true
    })
    .await?;
    Ok(found)
}

/// Writes down that replays are done whose copies are gone, and whose driver is: nobody else does, and what is not
/// written down stays for ever.
pub async fn end_replays(opened: &Opened, leave: &mut dyn Leave) -> Result<(), Failure> {
    let failed = |error| Failure::store(&opened.name, &error);
    for job in opened.console.jobs(None, JOBS).await.map_err(failed)? {
        let may_end = matches!(job.state, JobState::Running | JobState::Done);
        if may_end && matches!(job.kind, JobKind::Replay(_)) {
            end_replay(opened, job, leave).await.map_err(failed)?;
        }
    }
    Ok(())
}

/// A step passes over so many rows that are not meant, and the end may be far. Each is followed by a rest as long as it
/// was, because where one writes at a time producers wait for it.
async fn end_replay(opened: &Opened, mut job: Job, leave: &mut dyn Leave) -> Result<(), StoreError> {
    for _ in 0..PASSES {
        if !leave.to_go_on().await {
            break;
        }
        let (at, began) = (job.cursor.take(), Instant::now());
        job = opened.console.step(job.id, 0).await?.job;
        if job.state != JobState::Running || job.cursor == at {
            break;
        }
        tokio::time::sleep(began.elapsed()).await;
    }
    Ok(())
}

/// What a person does about dead copies.
pub fn about_dead(job: &Job) -> String {
    format!(
        "`postrider events --replay {} --status dead` lists the dead copies: mend what `postrider dead show ID` tells, \
         then send them with `postrider dead redrive ID`",
        job.id
    )
}

/// Stops a job for a while.
pub async fn pause(config: &Config, out: Output, wanted: Wanted<'_>) -> Result<Done, Failure> {
    change(config, out, &wanted, JobVerb::Pause, "paused").await
}

/// Ends a job. Copies of a replay that were not sent are taken back.
pub async fn cancel(config: &Config, out: Output, wanted: Wanted<'_>) -> Result<Done, Failure> {
    change(config, out, &wanted, JobVerb::Cancel, "cancelled").await
}

async fn change(
    config: &Config,
    out: Output,
    wanted: &Wanted<'_>,
    verb: JobVerb,
    word: &str,
) -> Result<Done, Failure> {
    let (opened, job) = find(config, wanted).await?;
    if matches!(job.state, JobState::Done | JobState::Cancelled) {
        return Err(over(config, &opened.name, &job, word));
    }
    let job = steer(&opened, &job, verb).await?;
    tell(config, out, &opened, &job).await
}

fn over(config: &Config, outbox: &str, job: &Job, word: &str) -> Failure {
    let advice: String = match (&job.kind, job.state) {
        (JobKind::Act(Verb::Redrive), _) => {
            "`postrider dead redrive` begins another one, for what is left".into()
        }
        (JobKind::Act(Verb::Discard(_)), _) => {
            "`postrider dead discard` begins another one, for what is left".into()
        }
        (JobKind::Act(Verb::Move(_)), _) => "`postrider schedule move` gives events another time".into(),
        (JobKind::Replay(_), _) => "`postrider replay` begins another one".into(),
        (JobKind::Restore(_), JobState::Done) => {
            format!("{} sends what it read back", sent_by(config, outbox, job))
        }
        (JobKind::Restore(_), _) => "`postrider archive restore` begins another one".into(),
    };
    Failure::found(format!(
        "the job {} cannot be {word}: it is {}",
        job.id,
        job.state.as_str()
    ))
    .advice(advice)
}

async fn steer(opened: &Opened, job: &Job, verb: JobVerb) -> Result<Job, Failure> {
    let steered = opened.console.steer(job.id.clone(), verb, actor()).await;
    steered.map_err(|error| Failure::store(&opened.name, &error))
}

/// The job and the outbox that it is in.
async fn find(config: &Config, wanted: &Wanted<'_>) -> Result<(Opened, Job), Failure> {
    let mut failed = Failed::default();
    for (name, outbox) in wire::chosen(config, wanted.outbox)? {
        let Some(opened) = failed.keep(wire::ready(name, outbox).await) else {
            continue;
        };
        let jobs = opened.console.jobs(Some(JobId::from(wanted.id)), 1).await;
        let jobs = failed.keep(jobs.map_err(|error| Failure::store(name, &error)));
        if let Some(job) = jobs.unwrap_or_default().pop() {
            return Ok((opened, job));
        }
    }
    // An outbox that did not answer may have it.
    failed.or(false, Done::Found)?;
    Err(
        Failure::found(format!("there is no job with the id {:?}", cell(wanted.id)))
            .advice("`postrider job list` shows them; ended ones are removed after a time"),
    )
}

async fn tell(config: &Config, out: Output, opened: &Opened, job: &Job) -> Result<Done, Failure> {
    let dead = copies(opened, job, Status::DeadLetter).await?;
    let outbox = opened.name.as_str();
    if out.is_json() {
        out.value(&value_with(outbox, job, dead))?;
        return Ok(Done::Fine);
    }
    let mut lines = vec![
        ("job", job.id.to_string()),
        ("kind", job.kind.as_str().to_owned()),
        ("outbox", outbox.to_owned()),
        ("state", job.state.as_str().to_owned()),
        ("done", job.touched.to_string()),
        ("refused", job.refused.to_string()),
        ("begun", format!("{} by {}", time(job.begun_at), cell(&job.actor))),
        ("last step", time(job.updated_at)),
        ("filter", cell(&job.filter.to_json().to_string())),
    ];
    match &job.kind {
        JobKind::Act(Verb::Discard(reason)) => lines.push(("reason", cell(reason))),
        JobKind::Restore(range) => {
            let since = range.since.map(|at| ("since", time(at)));
            lines.extend(since.into_iter().chain(range.until.map(|at| ("until", time(at)))));
        }
        JobKind::Replay(replay) => {
            lines.push(("not sent", job.waiting.to_string()));
            lines.push(("dead", dead.to_string()));
            let since = replay.since.map(|at| format!("from {} ", time(at)));
            let begun = Some(job.begun_at).filter(|_| replay.restored.is_none());
            let until = replay.until.or(begun).map(|at| format!("until {}", time(at)));
            let published = format!("{}{}", since.unwrap_or_default(), until.unwrap_or_default());
            if !published.is_empty() {
                lines.push(("published", published.trim_end().to_owned()));
            }
            lines.extend(replay.restored.iter().map(|id| ("restored by", id.to_string())));
            lines.extend(replay.rate.map(|rate| ("rate", format!("{rate} copies/s"))));
            lines.extend(replay.to.iter().map(|name| ("goes to", cell(name.as_str()))));
        }
        _ => {}
    }
    for (name, text) in lines {
        out.line(format!("{name:<11} {text}"))?;
    }
    let by = goes_on_by(config, outbox, job);
    match job.state {
        JobState::Running => out.line(format!("{:<11} {by}, {UNLESS_DRIVEN}", "go on with"))?,
        JobState::Paused => out.line(format!("{:<11} {by}", "go on with"))?,
        JobState::Done | JobState::Cancelled => {}
    }
    if dead > 0 {
        out.line(format!("{:<11} {}", "what to do", about_dead(job)))?;
    }
    Ok(Done::Fine)
}

/// The job as JSON, with how many copies of a replay are dead, for which they have to be counted.
pub fn value_with(outbox: &str, job: &Job, dead: u64) -> Value {
    let mut value = value(outbox, job);
    if let JobKind::Replay(_) = job.kind {
        value["dead"] = dead.into();
    }
    value
}

/// The job as JSON.
pub fn value(outbox: &str, job: &Job) -> Value {
    let mut value = json!({
        "outbox": outbox,
        "job": job.id.as_str(),
        "kind": job.kind.as_str(),
        "state": job.state.as_str(),
        "actor": job.actor,
        "touched": job.touched,
        "refused": job.refused,
        "begun_at": time(job.begun_at),
        "updated_at": time(job.updated_at),
        "filter": job.filter.to_json(),
    });
    match &job.kind {
        JobKind::Act(Verb::Discard(reason)) => value["reason"] = reason.as_str().into(),
        JobKind::Restore(range) => {
            value["since"] = json!(range.since.map(time));
            value["until"] = json!(range.until.map(time));
        }
        JobKind::Replay(replay) => {
            value["unsent"] = job.waiting.into();
            value["since"] = json!(replay.since.map(time));
            value["until"] = json!(replay.until.map(time));
            value["rate"] = json!(replay.rate);
            value["to"] = json!(replay.to.as_ref().map(|name| name.as_str()));
            value["restored"] = json!(replay.restored.as_ref().map(JobId::as_str));
        }
        _ => {}
    }
    value
}
