//! `postrider dead redrive` and `discard`: one short transaction a step, beside running relays.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};

use postrider_core::{Act, Chunk, EventId, Filter, Status, Verb};
use serde_json::{Value, json};

use crate::args::ActArgs;
use crate::config::Config;
use crate::failure::{Done, Failure};
use crate::output::{Output, cell, count};
use crate::wire::{self, Opened};

/// Rows of one step of a bulk verb: one short transaction each, so that the relay never waits noticeably.
const STEP: u32 = 500;

/// Redrives or discards what was named or matches, step by step.
pub async fn act(config: &Config, out: Output, args: &ActArgs, verb: Verb) -> Result<Done, Failure> {
    if args.ids.is_empty() && args.filter.is_empty() && !args.all {
        return Err(
            Failure::input("nothing is chosen").advice("name ids, give a filter such as --kind, or --all")
        );
    }
    args.filter.check()?;
    if matches!(&verb, Verb::Discard(reason) if reason.trim().is_empty()) {
        return Err(Failure::input("a discard needs a reason")
            .advice("say why with --reason: it is kept with the event"));
    }
    let (doing, done) = match verb {
        Verb::Redrive => ("redrive", "redriven"),
        Verb::Discard(_) => ("discard", "discarded"),
        Verb::Move(_) => ("move", "moved"),
    };
    let mut opened = Vec::new();
    for (name, outbox) in wire::chosen(config, args.filter.outbox.as_deref())? {
        opened.push(wire::ready(name, outbox).await?);
    }
    // Ids were typed one by one; a filter may match more than its author thinks.
    if args.ids.is_empty() && !args.dry_run && !args.yes {
        let mut would = Total::default();
        for outbox in &opened {
            run(outbox, args, &verb, true, &mut would, out).await?;
        }
        if would.touched + would.refused.len() as u64 == 0 {
            return nothing(out, doing, args.dry_run);
        }
        confirm(
            &format!("{doing} {}?", count(would.touched, "event")),
            "give --yes, or --dry-run to count",
        )?;
    }
    let mut total = Total::default();
    for outbox in &opened {
        run(outbox, args, &verb, args.dry_run, &mut total, out).await?;
    }
    if args.ids.is_empty() && total.touched + total.refused.len() as u64 == 0 {
        return nothing(out, doing, args.dry_run);
    }
    total.report(
        out,
        if args.dry_run {
            format!("would be {done}")
        } else {
            done.to_owned()
        },
        &args.ids,
        args.dry_run,
    )
}

/// Nothing matched, which is no problem unless somebody named an event.
fn nothing(out: Output, doing: &str, dry_run: bool) -> Result<Done, Failure> {
    out.either(
        &json!({ "touched": 0, "refused": [], "unknown": [], "dry_run": dry_run }),
        format!("nothing to {doing}"),
    )?;
    Ok(Done::Fine)
}

/// What a bulk verb did.
#[derive(Default)]
struct Total {
    touched: u64,
    refused: Vec<(String, Status)>,
    /// Events that were not discarded because they go out by themselves.
    moving: Vec<(String, Status)>,
    /// Ids that were named and found in some outbox.
    found: BTreeSet<String>,
}

impl Total {
    fn add(&mut self, chunk: Chunk) {
        self.touched += chunk.touched;
        self.refused.extend(
            chunk
                .refused
                .into_iter()
                .map(|(id, status)| (id.to_string(), status)),
        );
    }

    fn report(self, out: Output, done: String, ids: &[String], dry_run: bool) -> Result<Done, Failure> {
        let unknown: Vec<&String> = ids.iter().filter(|id| !self.found.contains(*id)).collect();
        let refused: Vec<Value> = self
            .refused
            .iter()
            .chain(&self.moving)
            .map(|(id, status)| json!({ "event_id": id, "status": status.as_str() }))
            .collect();
        let mut text = format!("{} {done}", count(self.touched, "event"));
        for (id, status) in &self.refused {
            text.push_str(&format!("\nnot {}: it is {}", cell(id), status.as_str()));
        }
        for (id, status) in &self.moving {
            text.push_str(&format!(
                "\nnot {}: it is {} and goes out by itself; --yes discards it all the same",
                cell(id),
                status.as_str()
            ));
        }
        for id in &unknown {
            text.push_str(&format!(
                "\nnot {}: no such event, or the filter is not about it",
                cell(id)
            ));
        }
        out.either(
            &json!({ "touched": self.touched, "refused": refused, "unknown": unknown, "dry_run": dry_run }),
            text,
        )?;
        match self.touched == 0 || !refused.is_empty() || !unknown.is_empty() {
            true => Ok(Done::Found),
            false => Ok(Done::Fine),
        }
    }
}

async fn run(
    outbox: &Opened,
    args: &ActArgs,
    verb: &Verb,
    dry_run: bool,
    total: &mut Total,
    out: Output,
) -> Result<(), Failure> {
    // Redriving works on refused rows too, which are not dead yet; whether it suits a row is the store's to say.
    let status = if args.ids.is_empty() {
        vec![Status::DeadLetter]
    } else {
        Vec::new()
    };
    let filters: Vec<Filter> = match args.ids.as_slice() {
        [] => vec![args.filter.filter(status, None)],
        ids => ids
            .iter()
            .map(|id| args.filter.filter(status.clone(), Some(id)))
            .collect(),
    };
    for mut filter in filters {
        if let (Some(id), Verb::Discard(_), false) = (&filter.event_id, verb, args.yes) {
            match discardable(outbox, id).await? {
                Discardable::Moving(status) => {
                    total.found.insert(id.to_string());
                    total.moving.push((id.to_string(), status));
                    continue;
                }
                Discardable::Stuck => filter.status = STUCK.to_vec(),
                Discardable::Other => {}
            }
        }
        let mut from = None;
        loop {
            let act = Act {
                verb: verb.clone(),
                filter: filter.clone(),
                dry_run,
                actor: actor(),
                limit: STEP,
                from: from.take(),
            };
            let chunk = outbox
                .console
                .act(act)
                .await
                .map_err(|error| Failure::store(&outbox.name, &error))?;
            from = chunk.next.clone();
            if let (Some(id), true) = (&filter.event_id, chunk.touched > 0 || !chunk.refused.is_empty()) {
                total.found.insert(id.to_string());
            }
            total.add(chunk);
            if from.is_none() {
                break;
            }
            progress(out, total.touched);
        }
    }
    Ok(())
}

/// What may be discarded without a further word.
const STUCK: [Status; 2] = [Status::DeadLetter, Status::Retrying];

enum Discardable {
    /// It failed somewhere: that is what a discard is for.
    Stuck,
    /// It failed nowhere and goes out by itself.
    Moving(Status),
    /// It is not there, or over and done with: the store says so.
    Other,
}

/// A healthy event must not be thrown away for a slip in an id.
async fn discardable(outbox: &Opened, id: &EventId) -> Result<Discardable, Failure> {
    let records = outbox.console.show(id.clone()).await;
    let records = records.map_err(|error| Failure::store(&outbox.name, &error))?;
    let routes = || {
        records
            .iter()
            .flat_map(|record| &record.routes)
            .map(|route| route.status)
    };
    if routes().any(|status| STUCK.contains(&status)) {
        return Ok(Discardable::Stuck);
    }
    let moves = |status: &Status| matches!(status, Status::Waiting | Status::Held | Status::Scheduled);
    Ok(routes()
        .find(moves)
        .map_or(Discardable::Other, Discardable::Moving))
}

fn progress(out: Output, touched: u64) {
    if out.is_terminal() && io::stderr().is_terminal() {
        eprint!("\r{touched} events …\r");
    }
}

/// Who asks, for the audit.
fn actor() -> String {
    let named = ["USER", "LOGNAME"]
        .into_iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|name| !name.is_empty());
    format!("cli:{}", named.or_else(uid).as_deref().unwrap_or("unknown"))
}

/// The number of the user, for containers and services that have no name for him.
#[cfg(target_os = "linux")]
fn uid() -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let own = std::fs::metadata("/proc/self").ok()?;
    Some(format!("uid {}", own.uid()))
}

#[cfg(not(target_os = "linux"))]
fn uid() -> Option<String> {
    None
}

/// Asks on a terminal; where nobody can be asked, `--yes` must have been given.
pub fn confirm(question: &str, otherwise: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::input(format!(
            "nothing was changed: nobody can be asked here {question:?}"
        ))
        .advice(otherwise.to_owned()));
    }
    eprint!("{question} [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::found("nothing was changed")),
    }
}
