//! `postrider inbox`: the records of what took effect.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{InboxConsole, Purge, Records, crash};
use serde_json::json;

use super::ask::{actor, confirm};
use crate::cli::{ForgetArgs, InboxCommand};
use crate::config::{Config, Outbox, duration};
use crate::failure::{Done, Failure};
use crate::inbox::{chosen, failed, open, sql};
use crate::output::{Output, cell, count};
use crate::signal;
use crate::wire::{self, Missing};

/// Rows of one step: one short transaction each, so that no consumer waits noticeably.
const STEP: u32 = 1_000;

pub async fn inbox(config: &Config, out: Output, command: &InboxCommand) -> Result<Done, Failure> {
    match command {
        InboxCommand::Migrate(it) => migrate(config, out, it.inbox.as_deref()).await,
        InboxCommand::Forget(args) => forget(config, out, args).await,
        InboxCommand::Purge { inbox, older_than } => {
            purge(config, out, inbox.inbox.as_deref(), *older_than).await
        }
    }
}

/// Prints the statements that make the tables.
pub fn print(config: &Config, out: Output) -> Result<Done, Failure> {
    for (name, inbox) in chosen(config, None)? {
        let sql = sql(&name, &inbox)?;
        let text = format!(
            "-- {name}: the inbox {}\n{}\n",
            inbox.database.prefix,
            sql.trim_end()
        );
        out.either(
            &json!({ "inbox": name, "table": inbox.database.prefix, "sql": sql }),
            text,
        )?;
    }
    Ok(Done::Fine)
}

async fn migrate(config: &Config, out: Output, only: Option<&str>) -> Result<Done, Failure> {
    for (name, inbox) in chosen(config, only)? {
        let console = open(&name, &inbox, Missing::Create, 1)?.console();
        console.migrate().await.map_err(|error| failed(&name, &error))?;
        let table = &inbox.database.prefix;
        let text = format!("{name}: the table {table} is there");
        out.either(&json!({ "inbox": name, "table": table }), text)?;
    }
    Ok(Done::Fine)
}

async fn forget(config: &Config, out: Output, args: &ForgetArgs) -> Result<Done, Failure> {
    let records = Records {
        consumer: args.consumer.clone(),
        ids: args.ids.clone(),
        older_than: args.older_than,
        newer_than: args.since,
    };
    if records == Records::of(&*args.consumer) && !args.all {
        let failure = Failure::input("nothing says which records are meant");
        return Err(
            failure.advice("give --id, --since or --older-than, or --all for everything of this consumer")
        );
    }
    let opened = all(config, args.inbox.inbox.as_deref())?;
    let mut counts = Vec::new();
    for (name, console) in &opened {
        let counted = console.count(records.clone()).await;
        counts.push(counted.map_err(|error| failed(name, &error))?);
    }
    let consumer = cell(&args.consumer);
    if !args.dry_run && !args.yes {
        let each = opened.iter().zip(&counts);
        let each: Vec<String> = each
            .map(|((name, _), rows)| format!("{} of {name}", count(*rows, "record")))
            .collect();
        let question = format!(
            "let {} of the consumer {consumer} take effect again when they are delivered again?",
            each.join(", ")
        );
        confirm(&question, "give --yes, or --dry-run to count")?;
    }
    let mut total = 0;
    for ((name, console), counted) in opened.iter().zip(counts) {
        let rows = match args.dry_run {
            true => counted,
            false => {
                // Before it is done: whoever dies behind it has left a trace.
                write_down(config, name, &records, ("begin_forget", counted)).await;
                let gone = console.forget(records.clone()).await;
                let gone = gone.map_err(|error| failed(name, &error))?;
                crash::point("forget.after");
                write_down(config, name, &records, ("forget", gone)).await;
                gone
            }
        };
        total += rows;
        let would = if args.dry_run { "would be " } else { "" };
        let mut text = format!("{name}: {} of {consumer} {would}forgotten", count(rows, "record"));
        if rows == 0 && !args.ids.is_empty() {
            text.push_str(
                ": no such id, or another consumer has it; --all --dry-run in place of --id counts what there is",
            );
        }
        let value = json!({
            "inbox": name, "consumer": args.consumer, "records": rows, "dry_run": args.dry_run,
        });
        out.either(&value, text)?;
    }
    match total == 0 && !args.ids.is_empty() {
        true => Ok(Done::Found),
        false => Ok(Done::Fine),
    }
}

/// Into the audit of an outbox in the same database, if there is one. What was forgotten is forgotten: that it cannot
/// be written down is said, and is no reason to call it a failure.
async fn write_down(config: &Config, name: &str, records: &Records, (action, touched): (&'static str, u64)) {
    let Some(outbox) = beside(config, name) else {
        return;
    };
    let seconds = |age: Option<Duration>| age.map(|age| age.as_secs());
    let detail = json!({
        "inbox": name,
        "consumer": Some(&records.consumer).filter(|consumer| !consumer.is_empty()),
        "ids": records.ids.iter().take(100).collect::<Vec<_>>(),
        "older_than_seconds": seconds(records.older_than),
        "newer_than_seconds": seconds(records.newer_than),
    });
    let noted = async {
        let (outbox, settings) = outbox;
        let opened = wire::ready(outbox, settings).await?;
        let noted = opened.console.note(actor(), action, detail.to_string(), touched);
        noted.await.map_err(|error| Failure::store(outbox, &error))
    };
    if let Err(failure) = noted.await {
        eprintln!("it is not in the audit: {failure}");
    }
}

/// The outbox in whose database an inbox is.
fn beside<'a>(config: &'a Config, name: &str) -> Option<(&'a str, &'a Outbox)> {
    let inboxes = chosen(config, Some(name)).ok()?;
    let (_, inbox) = inboxes.first()?;
    let is_there = |outbox: &Outbox| outbox.place.is_in_the_database_of(&inbox.database.place);
    let mut outboxes = config.outboxes.iter();
    outboxes
        .find(|(_, outbox)| is_there(outbox))
        .map(|(name, outbox)| (name.as_str(), outbox))
}

async fn purge(
    config: &Config,
    out: Output,
    only: Option<&str>,
    older_than: Option<Duration>,
) -> Result<Done, Failure> {
    let stop = signal::stop_token();
    let mut done = Done::Fine;
    for (name, inbox) in chosen(config, only)? {
        let console = open(&name, &inbox, Missing::Refuse, 1)?.console();
        let age = older_than.unwrap_or(inbox.retention);
        let (mut rows, mut is_over) = (0, false);
        while !is_over && !stop.is_cancelled() {
            let gone = console.purge(None, age, STEP).await;
            let gone = gone.map_err(|error| failed(&name, &error))?;
            rows += gone;
            is_over = gone < u64::from(STEP);
        }
        if rows > 0 {
            let records = Records {
                older_than: Some(age),
                ..Records::default()
            };
            write_down(config, &name, &records, (Purge::WORD, rows)).await;
        }
        let mut text = format!(
            "{name}: {} older than {} removed",
            count(rows, "record"),
            duration::show(age)
        );
        if !is_over {
            done = Done::Found;
            text.push_str("; stopped: give the command again for the rest");
        }
        out.either(
            &json!({ "inbox": name, "records": rows, "stopped": !is_over }),
            text,
        )?;
    }
    Ok(done)
}

type Named = (String, Arc<dyn InboxConsole>);

fn all(config: &Config, only: Option<&str>) -> Result<Vec<Named>, Failure> {
    let open = |(name, inbox): (String, crate::config::Inbox)| {
        let console = open(&name, &inbox, Missing::Refuse, 1)?.console();
        Ok((name, console))
    };
    chosen(config, only)?.into_iter().map(open).collect()
}
