//! `postrider dead list`, `redrive` and `discard`: events that need a person.

use std::io::{self, IsTerminal, Write};

use postrider_core::{Act, Chunk, EventRecord, Filter, RecordedRoute, Status, Verb};
use serde_json::{Value, json};

use super::record;
use crate::args::{ActArgs, FilterArgs};
use crate::config::Config;
use crate::failure::{Done, Failure};
use crate::output::{Output, cell, count, key, time};
use crate::wire::{self, Opened};

/// Rows of one step of a bulk verb: one short transaction each, so that the relay never waits noticeably.
const STEP: u32 = 500;

pub async fn list(config: &Config, out: Output, args: &FilterArgs, limit: u32) -> Result<Done, Failure> {
    let mut rows = Vec::new();
    let mut more = false;
    for (name, outbox) in wire::chosen(config, args.outbox.as_deref())? {
        let opened = wire::ready(name, outbox).await?;
        let filter = args.filter(vec![Status::DeadLetter], None);
        let listing = opened.console.list(filter, limit, None).await;
        let listing = listing.map_err(|error| Failure::store(name, &error))?;
        more |= listing.next.is_some();
        for record in &listing.events {
            if out.is_json() {
                out.value(&record::value(name, record, false))?;
            }
            let dead = record
                .routes
                .iter()
                .filter(|route| route.status == Status::DeadLetter);
            rows.extend(dead.map(|route| row(name, record, route)));
        }
    }
    if out.is_json() {
        return Ok(Done::Fine);
    }
    match rows.is_empty() {
        true => out.line("no dead events")?,
        false => out.table(
            &[
                "ID",
                "TYPE",
                "KEY",
                "OUTBOX",
                "DESTINATION",
                "FAILED",
                "KIND",
                "ERROR",
                "WHAT TO DO",
            ],
            rows,
        )?,
    }
    if more {
        out.line(format!(
            "… and more: raise --limit ({limit}), or narrow the filter"
        ))?;
    }
    Ok(Done::Fine)
}

fn row(outbox: &str, record: &EventRecord, route: &RecordedRoute) -> Vec<String> {
    let text = |text: Option<&str>| cell(text.unwrap_or("-"));
    vec![
        cell(record.event_id.as_str()),
        cell(&record.event_type),
        key(&record.key),
        outbox.to_owned(),
        text(route.destination.as_ref().map(|name| name.as_str())),
        route
            .failed
            .map_or_else(|| "-".to_owned(), |(_, last)| time(last)),
        text(route.error_kind.as_deref()),
        text(route.error.as_deref()),
        text(record::advice(route)),
    ]
}

/// Failures that look alike, the most frequent first.
pub async fn groups(config: &Config, out: Output, outbox: Option<&str>) -> Result<Done, Failure> {
    let mut rows = Vec::new();
    for (name, outbox) in wire::chosen(config, outbox)? {
        let opened = wire::ready(name, outbox).await?;
        let groups = opened
            .console
            .groups()
            .await
            .map_err(|error| Failure::store(name, &error))?;
        for group in groups {
            let destination = group.destination.as_ref().map(|name| name.as_str());
            if out.is_json() {
                out.value(&json!({
                    "outbox": name,
                    "destination": destination,
                    "error_kind": group.error_kind,
                    "count": group.count,
                    "example": group.example,
                    "first_failed_at": time(group.seen.0),
                    "last_failed_at": time(group.seen.1),
                }))?;
            }
            rows.push(vec![
                group.count.to_string(),
                name.to_owned(),
                cell(destination.unwrap_or("-")),
                cell(&group.error_kind),
                time(group.seen.1),
                cell(&group.example),
            ]);
        }
    }
    match (out.is_json(), rows.is_empty()) {
        (true, _) => {}
        (false, true) => out.line("no failures")?,
        (false, false) => out.table(
            &["COUNT", "OUTBOX", "DESTINATION", "KIND", "LAST", "EXAMPLE"],
            rows,
        )?,
    }
    Ok(Done::Fine)
}

/// Redrives or discards what was named or matches, step by step.
pub async fn act(config: &Config, out: Output, args: &ActArgs, verb: Verb) -> Result<Done, Failure> {
    if args.ids.is_empty() && args.filter.is_empty() && !args.all {
        return Err(
            Failure::input("nothing is chosen").advice("name ids, give a filter such as --kind, or --all")
        );
    }
    let (doing, done) = match verb {
        Verb::Redrive => ("redrive", "redriven"),
        Verb::Discard(_) => ("discard", "discarded"),
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
        confirm(&format!("{doing} {}?", count(would.touched, "event")), args.yes)?;
    }
    let mut total = Total::default();
    for outbox in &opened {
        run(outbox, args, &verb, args.dry_run, &mut total, out).await?;
    }
    total.report(
        out,
        if args.dry_run {
            format!("would be {done}")
        } else {
            done.to_owned()
        },
        args.dry_run,
    )
}

/// What a bulk verb did.
#[derive(Default)]
struct Total {
    touched: u64,
    refused: Vec<(String, Status)>,
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

    fn report(self, out: Output, done: String, dry_run: bool) -> Result<Done, Failure> {
        let refused: Vec<Value> = self
            .refused
            .iter()
            .map(|(id, status)| json!({ "event_id": id, "status": status.as_str() }))
            .collect();
        let mut text = format!("{} {done}", count(self.touched, "event"));
        for (id, status) in &self.refused {
            text.push_str(&format!("\nnot {}: it is {}", cell(id), status.as_str()));
        }
        out.either(
            &json!({ "touched": self.touched, "refused": refused, "dry_run": dry_run }),
            text,
        )?;
        match self.touched == 0 || !self.refused.is_empty() {
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
    for filter in filters {
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
            total.add(chunk);
            if from.is_none() {
                break;
            }
            progress(out, total.touched);
        }
    }
    Ok(())
}

fn progress(out: Output, touched: u64) {
    if out.is_terminal() && io::stderr().is_terminal() {
        eprint!("\r{touched} events …\r");
    }
}

/// Who asks, for the audit.
fn actor() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    format!("cli:{}", user.as_deref().unwrap_or("unknown"))
}

/// Asks on a terminal; where nobody can be asked, `--yes` must have been given.
pub fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::input(question.to_owned())
            .advice("nobody can be asked here: give --yes, or --dry-run to count"));
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
