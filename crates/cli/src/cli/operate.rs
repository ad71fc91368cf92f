//! What operators can ask for beside dead events: schedules, jobs; and the help of their commands.

use std::time::Duration;

use clap::Subcommand;

use super::OutboxArg;
use crate::args::{FilterArgs, at_least_one};
use crate::config::duration;

pub const REPLAY: &str = "\
Examples:
  postrider replay --since 1h --type OrderPlaced --dry-run
  postrider replay --id order-1 --yes
  postrider replay --key ORDER/1 --rate 100 --yes --json
  postrider replay --since 1h --to events --yes && postrider job list
  postrider replay --id order-1 --to events --dry-run

At most 512 copies wait for a relay at a time, so a replay goes on as relays
send them. Ctrl-C pauses it: `postrider job resume JOB` goes on,
`postrider job cancel JOB` takes back what was not sent. What is settled while
the job begins may be left out.

Exit code 0 if nothing matches, and then there is no job, except with
--restored, whose events are not counted before; 1 if --restored is no restore,
one that has not ended or one that is left in part, if --id names an event that
was not sent (the others are replayed; with --restored this needs a history), if
copies are dead, or the job was stopped. It is 0 too if all copies are made and
some are not sent yet: the answer says whether a relay runs or what is paused.";

pub const PAUSE: &str = "\
Examples:
  postrider pause
  postrider pause --destination events
  postrider pause --key ORDER/42 --json

What a relay has in its hands still goes. A paused key holds back its own
events and no others; scheduled and replayed ones stand outside of it.";

pub const RESUME: &str = "\
Examples:
  postrider pause && postrider resume
  postrider pause --key ORDER/42 && postrider resume --key ORDER/42

Exit code 1 if it is not paused.";

pub const LIMIT: &str = "\
Examples:
  postrider limit events --rate 100
  postrider limit events --rate 100 --in-flight 10 --json
  postrider limit events --reset

Limits are for each relay: two relays with --rate 100 send up to 200 events a
second.";

pub const AUDIT: &str = "\
Examples:
  postrider audit
  postrider audit -n 5 --json";

pub const PURGE: &str = "\
Examples:
  postrider purge --older-than 7d --dry-run
  postrider purge --older-than 7d --yes
  postrider purge --older-than 90d --what audit --yes --json

Replays and the duplicate check need the history: what is removed can neither
be replayed nor recognised.";

pub const SCHEDULE: &str = "\
Examples:
  postrider schedule list
  postrider schedule move later-1 --in 2h
  postrider schedule cancel later-1 --reason 'order was cancelled'";

pub const JOB: &str = "\
Examples:
  postrider job list
  postrider job show $JOB
  postrider job pause $JOB && postrider job resume $JOB
  postrider job cancel $JOB";

#[derive(Debug, Subcommand)]
pub enum ScheduleCommand {
    /// List what is scheduled, the next first
    #[command(after_long_help = "\
Examples:
  postrider schedule list
  postrider schedule list --type Reminder --json

An event that no relay has seen yet is PENDING and not listed.")]
    List {
        #[command(flatten)]
        filter: FilterArgs,
        /// At most this many of each outbox
        #[arg(long, short = 'n', value_name = "N", default_value_t = 100, value_parser = at_least_one())]
        limit: u32,
    },
    /// Give scheduled events another time
    #[command(after_long_help = "\
Examples:
  postrider schedule move later-1 --in 2h
  postrider schedule move later-1 --in 0s --json

Exit code 1 if there is no such event, or its time has come.")]
    Move {
        /// The ids of the events
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// From now, by the database's clock
        #[arg(long = "in", value_name = "DURATION", value_parser = duration::parse)]
        after: Duration,
        #[command(flatten)]
        outbox: OutboxArg,
    },
    /// Throw scheduled events away before their time comes
    ///
    /// They move into the history as discarded, with the reason.
    #[command(after_long_help = "\
Examples:
  postrider schedule cancel later-1 --reason 'order was cancelled'

Exit code 1 if there is no such event, or its time has come.")]
    Cancel {
        /// The ids of the events
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Why; kept with the events
        #[arg(long)]
        reason: String,
        #[command(flatten)]
        outbox: OutboxArg,
    },
}

#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// List jobs, the newest first
    #[command(after_long_help = "\
Examples:
  postrider job list
  postrider dead redrive --all --yes && postrider job list")]
    List {
        /// At most this many
        #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = at_least_one())]
        limit: u32,
        #[command(flatten)]
        outbox: OutboxArg,
    },
    /// Show one job
    #[command(after_long_help = "\
Examples:
  postrider job show $JOB
  postrider job show $JOB --json

Exit code 1 if there is no such job.")]
    Show(JobArg),
    /// Go on with a job that was paused, or whose process has died
    ///
    /// Exactly where it was: a step and the job's state are one transaction.
    #[command(after_long_help = "\
Examples:
  postrider job pause $JOB && postrider job resume $JOB

Exit code 1 if it is over, was stopped again, met rows that the verb does not
suit, or has copies that are dead.")]
    Resume {
        #[command(flatten)]
        job: JobArg,
        /// Copies a second of a replay, at most; default: as it was
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        rate: Option<u32>,
    },
    /// Stop a job until it is resumed
    #[command(after_long_help = "\
Examples:
  postrider job pause $JOB
  postrider job pause $JOB --json

Whoever drives it stops behind its present step. Exit code 1 if it is over.")]
    Pause(JobArg),
    /// End a job; copies of a replay that were not sent are taken back
    #[command(after_long_help = "\
Examples:
  postrider job cancel $JOB
  postrider job cancel $JOB --json

What was done stays done. Exit code 1 if it is over.")]
    Cancel(JobArg),
}

/// Which job.
#[derive(Debug, clap::Args)]
pub struct JobArg {
    /// The job's id
    pub id: String,
    #[command(flatten)]
    pub outbox: OutboxArg,
}
