//! `postrider purge`: removes what is kept for a time before its time is over.

use clap::ValueEnum as _;
use postrider_core::{Kept, Purge, Purged, Timestamp};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::ask::{actor, confirm};
use super::progress::Progress;
use crate::archive;
use crate::args::{PurgeArgs, What};
use crate::config::{Config, duration};
use crate::failure::{Done, Failure};
use crate::output::{Output, count};
use crate::signal;
use crate::wire::{self, Opened};

/// Rows of one step: one short transaction each, so that producers and relays never wait noticeably.
const STEP: u32 = 1_000;

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
    let what = word(args.what);
    let age = duration::show(args.older_than);
    let mut chosen = Vec::new();
    for (name, outbox) in wire::chosen(config, args.outbox.as_deref())? {
        let inbox = args.inbox.clone().unwrap_or_else(|| outbox.prefix.clone());
        chosen.push(Chosen {
            opened: wire::ready(name, outbox).await?,
            kept: kept(args.what, inbox),
            before: archived(config, name, args.what)?,
        });
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
        let mut text = format!(
            "{}: {} of the {what} older than {age} {would}removed",
            outbox.name,
            removed.text()
        );
        if removed.stopped {
            done = Done::Found;
            text.push_str("; stopped: give the command again for the rest");
        }
        if let Some(held) = &removed.held {
            text.push_str(&format!("; some of it stays: {held}"));
        }
        if let Some(unarchived) = one.unarchived(args) {
            text.push_str(&unarchived);
        }
        let value = json!({
            "outbox": outbox.name,
            "what": what,
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
    async fn remove(
        &self,
        args: &PurgeArgs,
        out: Output,
        stop: &CancellationToken,
    ) -> Result<Removed, Failure> {
        let mut progress = Progress::new(out, None);
        let mut removed = Removed {
            rows: 0,
            exact: true,
            stopped: false,
            held: None,
        };
        loop {
            let purged = self.step(args, false).await?;
            removed.rows += purged.rows;
            removed.exact &= purged.exact;
            progress.count("purge", removed.rows);
            if !purged.more || stop.is_cancelled() {
                removed.stopped = purged.more;
                removed.held = purged.held;
                progress.end();
                return Ok(removed);
            }
        }
    }

    async fn count(&self, args: &PurgeArgs) -> Result<Removed, Failure> {
        let counted = self.step(args, true).await?;
        Ok(Removed {
            rows: counted.rows,
            exact: counted.exact,
            stopped: false,
            held: counted.held,
        })
    }

    async fn step(&self, args: &PurgeArgs, dry_run: bool) -> Result<Purged, Failure> {
        let purge = Purge {
            dry_run,
            before: self.before,
            actor: Some(actor()),
            ..Purge::of(self.kept.clone(), args.older_than, STEP)
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

fn kept(what: What, inbox: String) -> Kept {
    match what {
        What::History => Kept::History,
        What::Audit => Kept::Audit,
        What::Jobs => Kept::Jobs,
        What::Originals => Kept::Originals,
        What::Restored => Kept::Restored,
        What::Inbox => Kept::Inbox(inbox),
    }
}

/// As it is given on the command line.
fn word(what: What) -> String {
    let value = what.to_possible_value();
    value.map(|value| value.get_name().to_owned()).unwrap_or_default()
}
