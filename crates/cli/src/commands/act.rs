//! `postrider dead redrive` and `discard`: events that were named one by one, or a job for all that match.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use postrider_core::{Act, Chunk, Cursor, Filter, JobId, NewJob, Status, Verb};

use super::ask::{actor, confirm};
use super::behind;
use super::control;
use super::drive::Drive;
use super::hindrance;
use super::named::{Named, in_one_outbox, once};
use super::progress::{Progress, STEP};
use super::total::Total;
use crate::args::ActArgs;
use crate::begin::begin;
use crate::config::Config;
use crate::failure::{Done, Failure};
use crate::output::{Output, deliveries};
use crate::signal;
use crate::wire::{self, Opened};

/// For how long it is counted what a filter leaves out.
const PATIENCE: Duration = Duration::from_secs(2);

/// The states of parked events.
const PARKED: [Status; 5] = [
    Status::DeadLetter,
    Status::Retrying,
    Status::Waiting,
    Status::Held,
    Status::Scheduled,
];

/// Redrives or discards what was named or matches.
pub async fn act(config: &Config, out: Output, args: &ActArgs, verb: Verb) -> Result<Done, Failure> {
    if args.is_empty() {
        return Err(
            Failure::input("nothing is chosen").advice("name ids, give a filter such as --kind, or --all")
        );
    }
    args.filter.check()?;
    if let Verb::Discard(reason) = &verb {
        has_reason(reason)?;
    }
    let words = match verb {
        Verb::Redrive => ("redrive", "redriven"),
        Verb::Discard(_) => ("discard", "discarded"),
        Verb::Move(_) => ("move", "moved"),
    };
    let mut opened = Vec::new();
    for (name, outbox) in wire::chosen(config, args.filter.outbox.as_deref())? {
        opened.push(wire::ready(name, outbox).await?);
    }
    let mut total = Total::new(words, args.dry_run);
    match args.ids.is_empty() {
        true => matching(config, &opened, out, args, verb, total).await,
        false => {
            total.is_narrowed = args.group.is_some() || !args.filter.is_empty();
            let ids = once(&args.ids);
            let named = |id: &str| Named {
                verb: &verb,
                filter: args.named(id),
                at_once: args.yes,
            };
            in_one_outbox(&opened, &ids, named).await?;
            for outbox in &opened {
                total.enter(outbox).await?;
                for id in &ids {
                    named(id).act(outbox, id, &mut total).await?;
                }
                total.leave(&verb);
                // When all are redriven: one of them may be the head of another.
                for id in ids.iter().filter(|_| verb == Verb::Redrive) {
                    let filter = args.named(id);
                    let stays = behind::stays(config, outbox, id, &filter, args.dry_run);
                    total.stays.extend(stays.await?);
                }
            }
            total.report(out, &ids)
        }
    }
}

/// What is thrown away is thrown away for a reason.
pub fn has_reason(reason: &str) -> Result<(), Failure> {
    match reason.trim().is_empty() {
        true => Err(Failure::input("a discard needs a reason")
            .advice("say why with --reason: it is kept with the event")),
        false => Ok(()),
    }
}

/// Counts, asks, and begins a job in each outbox that has something to do.
async fn matching(
    config: &Config,
    opened: &[Opened],
    out: Output,
    args: &ActArgs,
    verb: Verb,
    mut total: Total,
) -> Result<Done, Failure> {
    let filter = args.matching(&verb);
    let mut counted = Vec::new();
    for outbox in opened {
        total.enter(outbox).await?;
        let rows = would(outbox, &verb, &filter, out).await?;
        if args.dry_run && verb == Verb::Redrive && rows > 0 {
            total.would(rows, hindrance::pauses(outbox, &filter).await?);
        } else if args.dry_run {
            total.touched += rows;
        }
        counted.push((outbox, rows));
        total.leave_out(others(outbox, &filter).await?);
        total.leave_out(redriven(outbox, &filter).await?);
    }
    counted.retain(|(_, rows)| *rows > 0);
    let rows: u64 = counted.iter().map(|(_, rows)| rows).sum();
    if rows == 0 {
        if total.is_all() {
            control::named_is_known(config, args.filter.destination.as_deref())?;
        }
        return total.nothing(out);
    }
    if args.group.is_some() && counted.len() > 1 {
        return Err(several(&counted));
    }
    if args.dry_run {
        return total.report(out, &[]);
    }
    if !args.yes {
        // A filter may match more than its author thinks.
        let question = format!("{} {}?", total.words.0, deliveries(rows));
        confirm(&question, "give --yes, or --dry-run to count")?;
    }
    let stop = signal::stop_token();
    for (outbox, rows) in counted {
        if stop.is_cancelled() {
            total.left.push(outbox.name.clone());
            continue;
        }
        let job = NewJob {
            id: JobId::new(),
            kind: postrider_core::JobKind::Act(verb.clone()),
            filter: filter.clone(),
            actor: actor(),
        };
        total.enter(outbox).await?;
        let job = begin(outbox, job).await?;
        let drive = Drive {
            outbox,
            out,
            of: Some(rows),
            stop: &stop,
        };
        total.add_job(drive.on(job).await?);
    }
    total.report(out, &[])
}

/// The same failure in two databases has one name, and whoever gives it has looked at one of them.
fn several(counted: &[(&Opened, u64)]) -> Failure {
    let names: Vec<String> = counted
        .iter()
        .map(|(outbox, rows)| format!("{} ({rows})", outbox.name))
        .collect();
    Failure::input(format!("several outboxes have that group: {}", names.join(", ")))
        .advice("say which with --outbox; nothing was changed")
}

/// How many rows a verb would change.
async fn would(outbox: &Opened, verb: &Verb, filter: &Filter, out: Output) -> Result<u64, Failure> {
    let mut progress = Progress::new(out, None);
    let (mut rows, mut from) = (0, None);
    loop {
        let chunk = tried(outbox, verb, filter, from).await?;
        rows += chunk.touched;
        progress.count("counted", rows);
        from = chunk.next;
        if from.is_none() {
            progress.end();
            return Ok(rows);
        }
    }
}

/// Rows that the filter would mean but for the state they are in, by that state: whoever gave it may have thought of
/// them. There may be many that wait, so they are counted for a moment only.
async fn others(outbox: &Opened, filter: &Filter) -> Result<BTreeMap<Status, u64>, Failure> {
    let begun = Instant::now();
    let filter = Filter {
        status: PARKED
            .into_iter()
            .filter(|status| !filter.wants(*status))
            .collect(),
        failing_for: None,
        ..filter.clone()
    };
    let (mut others, mut from) = (BTreeMap::new(), None);
    while begun.elapsed() < PATIENCE {
        // Nothing is changed. What could be redriven is touched, and what not is told with its state.
        let chunk = tried(outbox, &Verb::Redrive, &filter, from).await?;
        if chunk.touched > 0 {
            *others.entry(Status::Retrying).or_default() += chunk.touched;
        }
        for (_, status) in chunk.refused {
            *others.entry(status).or_default() += 1;
        }
        from = chunk.next;
        if from.is_none() {
            break;
        }
    }
    Ok(others)
}

/// Rows that the filter would mean had they not been redriven already: they are RETRYING, and nobody has tried them
/// since.
async fn redriven(outbox: &Opened, filter: &Filter) -> Result<BTreeMap<Status, u64>, Failure> {
    if filter.failing_for.is_none() || !filter.wants(Status::Retrying) {
        return Ok(BTreeMap::new());
    }
    let tried = Filter {
        status: vec![Status::Retrying],
        ..filter.clone()
    };
    let all = Filter {
        failing_for: None,
        ..tried.clone()
    };
    // In this order: what fails between the two was tried, and is missed rather than told as if it had not been.
    let (Some(all), Some(tried)) = (counted(outbox, &all).await?, counted(outbox, &tried).await?) else {
        return Ok(BTreeMap::new());
    };
    let rows = all.saturating_sub(tried);
    Ok((rows > 0)
        .then_some((Status::Retrying, rows))
        .into_iter()
        .collect())
}

/// How many rows could be redriven; none where a moment was not enough to count them.
async fn counted(outbox: &Opened, filter: &Filter) -> Result<Option<u64>, Failure> {
    let begun = Instant::now();
    let (mut rows, mut from) = (0, None);
    while begun.elapsed() < PATIENCE {
        let chunk = tried(outbox, &Verb::Redrive, filter, from).await?;
        rows += chunk.touched;
        from = chunk.next;
        if from.is_none() {
            return Ok(Some(rows));
        }
    }
    Ok(None)
}

async fn tried(
    outbox: &Opened,
    verb: &Verb,
    filter: &Filter,
    from: Option<Cursor>,
) -> Result<Chunk, Failure> {
    let act = Act {
        verb: verb.clone(),
        filter: filter.clone(),
        dry_run: true,
        actor: actor(),
        limit: STEP,
        from,
    };
    let chunk = outbox.console.act(act).await;
    chunk.map_err(|error| Failure::store(&outbox.name, &error))
}
