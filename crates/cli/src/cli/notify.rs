//! What can be asked about notifications.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::config::duration;

/// `postrider notify`
#[derive(Debug, Subcommand)]
pub enum NotifyCommand {
    /// Turn events into notifications, deliver them and serve feeds, until stopped
    ///
    /// Events of the audiences come from the queues of a broker, or without one from the outbox itself. Feeds are
    /// served over HTTP; mail and pushes go out. What else is in that outbox is published by the routes, as
    /// `postrider run` does. Stopped by SIGINT or SIGTERM.
    #[command(after_long_help = "\
Examples:
  timeout --preserve-status --signal=INT 1 postrider notify run
  timeout --preserve-status --signal=INT 1 postrider notify run --migrate --json

Several may run: they share the work, and nobody is told anything twice.")]
    Run {
        /// Make missing tables first
        #[arg(long)]
        migrate: bool,
    },

    /// Make or print the tables of notifications
    #[command(subcommand)]
    Migrate(NotifyMigrateCommand),

    /// Show live feeds in a browser, with nothing installed
    ///
    /// A small service commits events to an SQLite file; they become notifications of sample people, whose feeds are
    /// on the page that is printed. At the end what happened is compared with what was told. Touches nothing outside
    /// of a temporary directory.
    #[command(after_long_help = "\
Examples:
  postrider notify demo --for 2s
  postrider notify demo --for 2s --listen 127.0.0.1:0 --json

Exit code 0 if nobody missed anything or was told it twice; 1 otherwise.")]
    Demo(NotifyDemoArgs),

    /// Print the signature by which somebody may read their feed
    ///
    /// HMAC-SHA256 of the id with the `secret` of `[notify]`, in hexadecimal digits. A service that logged somebody in
    /// makes it itself; this is for trying things out.
    #[command(after_long_help = "\
Examples:
  postrider notify sign ada
  postrider notify sign ada --json

It is valid until the secret is changed: treat it as a password.")]
    Sign {
        /// The id of the recipient
        user: String,
    },

    /// Show a notification, or all of an event, with what became of each delivery
    ///
    /// With neither, what is not done yet: fan-outs and digests, and why some of them stand aside.
    #[command(after_long_help = "\
Examples:
  postrider notify show
  postrider notify show 1
  postrider notify show --event order-1 --json

Exit code 1 if there is none (or it has been removed), or if something
stands aside.")]
    Show(NotifyShowArgs),
}

#[derive(Debug, Subcommand)]
pub enum NotifyMigrateCommand {
    /// Make what is missing: of the outbox, the inbox and the notifications
    ///
    /// Safe to repeat and to run from several processes at once.
    #[command(after_long_help = "\
Examples:
  postrider notify migrate up
  postrider notify migrate up --json

Exit code 1 if there are rows that a unique index would refuse; they are
listed, and nothing is changed.")]
    Up,
    /// Print the SQL of the inbox and the notifications, for those who run it by other means
    ///
    /// That of the outbox is printed by `postrider migrate print`, and comes first.
    #[command(after_long_help = "\
Examples:
  postrider notify migrate print
  postrider notify migrate print --json")]
    Print,
}

/// `postrider notify demo`
#[derive(Debug, Args)]
pub struct NotifyDemoArgs {
    /// How long events arrive; default: until Ctrl-C
    #[arg(long = "for", value_name = "DURATION", value_parser = duration::parse)]
    pub duration: Option<Duration>,
    /// Where the page is; default: 127.0.0.1:7788, or any port if that is taken
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Events per second
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rate: u32,
}

/// `postrider notify show`
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct NotifyShowArgs {
    /// The notification's id
    pub id: Option<i64>,
    /// All of this event; the first 100
    #[arg(long, value_name = "ID")]
    pub event: Option<String>,
}
