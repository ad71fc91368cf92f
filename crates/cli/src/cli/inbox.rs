//! What can be asked of an inbox.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::config::duration;

#[derive(Debug, Subcommand)]
pub enum InboxCommand {
    /// Make the table where it is missing
    #[command(after_long_help = "\
Examples:
  postrider inbox migrate
  postrider inbox migrate --json

`postrider migrate print --inbox` prints the SQL instead.")]
    Migrate(InboxArg),
    /// Forget what took effect, so that it takes effect again when it comes again
    ///
    /// Nothing is delivered by this: `postrider replay` sends events again, and the consumer of --consumer takes them
    /// as new. What its effects left behind stays: undo that first, or they happen twice.
    #[command(after_long_help = "\
Examples:
  postrider inbox migrate \\
    && postrider inbox forget --consumer billing --since 2h --dry-run
  postrider inbox migrate --json \\
    && postrider inbox forget --consumer billing --all --yes --json

Exit code 1 if none of the ids of --id is known.")]
    Forget(ForgetArgs),
    /// Remove what is older than it must be known
    ///
    /// A relay does this for the inboxes of `cleanup.inbox`. One short transaction a step.
    #[command(after_long_help = "\
Examples:
  postrider inbox migrate && postrider inbox purge
  postrider inbox migrate --json \\
    && postrider inbox purge --older-than 60d --json

What is removed takes effect again if a broker delivers it once more.")]
    Purge {
        #[command(flatten)]
        inbox: InboxArg,
        /// Older than this; default: the retention of the inbox
        #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
        older_than: Option<Duration>,
    },
}

/// Which inbox.
#[derive(Debug, Args)]
pub struct InboxArg {
    /// Only this inbox
    #[arg(long, value_name = "NAME")]
    pub inbox: Option<String>,
}

/// `postrider inbox forget`
#[derive(Debug, Args)]
pub struct ForgetArgs {
    /// Whose records: the name that the consumer goes by
    #[arg(long, value_name = "NAME")]
    pub consumer: String,
    /// Only this event; may be repeated
    #[arg(long = "id", value_name = "ID")]
    pub ids: Vec<String>,
    /// Only what took effect at least this long ago
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub older_than: Option<Duration>,
    /// Only what took effect at most this long ago
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub since: Option<Duration>,
    /// Everything of this consumer
    #[arg(long, conflicts_with_all = ["ids", "older_than", "since"])]
    pub all: bool,
    /// Only count
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub inbox: InboxArg,
}
