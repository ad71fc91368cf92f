//! Arguments that several commands share.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::config::duration;

mod filter;
mod lifecycle;

pub use filter::{ActArgs, DeadArgs, EventsArgs, FilterArgs, at_least_one};
pub use lifecycle::{EditArgs, LimitArgs, PauseArgs, PurgeArgs, ReplayArgs, What, moment};

/// `postrider demo`
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// How long the service takes orders; default: until Ctrl-C
    #[arg(long = "for", value_name = "DURATION", value_parser = duration::parse)]
    pub duration: Option<Duration>,
    /// Keep the files in this directory
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Orders per second
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rate: u32,
}

/// What an event is.
#[derive(Debug, Args)]
pub struct EventArgs {
    /// The event's type, such as OrderPlaced
    #[arg(long = "type", value_name = "TYPE")]
    pub event_type: Option<String>,
    /// What it happened to: TYPE/ID
    #[arg(long, value_name = "TYPE/ID", value_parser = aggregate)]
    #[arg(conflicts_with_all = ["aggregate_type", "aggregate_id"])]
    pub aggregate: Option<(String, String)>,
    /// The kind of thing it happened to
    #[arg(long, value_name = "TYPE")]
    pub aggregate_type: Option<String>,
    /// The thing it happened to
    #[arg(long, value_name = "ID")]
    pub aggregate_id: Option<String>,
    /// The event's id; default: a new one
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// What order is kept by; default: the aggregate
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// A header; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair)]
    pub headers: Vec<(String, String)>,
    /// The outbox; needed if there are several
    #[arg(long, value_name = "NAME")]
    pub outbox: Option<String>,
}

impl EventArgs {
    /// The aggregate, in whichever form it was given.
    pub fn aggregate(&self) -> (String, String) {
        let text = |given: &Option<String>| given.clone().unwrap_or_default();
        let parts = || (text(&self.aggregate_type), text(&self.aggregate_id));
        self.aggregate.clone().unwrap_or_else(parts)
    }
}

/// `postrider send`
#[derive(Debug, Args)]
pub struct SendArgs {
    #[command(flatten)]
    pub event: EventArgs,
    /// The payload, JSON unless --content-type says otherwise; default: none (a tombstone)
    #[arg(long, value_name = "TEXT")]
    pub payload: Option<String>,
    /// The payload from a file; bytes that are not text need a --content-type
    #[arg(long, value_name = "FILE", conflicts_with = "payload")]
    pub payload_file: Option<PathBuf>,
    /// The content type of the payload
    #[arg(long, value_name = "TYPE")]
    pub content_type: Option<String>,
    /// Positive overtakes, negative yields
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub priority: i32,
    /// Not to be published before this much time has passed
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub delay: Option<Duration>,
    /// Read events from standard input, one JSON object a line
    #[arg(long, conflicts_with_all = ["event_type", "aggregate", "aggregate_type", "aggregate_id", "id", "key",
        "headers", "payload", "payload_file", "content_type", "priority", "delay"])]
    pub lines: bool,
}

/// `postrider tail`
#[derive(Debug, Args)]
pub struct TailArgs {
    /// Go on until stopped
    #[arg(long, short)]
    pub follow: bool,
    /// How many to begin with
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    pub lines: usize,
    /// Only this type
    #[arg(long = "type", value_name = "TYPE")]
    pub event_type: Option<String>,
    /// Only this outbox
    #[arg(long, value_name = "NAME")]
    pub outbox: Option<String>,
}

fn aggregate(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((kind, id)) if !kind.is_empty() && !id.is_empty() => Ok((kind.to_owned(), id.to_owned())),
        _ => Err("must be TYPE/ID, such as ORDER/42".to_owned()),
    }
}

pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("must be NAME=VALUE".to_owned()),
    }
}
