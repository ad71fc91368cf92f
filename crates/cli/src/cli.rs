//! The command line: what can be asked, and the help that documents it.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::args::{
    DemoArgs, EventsArgs, LimitArgs, PauseArgs, PurgeArgs, ReplayArgs, SendArgs, TailArgs, at_least_one,
};

mod archive;
mod dead;
mod inbox;
mod listen;
mod notify;
mod operate;
mod route;

pub use archive::{ArchiveArgs, ArchiveCommand};
pub use dead::DeadCommand;
pub use inbox::{ForgetArgs, InboxCommand};
pub use listen::ListenArgs;
pub use notify::{NotifyCommand, NotifyDemoArgs, NotifyMigrateCommand, NotifyShowArgs};
pub use operate::{JobArg, JobCommand, ScheduleCommand};
pub use route::RouteCommand;

const EXIT_CODES: &str = "\
Exit codes:
  0  done, and nothing to complain of
  1  done, and a problem was found: a violation, a dead event, no route,
     a step to migrate, nothing with that id
  2  the command line, the configuration or the input is wrong;
     nothing was changed
  3  a database or broker cannot be used: unreachable, not migrated,
     read-only, full

Configuration: --config FILE, or the file named by POSTRIDER_CONFIG, or
./postrider.toml, or an embedded default (events of the SQLite file
postrider.db go to events.jsonl). POSTRIDER__TABLE__KEY replaces a key of it,
such as POSTRIDER__OUTBOX__MAIN__URL.";

/// Carries the events that a service's transactions commit to the brokers that others listen to: in order, without
/// loss.
#[derive(Debug, Parser)]
#[command(name = "postrider", version, max_term_width = 100, after_long_help = EXIT_CODES)]
#[command(after_help = "`postrider help COMMAND` has examples and exit codes.")]
pub struct Cli {
    /// The configuration file; default: POSTRIDER_CONFIG, ./postrider.toml, or an embedded default
    #[arg(long, short, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Print JSON for scripts: one document per line on standard output, errors as JSON on standard error
    #[arg(long, global = true)]
    pub json: bool,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the whole job on one screen, with nothing installed
    ///
    /// Starts a small order service that commits orders and events to an SQLite file (and rolls some back on
    /// purpose), a relay, and a consumer with an inbox. At the end the business tables are compared with what
    /// arrived. Touches nothing outside of a temporary directory.
    #[command(after_long_help = "\
Examples:
  postrider demo --for 2s
  postrider demo --for 2s --json
  postrider demo --for 1s --dir demo-files

Exit code 0 if nothing was lost, invented, reordered or done twice; 1 otherwise.")]
    Demo(DemoArgs),

    /// Write a commented postrider.toml
    ///
    /// Never overwrites a file.
    #[command(after_long_help = "\
Examples:
  postrider init
  postrider init --path other.toml && postrider --config other.toml config check")]
    Init {
        /// Where to write it
        #[arg(long, value_name = "FILE", default_value = "postrider.toml")]
        path: PathBuf,
    },

    /// Make, show, print or remove the tables of an outbox
    #[command(subcommand)]
    Migrate(MigrateCommand),

    /// Check or show the configuration, without touching a database or a broker
    #[command(subcommand)]
    Config(ConfigCommand),

    /// Explain where an event would go
    #[command(subcommand)]
    Route(RouteCommand),

    /// Publish what is committed, until stopped
    ///
    /// Reads every configured outbox and publishes by the routes. SIGINT or SIGTERM stops it: it lets what is under way
    /// finish, gives its leases back and exits 0. A second signal exits at once; nothing is lost by that.
    ///
    /// Tables are made by `postrider migrate up`; without any configuration file they are made on the way.
    #[command(after_long_help = "\
Examples:
  postrider run --until-empty
  postrider run --migrate --until-empty
  timeout --preserve-status --signal=INT 1 postrider run
  POSTRIDER__LOG__FORMAT=json postrider run --until-empty

--until-empty waits while something is queued and no destination of it answers,
while the outbox or a destination of what is left is paused, or while another
relay holds the lease; `timeout` bounds it:
timeout --preserve-status --signal=INT 60 postrider run --until-empty
It does not wait for what is HELD because one of several destinations is down,
or because its key is paused: that is left, and a relay sends it when it can.

With --until-empty, exit code 1 means that something is left: queued (also
after a signal), refused and to be tried again, held back, or dead
(`postrider dead list`). Events that are scheduled for later do not count.
Exit code 3 if whoever reads the events on standard output goes away.")]
    Run {
        /// Stop when nothing is queued or due any more; waits for what is queued, but not for what is held for one of
        /// several destinations that is down
        #[arg(long)]
        until_empty: bool,
        /// Make missing tables first
        #[arg(long)]
        migrate: bool,
        /// Only this outbox
        #[arg(long, value_name = "NAME")]
        outbox: Option<String>,
    },

    /// Post the events of a queue to a url, each once as far as that can be, until stopped
    ///
    /// A consumer for any language: an inbox in front, order per key, retries, dead letters. Stopped by SIGINT or
    /// SIGTERM.
    #[command(after_long_help = listen::HELP)]
    Listen(Box<ListenArgs>),

    /// Tell people of events: feeds over HTTP, mail and pushes, each once
    #[command(subcommand)]
    Notify(NotifyCommand),

    /// Commit one event, or many from standard input, in one transaction
    ///
    /// For trying things out and for scripts. A service commits its events with its own data instead.
    ///
    /// With --lines, standard input has one JSON object a line: event_type, aggregate_type, aggregate_id and payload,
    /// and where wanted event_id, event_key, headers, content_type, priority, available_at. The payload is kept byte
    /// for byte; payload_text in its place holds text that is not JSON, with a content_type that says what it is. One
    /// bad line and nothing is sent.
    #[command(after_long_help = r#"Examples:
  postrider send --type OrderPlaced --aggregate ORDER/42 --payload '{"n": 1}'
  postrider send --type OrderPlaced --aggregate ORDER/42 --header tenant=a
  postrider send --type Reminder --aggregate ORDER/42 --delay 1h --json
  echo '{"event_type":"A","aggregate_type":"ORDER","aggregate_id":"42"}' \
    | postrider send --lines

Exit code 2 if an event is refused (payload that is not JSON, an id used
twice, a limit); then nothing was sent."#)]
    Send(Box<SendArgs>),

    /// Show the state of the outboxes in numbers
    #[command(after_long_help = "\
Examples:
  postrider status
  postrider status --json
  postrider status --check || echo trouble

RETRY, WAIT, HELD and SCHED are parked and move by themselves. They, DEAD,
DISC (thrown away) and DELIVERED (`published` in JSON) count an event once per
destination; DUPL are repeats that were not published again. Columns of zeros
are left out. Below, it names the relays that are alive and what they own.

With --check, exit code 1 if there are more dead events than [health] max_dead,
events refused for longer than relay.stalled_after, unpublished ones from
max_unpublished on, or one older than max_age.")]
    Status {
        /// Exit with 1 if something needs a person
        #[arg(long)]
        check: bool,
        /// Only this outbox
        #[arg(long, value_name = "NAME")]
        outbox: Option<String>,
    },

    /// Show everything known about one event
    #[command(after_long_help = "\
Examples:
  postrider show order-1
  postrider show order-1 --payload --json

Exit code 1 if there is no such event (or its history has been removed).")]
    Show {
        /// The event's id
        id: String,
        /// With its payload, which may hold personal data
        #[arg(long)]
        payload: bool,
        /// Only this outbox
        #[arg(long, value_name = "NAME")]
        outbox: Option<String>,
    },

    /// Show what was published last, and go on with what is being published
    #[command(after_long_help = "\
Examples:
  postrider tail
  postrider tail -n 3 --json
  timeout --preserve-status --signal=INT 1 postrider tail --follow

Events of an outbox with history = \"none\" cannot be shown.")]
    Tail(TailArgs),

    /// List events in any state, the newest first
    ///
    /// A text is looked for in ids, types, keys and errors, never in payloads. The history may be long: where a listing
    /// takes more than a few seconds it ends and says so: with --json by a last line {"partial": true, …}.
    #[command(after_long_help = "\
Examples:
  postrider events
  postrider events --status waiting --status held
  postrider events --type OrderPlaced --since 1h --json
  postrider events --text 'no route' -n 5")]
    Events(EventsArgs),

    /// Look after events that need a person
    #[command(subcommand, after_long_help = dead::EXAMPLES)]
    Dead(DeadCommand),

    /// Send events again that were sent
    ///
    /// Each is copied with the header postrider-replay, which names the job. Copies keep their order per key among
    /// themselves; they neither wait for new events nor hold them back. A consumer with an inbox drops them unless it
    /// asks for replays.
    #[command(after_long_help = operate::REPLAY)]
    Replay(ReplayArgs),

    /// Look after events whose time has not come
    #[command(subcommand, after_long_help = operate::SCHEDULE)]
    Schedule(ScheduleCommand),

    /// Stop publishing: an outbox, a destination or a key
    ///
    /// Kept in the database: every relay obeys within seconds, and it outlasts restarts. Events are not lost: they wait
    /// where `postrider status` counts them, and no attempt is charged.
    #[command(after_long_help = operate::PAUSE)]
    Pause(PauseArgs),

    /// Let what was paused go on
    #[command(after_long_help = operate::RESUME)]
    Resume(PauseArgs),

    /// Change the limits of a destination while relays run
    #[command(after_long_help = operate::LIMIT)]
    Limit(LimitArgs),

    /// Look after long work: bulk redrives, discards, replays
    #[command(subcommand, after_long_help = operate::JOB)]
    Job(JobCommand),

    /// Show who did what, the newest first
    ///
    /// The steps of a job are one line.
    #[command(after_long_help = operate::AUDIT)]
    Audit {
        /// At most this many
        #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = at_least_one())]
        limit: u32,
        /// Only this outbox
        #[arg(long, value_name = "NAME")]
        outbox: Option<String>,
    },

    /// Remove old history, audit or inbox rows before their time is over
    ///
    /// Relays do this by themselves. Queued and parked events are never touched. One short transaction a step; Ctrl-C
    /// stops between two.
    #[command(after_long_help = operate::PURGE)]
    Purge(PurgeArgs),

    /// Look after the records of what took effect
    ///
    /// Of the inboxes that are configured as `[inbox.NAME]`; without any, of the table inbox beside each outbox.
    #[command(subcommand)]
    Inbox(InboxCommand),

    /// Keep the history in files: compressed lines of JSON with checksums
    #[command(subcommand, after_long_help = archive::EXAMPLES)]
    Archive(ArchiveCommand),
}

#[derive(Debug, Subcommand)]
pub enum MigrateCommand {
    /// Make what is missing
    ///
    /// Safe to repeat and to run from several processes at once.
    #[command(after_long_help = "\
Examples:
  postrider migrate up
  postrider migrate up --json")]
    Up(OutboxArg),
    /// Remove the tables
    ///
    /// Refused while events are queued or parked, because they would be lost. The history is removed.
    #[command(after_long_help = "\
Examples:
  postrider run --until-empty && postrider migrate down --yes")]
    Down {
        #[command(flatten)]
        outbox: OutboxArg,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Show which version is installed
    #[command(after_long_help = "\
Examples:
  postrider migrate status
  postrider migrate status --json

Exit code 1 if there is something to migrate.")]
    Status(OutboxArg),
    /// Print the SQL, for those who run it by other means
    #[command(after_long_help = "\
Examples:
  postrider migrate print
  postrider migrate print --from 2
  postrider migrate print --down
  postrider migrate print --inbox

All steps are one transaction, so a script that fails leaves nothing behind.

With --role, for PostgreSQL: also the grants that let a role run a relay and
nothing more, as in `postrider migrate print --role relay | psql orders`. They
are a transaction of their own, because the role must exist for them; --grants
prints them alone.")]
    Print(PrintArgs),
}

/// What to print.
#[derive(Debug, clap::Args)]
pub struct PrintArgs {
    #[command(flatten)]
    pub outbox: OutboxArg,
    /// The statements that remove the tables
    #[arg(long)]
    pub down: bool,
    /// Only the steps behind this version: the one that `migrate status` shows as installed
    #[arg(long, value_name = "VERSION", conflicts_with = "down")]
    pub from: Option<u32>,
    /// Also what this role of the database must be granted to run a relay, and nothing more
    #[arg(long, value_name = "NAME", conflicts_with = "down")]
    pub role: Option<String>,
    /// The grants without the tables
    #[arg(long, requires = "role", conflicts_with = "from")]
    pub grants: bool,
    /// The table of the inboxes instead
    #[arg(long, conflicts_with_all = ["down", "from", "role", "outbox"])]
    pub inbox: bool,
}

/// Which outbox.
#[derive(Debug, clap::Args)]
pub struct OutboxArg {
    /// Only this outbox
    #[arg(long, value_name = "NAME")]
    pub outbox: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check every key, reference and address
    #[command(after_long_help = "\
Examples:
  postrider config check
  postrider config check --json

Exit code 2 with the line of the first mistake.")]
    Check,
    /// Show what is in force, with defaults filled in and secrets left out
    #[command(after_long_help = "\
Examples:
  postrider config show
  postrider config show --json
  POSTRIDER__RELAY__BATCH_SIZE=500 postrider config show")]
    Show,
}
