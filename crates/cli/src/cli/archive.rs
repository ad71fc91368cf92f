//! What can be asked of an archive.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use postrider_core::Timestamp;

use super::OutboxArg;
use crate::args::moment;
use crate::config::duration;

pub const EXAMPLES: &str = "\
Examples:
  postrider archive write --dir archive --older-than 1d
  postrider archive write --dir archive \\
    && postrider archive verify --dir archive
  postrider archive write --dir archive \\
    && postrider archive restore --dir archive

`postrider replay --restored JOB` sends what a restore has read back.";

#[derive(Debug, Subcommand)]
pub enum ArchiveCommand {
    /// Write what was published and is in no file yet
    ///
    /// A relay does it by itself before it cleans up where `cleanup.archive_dir` is set.
    #[command(after_long_help = "\
Examples:
  postrider archive write --dir archive
  postrider archive write --dir archive --older-than 1d --json")]
    Write {
        #[command(flatten)]
        place: ArchiveArgs,
        /// Only what is at least this old; not below 1m
        #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "1m")]
        older_than: Duration,
    },
    /// Compare every file with the checksums that it was written with
    #[command(after_long_help = "\
Examples:
  postrider archive write --dir archive \\
    && postrider archive verify --dir archive
  postrider archive verify --dir archive --json

Exit code 1 if something is missing or was changed.")]
    Verify {
        #[command(flatten)]
        place: ArchiveArgs,
    },
    /// Read rows back, so that they can be replayed
    ///
    /// They go where only `postrider replay --restored JOB` finds them. A file that is not as it was written is
    /// refused.
    #[command(after_long_help = "\
Examples:
  postrider archive restore --dir archive
  postrider archive restore --dir archive --since 30d --until 1d --json

A restore that was broken off goes on with --job, in the range it was begun with.

Exit code 1 if there is no archive of that time or no such job, if a file is
missing or was changed (then nothing is restored), if a folder is missing at an
end of that time, if somebody has paused or cancelled it, or if not all is left
of what a --job has restored.")]
    Restore {
        #[command(flatten)]
        place: ArchiveArgs,
        /// Published at or after this: so long ago, or a moment such as 2026-11-08T09:00:00Z
        #[arg(long, value_name = "WHEN", value_parser = moment)]
        since: Option<Timestamp>,
        /// Published before this
        #[arg(long, value_name = "WHEN", value_parser = moment)]
        until: Option<Timestamp>,
        /// Go on with this job
        #[arg(long, value_name = "JOB")]
        job: Option<String>,
    },
}

/// Which archive.
#[derive(Debug, clap::Args)]
pub struct ArchiveArgs {
    /// The folder of the archive; default: `cleanup.archive_dir`
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    pub outbox: OutboxArg,
}
