//! `postrider purge`: removes what is kept for a time before its time is over.

use std::time::{Duration, Instant};

use clap::ValueEnum as _;
use postrider_core::{Kept, Purge, Purged, Records, StoreErrorKind, Timestamp};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::ask::{actor, confirm};
use super::job;
use super::progress::Progress;
use crate::archive;
use crate::args::{PurgeArgs, What};
use crate::config::{Config, Inbox, Outbox, duration};
use crate::failure::{Done, Failure};
use crate::inbox;
use crate::output::{Output, cell, count};
use crate::signal;
use crate::wire::{self, Missing, Opened};

/// Rows of one step: one short transaction each, so that producers and relays never wait noticeably.
const STEP: u32 = 1_000;

/// How late the database may hear of a step.
const MOMENT: Duration = Duration::from_millis(100);

/// What was removed, or would be.
struct Removed {
    rows: u64,
    exact: bool,
    /// Whether something is left because somebody stopped it.
    stopped: bool,
    /// Why something is left otherwise.
    held: Option<String>,
}

impl Removed {
    fn text(&self) -> String {
        let about = if self.exact { "" } else { "about " };
        format!("{about}{}", count(self.rows, "row"))
    }
}

/// What of which outbox.
struct Chosen {
    opened: Opened,
    kept: Kept,
    /// Up to where the archive has the history, where there is to be one.
    before: Option<Timestamp>,
}

pub async fn purge(config: &Config, out: Output, args: &PurgeArgs) -> Result<Done, Failure> {
    if args.inbox.is_some() && args.what != What::Inbox {
        let failure = Failure::input("--inbox is given, and --what is not inbox");
        return Err(failure.advice("give --what inbox for the records of an inbox, or leave --inbox out"));
    }
    let what = word(args.what);
    let age = duration::show(args.older_than);
    let mut chosen = Vec::new();
    for (name, outbox) in wire::chosen(config, args.outbox.as_deref())? {
        for kept in kept(config, args, outbox).await? {
            chosen.push(Chosen {
                opened: wire::ready(name, outbox).await?,
                kept,
                before: archived(config, name, args.what)?,
            });
        }
    }
    if chosen.is_empty() {
        let failure = Failure::input("no inbox is in the database of such an outbox");
        return Err(failure.advice("`postrider inbox purge` removes the records of every inbox"));
    }
    if !args.dry_run && !args.yes {
        let mut questions = Vec::new();
        for one in &chosen {
            let would = one.count(args).await?;
            questions.push(format!("{} of {}", would.text(), one.opened.name));
        }
        let question = format!(
            "remove what is older than {age} of the {what}: {}?",
            questions.join(", ")
        );
        confirm(&question, "give --yes, or --dry-run to count")?;
    }
    let stop = signal::stop_token();
    let mut done = Done::Fine;
    for one in &chosen {
        let outbox = &one.opened;
        let removed = match args.dry_run {
            true => one.count(args).await?,
            false => one.remove(args, out, &stop).await?,
        };
        let would = if args.dry_run { "would be " } else { "" };
        let table = one.table().map_or_else(String::new, |table| format!(" {table}"));
        let mut text = format!(
            "{}: {} of the {what}{table} older than {age} {would}removed",
            outbox.name,
            removed.text()
        );
        if removed.stopped {
            done = Done::Found;
            text.push_str("; stopped: give the command again for the rest");
        }
        if let Some(held) = &removed.held {
            text.push_str(&format!(
                "; some of it stays: {held}; `postrider job resume` goes on with that job, and `postrider job cancel` \
                 ends it"
            ));
        }
        if let Some(unarchived) = one.unarchived(args) {
            text.push_str(&unarchived);
        }
        let value = json!({
            "outbox": outbox.name,
            "what": what,
            "table": one.table(),
            "rows": removed.rows,
            "exact": removed.exact,
            "dry_run": args.dry_run,
            "stopped": removed.stopped,
            "held": removed.held,
        });
        out.either(&value, text)?;
    }
    Ok(done)
}

impl Chosen {
    /// The table of an inbox.
    fn table(&self) -> Option<&str> {
        match &self.kept {
            Kept::Inbox(table) => Some(table),
            _ => None,
        }
    }

    async fn remove(
        &self,
        args: &PurgeArgs,
        out: Output,
        stop: &CancellationToken,
    ) -> Result<Removed, Failure> {
        if self.kept == Kept::Jobs {
            job::end_replays(&self.opened, &mut stop.clone()).await?;
        }
        let begun = Instant::now();
        let mut progress = Progress::new(out, None);
        let mut removed = Removed {
            rows: 0,
            exact: true,
            stopped: false,
            held: None,
        };
        loop {
            let began = Instant::now();
            // What the steps before have written in the audit is not meant, however long this goes on.
            let older_than = match self.kept == Kept::Audit && removed.rows > 0 {
                true => args.older_than + begun.elapsed() + MOMENT,
                false => args.older_than,
            };
            let purged = self.step(older_than, false).await?;
            removed.rows += purged.rows;
            removed.exact &= purged.exact;
            progress.count("purge", removed.rows);
            if !purged.more || stop.is_cancelled() {
                removed.stopped = purged.more;
                removed.held = purged.held;
                progress.end();
                return Ok(removed);
            }
            let rest = purged.rest.unwrap_or_else(|| began.elapsed());
            let _ = stop.run_until_cancelled(tokio::time::sleep(rest)).await;
        }
    }

    async fn count(&self, args: &PurgeArgs) -> Result<Removed, Failure> {
        let counted = self.step(args.older_than, true).await?;
        Ok(Removed {
            rows: counted.rows,
            exact: counted.exact,
            stopped: false,
            held: counted.held,
        })
    }

    async fn step(&self, older_than: Duration, dry_run: bool) -> Result<Purged, Failure> {
        let purge = Purge {
            dry_run,
            before: self.before,
            actor: Some(actor()),
            ..Purge::of(self.kept.clone(), older_than, STEP)
        };
        let purged = self.opened.upkeep.purge(purge).await;
        purged.map_err(|error| Failure::store(&self.opened.name, &error))
    }

    /// What to do where the archive ends before the term. The clock of this machine is good enough for a hint.
    fn unarchived(&self, args: &PurgeArgs) -> Option<String> {
        let age = i64::try_from(args.older_than.as_micros()).unwrap_or(i64::MAX);
        let term = Timestamp(Timestamp::now().0.saturating_sub(age));
        self.before.filter(|before| *before < term)?;
        Some("; what the archive does not have yet stays: `postrider archive write` writes it".to_owned())
    }
}

/// Until when the archive has the history of an outbox; from the beginning of time where it has nothing yet. None:
/// there is no archive to be waited for.
fn archived(config: &Config, outbox: &str, what: What) -> Result<Option<Timestamp>, Failure> {
    let Some(archive) = config.cleanup.archive.as_ref().filter(|_| what == What::History) else {
        return Ok(None);
    };
    let until = archive::archived_until(&archive.dir, outbox)?;
    Ok(Some(until.unwrap_or(Timestamp(0))))
}

async fn kept(config: &Config, args: &PurgeArgs, outbox: &Outbox) -> Result<Vec<Kept>, Failure> {
    Ok(vec![match args.what {
        What::History => Kept::History,
        What::Audit => Kept::Audit,
        What::Jobs => Kept::Jobs,
        What::Originals => Kept::Originals,
        What::Restored => Kept::Restored,
        What::Inbox => {
            let tables = inboxes(config, args.inbox.as_deref(), outbox);
            for table in &tables {
                is_there(config, args.inbox.as_deref(), outbox, table).await?;
            }
            return Ok(tables.into_iter().map(Kept::Inbox).collect());
        }
    }])
}

/// The tables of the inboxes in the database of an outbox: those that are configured, or the one that is named by its
/// configuration or by its table. Where none is configured it is the one beside the outbox.
fn inboxes(config: &Config, named: Option<&str>, outbox: &Outbox) -> Vec<String> {
    let is_here = |inbox: &Inbox| outbox.place.is_in_the_database_of(&inbox.database.place);
    let mut tables: Vec<String> = match named {
        Some(name) => match config.inboxes.get(name) {
            Some(inbox) => [inbox]
                .into_iter()
                .filter(|inbox| is_here(inbox))
                .map(table)
                .collect(),
            None => vec![name.to_owned()],
        },
        None if config.inboxes.is_empty() => vec![table(&Inbox::beside(outbox, &config.cleanup))],
        None => config
            .inboxes
            .values()
            .filter(|inbox| is_here(inbox))
            .map(table)
            .collect(),
    };
    tables.sort();
    tables.dedup();
    tables
}

fn table(inbox: &Inbox) -> String {
    inbox.database.prefix.clone()
}

/// A table that is not there must not look like one in which nothing is old.
async fn is_there(config: &Config, named: Option<&str>, outbox: &Outbox, table: &str) -> Result<(), Failure> {
    let mut inbox = Inbox::beside(outbox, &config.cleanup);
    table.clone_into(&mut inbox.database.prefix);
    let console = inbox::open(table, &inbox, Missing::Refuse, 1)?.console();
    let Err(error) = console.count(Records::of("")).await else {
        return Ok(());
    };
    Err(match (error.kind(), named) {
        (StoreErrorKind::Schema, Some(name)) if !config.inboxes.contains_key(name) => {
            let failure = Failure::input(format!(
                "there is no inbox {:?}, neither by name nor by table",
                cell(name)
            ));
            failure.advice("give the name of an [inbox.NAME] or that of its table")
        }
        _ => inbox::failed(table, &error),
    })
}

/// As it is given on the command line.
fn word(what: What) -> String {
    let value = what.to_possible_value();
    value.map(|value| value.get_name().to_owned()).unwrap_or_default()
}
