//! `postrider replay`: sent events are sent again, marked as copies, beside the live flow.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use postrider_core::{
    DestinationName, EventId, EventRecord, Filter, Job, JobId, JobKind, JobState, NewJob, RecordedRoute,
    Replay, Status, Timestamp,
};
use serde_json::json;

use super::ask::{actor, confirm};
use super::control::{known, named_is_known};
use super::drive::Drive;
use super::job;
use super::page::through;
use super::progress::Progress;
use super::refused::{Around, ONLY_COPIES, Refused, states, what_works};
use crate::args::ReplayArgs;
use crate::begin::begin;
use crate::config::Config;
use crate::failure::{Done, Failure};
use crate::output::{Output, cell, deliveries, time};
use crate::signal;
use crate::wire::{self, Opened};

/// For how long events are counted. The history may be long, and "at least" is enough to be asked.
const PATIENCE: Duration = Duration::from_secs(10);

pub async fn replay(config: &Config, out: Output, args: &ReplayArgs) -> Result<Done, Failure> {
    check(config, args)?;
    let (name, outbox) = wire::single(config, args.outbox.as_deref())?;
    if outbox.history.is_none() && args.restored.is_none() {
        return Err(Failure::input(format!("no history is kept: {name}"))
            .advice("set `history` of the outbox to something other than \"none\""));
    }
    let opened = wire::ready(name, outbox).await?;
    let restored = match &args.restored {
        Some(id) => Some(is_restored(config, &opened, id, args).await?),
        None => None,
    };
    let job = NewJob {
        id: JobId::new(),
        kind: JobKind::Replay(Replay {
            since: args.since,
            until: args.until,
            to: args.to.as_deref().map(DestinationName::from),
            restored: args.restored.as_deref().map(JobId::from),
            rate: Some(args.rate),
        }),
        filter: filter(args),
        actor: actor(),
    };
    // What was read back from an archive is not in the history: it is known how much it was, not what a filter leaves
    // of it. Whoever does not ask how many there are waits for the first only.
    let is_all = args.dry_run || !args.yes || !args.id.is_empty();
    let counted = match args.restored.is_none() {
        true => Some(sent(&opened, args, out, if is_all { u64::MAX } else { 1 }).await?),
        false => None,
    };
    let mut unsent = match &counted {
        Some(one) if one.exact => unsent(&opened, args, &one.ids).await?,
        _ => Vec::new(),
    };
    let most = restored.map(|rows| {
        let left_out = match is_narrowed(args) || !args.id.is_empty() {
            true => "; how many of them the other options leave out is not counted before",
            false => "",
        };
        format!(
            "at most {} (of the rows that were restored, what was published and is still there{left_out})",
            deliveries(rows)
        )
    });
    let events = counted
        .as_ref()
        .map_or_else(|| most.unwrap_or_default(), Counted::text);
    let of = counted.as_ref().filter(|one| one.exact).map(|one| one.events);
    if of == Some(0) {
        named_is_known(config, args.from.as_deref())?;
    }
    if args.dry_run || of == Some(0) {
        let touched = counted.map_or(restored.unwrap_or(0), |one| one.events);
        let value = json!({
            "outbox": name,
            "touched": touched,
            "exact": of.is_some(),
            "dry_run": args.dry_run,
            "not_sent": unsent.iter().map(Refused::value).collect::<Vec<_>>(),
        });
        let text = match args.dry_run {
            true => format!("{events} would be replayed"),
            false => "nothing to replay".to_owned(),
        };
        out.either(&value, text)?;
        return Ok(told(out, &unsent));
    }
    if !args.yes {
        confirm(&format!("replay {events}?"), "give --yes, or --dry-run to count")?;
    }
    let job = begin(&opened, job).await?;
    let stop = signal::stop_token();
    let drive = Drive {
        outbox: &opened,
        out,
        of,
        stop: &stop,
    };
    let driven = drive.on(job).await?;
    // Without a history a copy that has arrived cannot be found, so nothing is said of any.
    if args.restored.is_some() && outbox.history.is_some() && driven.is_made() {
        unsent = uncopied(&opened, args, &driven.job.id).await?;
    }
    let mut value = driven.value();
    value["not_sent"] = unsent.iter().map(Refused::value).collect();
    out.either(&value, driven.text())?;
    if let Some(counted) = of.filter(|of| driven.is_made() && driven.job.touched < *of) {
        return Err(fewer(counted, driven.job.touched));
    }
    if let Some(id) = args.restored.as_ref().filter(|_| driven.is_done_with_nothing()) {
        return Err(nothing_of(id, args));
    }
    Ok(match told(out, &unsent) {
        Done::Fine => driven.done(),
        Done::Found => Done::Found,
    })
}

/// Which of the events that were named are not replayed, and why. A filter may match nothing, as for every verb; an
/// event that was named should be there.
async fn unsent(
    opened: &Opened,
    args: &ReplayArgs,
    sent: &BTreeSet<String>,
) -> Result<Vec<Refused>, Failure> {
    let mut unsent = Vec::new();
    let named: BTreeSet<&String> = args.id.iter().collect();
    for id in named.into_iter().filter(|id| !sent.contains(*id)) {
        let records = opened.console.show(EventId::from(id.as_str())).await;
        let records = records.map_err(|error| Failure::store(&opened.name, &error))?;
        let (states, only_copies) = states(&records);
        let remedy = match states.as_slice() {
            [] => {
                "there is no such event; the history is removed after its retention, and `postrider archive \
                   restore` reads an archive back"
            }
            _ if only_copies => ONLY_COPIES,
            states if states.contains(&Status::Published) => match is_narrowed(args) {
                true => {
                    "was sent, but not as the other options say: leave them out; `postrider show` tells when it \
                         was sent and where to"
                }
                false => "was sent while the command ran: give it again",
            },
            [worst, ..] => what_works("replay", *worst, Around::of(opened).await?),
        };
        unsent.push(Refused {
            id: id.clone(),
            status: states.first().copied().filter(|_| !only_copies),
            is_rest: false,
            remedy,
        });
    }
    Ok(unsent)
}

/// Which of the events that were named a replay of what was restored has made no copy of. What was read back cannot be
/// listed, so its copies are looked for instead, once all of them are made.
async fn uncopied(opened: &Opened, args: &ReplayArgs, job: &JobId) -> Result<Vec<Refused>, Failure> {
    let mut left: BTreeSet<&str> = args.id.iter().map(String::as_str).collect();
    if !left.is_empty() {
        let copies = Filter {
            event_id: left.iter().map(|id| EventId::from(*id)).collect(),
            replay: Some(job.clone()),
            ..Filter::default()
        };
        through(opened, &copies, |events| {
            for record in events {
                left.remove(record.event_id.as_str());
            }
            !left.is_empty()
        })
        .await?;
    }
    let remedy = match is_narrowed(args) {
        true => {
            "nothing of it that was published and that the other options mean is left of the restore: leave them out, \
             or restore the time in which it was published with `postrider archive restore`"
        }
        false => {
            "nothing of it that was published is left of the restore: restore the time in which it was published with \
             `postrider archive restore`"
        }
    };
    let unsent = left.into_iter().map(|id| Refused {
        id: id.to_owned(),
        status: None,
        is_rest: false,
        remedy,
    });
    Ok(unsent.collect())
}

/// Whether more than ids and the destination of the copies was given.
fn is_narrowed(args: &ReplayArgs) -> bool {
    let ids = Filter {
        event_id: filter(args).event_id,
        ..Filter::default()
    };
    args.since.is_some() || args.until.is_some() || filter(args) != ids
}

/// Of a document they are a part already.
fn told(out: Output, unsent: &[Refused]) -> Done {
    for one in unsent.iter().filter(|_| !out.is_json()) {
        let state = match one.status {
            None | Some(Status::Published) => String::new(),
            Some(status) => format!("was not sent: it is {}: ", status.as_str()),
        };
        eprintln!("{}: {state}{}", cell(&one.id), one.remedy);
    }
    match unsent.is_empty() {
        true => Done::Fine,
        false => Done::Found,
    }
}

/// How many rows were read back. What never was, or only in part, or is gone, must not look like all there is.
async fn is_restored(config: &Config, opened: &Opened, id: &str, args: &ReplayArgs) -> Result<u64, Failure> {
    let jobs = opened.console.jobs(Some(JobId::from(id)), 1).await;
    let job = jobs.map_err(|error| Failure::store(&opened.name, &error))?.pop();
    match job.filter(|job| matches!(job.kind, JobKind::Restore(_))) {
        None => Err(Failure::found(format!("there is no restore {:?}", cell(id)))
            .advice("`postrider job list` shows the jobs that there are")),
        Some(job) if job.state != JobState::Done => {
            let failure = Failure::found(format!("the restore {} is {}", job.id, job.state.as_str()));
            Err(failure.advice(match job.state {
                JobState::Cancelled => "read it back again with `postrider archive restore`".to_owned(),
                _ => format!("go on with {} first", job::goes_on_by(config, &opened.name, &job)),
            }))
        }
        Some(job) => {
            let left = opened.upkeep.restored(job.id.clone()).await;
            let left = left.map_err(|error| Failure::store(&opened.name, &error))?;
            match left {
                0 => Err(nothing_of(id, args)),
                left if left < job.touched => Err(in_part(&job, left)),
                _ => Ok(job.touched),
            }
        }
    }
}

/// Rows that were read back are removed one by one, and what is left of them is no longer what was asked for.
fn in_part(job: &Job, left: u64) -> Failure {
    let (id, rows) = (&job.id, job.touched);
    let what = format!("of the {rows} rows of the restore {id} only {left} are left");
    Failure::found(what).advice(
        "nothing was sent: what was read back is removed with the history, and some of it is as old as that is kept; \
         read it back again with `postrider archive restore`, and replay that job",
    )
}

/// What was counted and is gone by now must not look as if it had been sent again.
fn fewer(counted: u64, copied: u64) -> Failure {
    let text = format!("{} were counted, and {copied} copied", deliveries(counted));
    Failure::found(text).advice(
        "the others were removed from the history before the replay began: `postrider audit` tells by whom, and \
         `postrider archive restore` reads an archive back",
    )
}

/// A restore that was made had rows; where none is found they are gone, or the other options leave them out.
fn nothing_of(id: &str, args: &ReplayArgs) -> Failure {
    let is_narrowed = is_narrowed(args) || !args.id.is_empty();
    let text = match is_narrowed {
        true => format!(
            "nothing of the restore {} is left that the other options mean",
            cell(id)
        ),
        false => format!("nothing of the restore {} is left", cell(id)),
    };
    Failure::found(text).advice(
        "only what was published is replayed; what was read back is removed with the history: read it back again with \
         `postrider archive restore`, and replay that job",
    )
}

fn check(config: &Config, args: &ReplayArgs) -> Result<(), Failure> {
    let chosen = args.since.is_some() || args.until.is_some() || args.restored.is_some() || args.all;
    if !chosen && filter(args) == Filter::default() {
        return Err(Failure::input("nothing is chosen")
            .advice("say which events: --since, --type, --key, --id, --from, or --all"));
    }
    in_order(args.since, args.until)?;
    match &args.to {
        Some(name) => known(config, &name.as_str().into()),
        None => Ok(()),
    }
}

/// A window that is empty matches nothing, which must not look like an answer.
pub fn in_order(since: Option<Timestamp>, until: Option<Timestamp>) -> Result<(), Failure> {
    match (since, until) {
        (Some(since), Some(until)) if since >= until => {
            let text = format!("--since {} is not before --until {}", time(since), time(until));
            Err(Failure::input(text)
                .advice("a duration counts back from now: --since 2h --until 1h is an hour"))
        }
        _ => Ok(()),
    }
}

fn filter(args: &ReplayArgs) -> Filter {
    Filter {
        event_id: args.id.iter().map(|id| EventId::from(id.as_str())).collect(),
        event_type: args.event_type.clone(),
        key: args.key.clone(),
        destination: args.from.as_deref().map(DestinationName::from),
        ..Filter::default()
    }
}

/// How many events it is about, as far as they were counted.
#[derive(Default)]
struct Counted {
    events: u64,
    exact: bool,
    /// Which they are, where they were asked for by id.
    ids: BTreeSet<String>,
}

impl Counted {
    fn text(&self) -> String {
        let least = if self.exact { "" } else { "at least " };
        format!("{least}{}", deliveries(self.events))
    }
}

/// Counts what was sent, each destination for itself, because each gets its copy; unless all go to a single one, which
/// gets each event once.
async fn sent(opened: &Opened, args: &ReplayArgs, out: Output, most: u64) -> Result<Counted, Failure> {
    let begun = Instant::now();
    let mut progress = Progress::new(out, None);
    let mut counted = Counted::default();
    let filter = Filter {
        status: vec![Status::Published],
        ..filter(args)
    };
    let exact = through(opened, &filter, |events| {
        for record in events.iter().filter(|record| record.replay.is_none()) {
            let copies = copies_of(record, args);
            counted.events += copies;
            if copies > 0 && !args.id.is_empty() {
                counted.ids.insert(record.event_id.as_str().to_owned());
            }
        }
        progress.count("counted", counted.events);
        counted.events < most && begun.elapsed() <= PATIENCE
    });
    counted.exact = exact.await?;
    progress.end();
    Ok(counted)
}

/// How many copies of an event there will be.
fn copies_of(record: &EventRecord, args: &ReplayArgs) -> u64 {
    let is_there = |name: &Option<DestinationName>| {
        args.from.is_none() || name.as_ref().map(DestinationName::as_str) == args.from.as_deref()
    };
    let is_then = |at: Timestamp| {
        args.since.is_none_or(|since| at >= since) && args.until.is_none_or(|until| at < until)
    };
    let is_meant = |route: &&RecordedRoute| {
        let is_sent = route.status == Status::Published;
        is_sent && is_there(&route.destination) && route.published_at.is_some_and(is_then)
    };
    // Edited while it was being sent, it went to a destination twice, and is copied once.
    let meant: BTreeSet<_> = record
        .routes
        .iter()
        .filter(is_meant)
        .map(|route| &route.destination)
        .collect();
    let copies = meant.len() as u64;
    match args.to {
        Some(_) => copies.min(1),
        None => copies,
    }
}
