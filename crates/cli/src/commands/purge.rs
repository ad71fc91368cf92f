//! `postrider purge`: removes what is kept for a time before its time is over.

use postrider_core::{Kept, Purge};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::ask::{actor, confirm};
use super::progress::Progress;
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

pub async fn purge(config: &Config, out: Output, args: &PurgeArgs) -> Result<Done, Failure> {
    let what = word(args.what);
    let age = duration::show(args.older_than);
    let mut opened = Vec::new();
    for (name, outbox) in wire::chosen(config, args.outbox.as_deref())? {
        let inbox = args.inbox.clone().unwrap_or_else(|| outbox.prefix.clone());
        opened.push((wire::ready(name, outbox).await?, kept(args.what, inbox)));
    }
    if !args.dry_run && !args.yes {
        let mut questions = Vec::new();
        for (outbox, kept) in &opened {
            let would = count_rows(outbox, args, kept).await?;
            questions.push(format!("{} of {}", would.text(), outbox.name));
        }
        let question = format!(
            "remove what is older than {age} of the {what}: {}?",
            questions.join(", ")
        );
        confirm(&question, "give --yes, or --dry-run to count")?;
    }
    let stop = signal::stop_token();
    let mut done = Done::Fine;
    for (outbox, kept) in &opened {
        let removed = match args.dry_run {
            true => count_rows(outbox, args, kept).await?,
            false => remove(outbox, args, kept, out, &stop).await?,
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

async fn remove(
    outbox: &Opened,
    args: &PurgeArgs,
    kept: &Kept,
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
        let purged = outbox.upkeep.purge(step(args, kept, false)).await;
        let purged = purged.map_err(|error| Failure::store(&outbox.name, &error))?;
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

/// As far as counting is cheap: a store may answer with a bound or an estimate.
async fn count_rows(outbox: &Opened, args: &PurgeArgs, kept: &Kept) -> Result<Removed, Failure> {
    let counted = outbox.upkeep.purge(step(args, kept, true)).await;
    let counted = counted.map_err(|error| Failure::store(&outbox.name, &error))?;
    Ok(Removed {
        rows: counted.rows,
        exact: counted.exact && !counted.more,
        stopped: false,
        held: counted.held,
    })
}

fn step(args: &PurgeArgs, kept: &Kept, dry_run: bool) -> Purge {
    Purge {
        dry_run,
        actor: Some(actor()),
        ..Purge::of(kept.clone(), args.older_than, STEP)
    }
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

fn word(what: What) -> &'static str {
    match what {
        What::History => "history",
        What::Audit => "audit",
        What::Jobs => "jobs",
        What::Originals => "originals",
        What::Restored => "restored",
        What::Inbox => "inbox",
    }
}
