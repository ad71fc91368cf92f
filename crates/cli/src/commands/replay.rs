//! `postrider replay`: sent events are sent again, marked as copies, beside the live flow.

use std::time::{Duration, Instant};

use postrider_core::{
    DestinationName, EventId, Filter, JobId, JobKind, JobState, List, NewJob, Replay, Status, Timestamp,
};
use serde_json::json;

use super::ask::{actor, confirm};
use super::control::known;
use super::drive::Drive;
use super::job;
use super::progress::Progress;
use crate::args::ReplayArgs;
use crate::config::Config;
use crate::failure::{Done, Failure};
use crate::output::{Output, cell, count, time};
use crate::signal;
use crate::wire::{self, Opened};

/// Events of one page while they are counted.
const PAGE: u32 = 1_000;
/// For how long they are counted. The history may be long, and "at least" is enough to be asked.
const PATIENCE: Duration = Duration::from_secs(10);

pub async fn replay(config: &Config, out: Output, args: &ReplayArgs) -> Result<Done, Failure> {
    check(config, args)?;
    let (name, outbox) = wire::single(config, args.outbox.as_deref())?;
    if outbox.history.is_none() && args.restored.is_none() {
        return Err(Failure::input(format!("no history is kept: {name}"))
            .advice("set `history` of the outbox to something other than \"none\""));
    }
    let opened = wire::ready(name, outbox).await?;
    if let Some(id) = &args.restored {
        is_restored(&opened, id).await?;
    }
    let job = NewJob {
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
    // What was read back from an archive is not in the history and cannot be counted there. Whoever does not ask how
    // many there are waits for the first only.
    let most = if args.dry_run || !args.yes { u64::MAX } else { 1 };
    let counted = match args.restored.is_none() {
        true => Some(sent(&opened, args, out, most).await?),
        false => None,
    };
    let events = counted.map_or_else(|| "what was restored".to_owned(), |one| one.text());
    if args.dry_run {
        let (touched, exact) = counted.map_or((0, false), |one| (one.events, one.exact));
        let value = json!({ "outbox": name, "touched": touched, "exact": exact, "dry_run": true });
        out.either(&value, format!("{events} would be replayed"))?;
        return Ok(match counted {
            Some(one) if one.exact && one.events == 0 => unmatched(args),
            _ => Done::Fine,
        });
    }
    if counted.is_some_and(|one| one.exact && one.events == 0) {
        let value = json!({ "outbox": name, "touched": 0, "exact": true, "dry_run": false });
        out.either(&value, "nothing to replay")?;
        return Ok(unmatched(args));
    }
    if !args.yes {
        confirm(&format!("replay {events}?"), "give --yes, or --dry-run to count")?;
    }
    let job = opened.console.begin(job).await;
    let job = job.map_err(|error| Failure::store(name, &error))?;
    let stop = signal::stop_token();
    let drive = Drive {
        outbox: &opened,
        out,
        of: counted.filter(|one| one.exact).map(|one| one.events),
        stop: &stop,
    };
    job::finish(out, &drive.on(job).await?)
}

/// What was never read back, or only in part, must not look like all there is.
async fn is_restored(opened: &Opened, id: &str) -> Result<(), Failure> {
    let jobs = opened.console.jobs(Some(JobId::from(id)), 1).await;
    let job = jobs.map_err(|error| Failure::store(&opened.name, &error))?.pop();
    match job.filter(|job| matches!(job.kind, JobKind::Restore(_))) {
        None => Err(Failure::found(format!("there is no restore {:?}", cell(id)))
            .advice("`postrider job list` shows the jobs that there are")),
        Some(job) if job.state != JobState::Done => {
            let failure = Failure::found(format!("the restore {} is {}", job.id, job.state.as_str()));
            Err(failure.advice(format!("go on with {} first", job::goes_on_by(&job))))
        }
        Some(_) => Ok(()),
    }
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

/// A filter may match nothing, as for every verb; an event that was named should be there.
fn unmatched(args: &ReplayArgs) -> Done {
    match !args.id.is_empty() {
        true => Done::Found,
        false => Done::Fine,
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
#[derive(Clone, Copy)]
struct Counted {
    events: u64,
    exact: bool,
}

impl Counted {
    fn text(self) -> String {
        let least = if self.exact { "" } else { "at least " };
        format!("{least}{}", count(self.events, "event"))
    }
}

/// Counts what was sent, each destination for itself, because each gets its copy.
async fn sent(opened: &Opened, args: &ReplayArgs, out: Output, most: u64) -> Result<Counted, Failure> {
    let begun = Instant::now();
    let mut progress = Progress::new(out, None);
    let (mut events, mut from) = (0, None);
    let meant = |at: Option<Timestamp>| {
        at.is_some_and(|at| {
            args.since.is_none_or(|since| at >= since) && args.until.is_none_or(|until| at < until)
        })
    };
    let filter = Filter {
        status: vec![Status::Published],
        ..filter(args)
    };
    loop {
        let list = List {
            from,
            ..List::first(PAGE, filter.clone())
        };
        let listing = opened.console.list(list).await;
        let listing = listing.map_err(|error| Failure::store(&opened.name, &error))?;
        for record in listing.events.iter().filter(|record| record.replay.is_none()) {
            let there = |name: &Option<DestinationName>| {
                args.from.is_none() || name.as_ref().map(DestinationName::as_str) == args.from.as_deref()
            };
            let routes = record.routes.iter().filter(|route| {
                route.status == Status::Published && there(&route.destination) && meant(route.published_at)
            });
            events += routes.count() as u64;
        }
        progress.count("counted", events);
        from = listing.next;
        if from.is_none() || events >= most || begun.elapsed() > PATIENCE {
            progress.end();
            let exact = from.is_none();
            return Ok(Counted { events, exact });
        }
    }
}
