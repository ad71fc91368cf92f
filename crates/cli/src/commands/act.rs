//! `postrider dead redrive` and `discard`: one short transaction a step, beside running relays.

use std::io::{self, IsTerminal, Write};

use postrider_core::{Act, Chunk, Filter, Status, Verb};
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
