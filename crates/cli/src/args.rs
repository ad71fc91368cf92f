//! Arguments that several commands share.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use postrider_core::{DestinationName, ErrorKind, EventId, Filter, Status};

use crate::config::{duration, suggestion};
use crate::failure::Failure;
use crate::output::cell;

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

/// Which dead events.
#[derive(Debug, Args)]
pub struct FilterArgs {
    /// Only this outbox
    #[arg(long, value_name = "NAME")]
    pub outbox: Option<String>,
    /// Only this type
    #[arg(long = "type", value_name = "TYPE")]
    pub event_type: Option<String>,
    /// Only this key: as given by the producer, or TYPE/ID of the aggregate
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Only what is owed to this destination
    #[arg(long, value_name = "NAME")]
    pub destination: Option<String>,
    /// Only this kind of error, such as rejected
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// Only what is at least this old
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub older_than: Option<Duration>,
}

impl FilterArgs {
    /// A kind that does not exist matches nothing, which must not look like good news.
    pub fn check(&self) -> Result<(), Failure> {
        let known: Vec<&str> = ErrorKind::ALL.iter().map(|kind| kind.as_str()).collect();
        match &self.kind {
            Some(kind) if !known.contains(&kind.as_str()) => {
                let failure = Failure::input(format!("there is no kind of error named {:?}", cell(kind)));
                Err(failure.advice(suggestion(kind, &known).unwrap_or_default()))
            }
            _ => Ok(()),
        }
    }

    /// Whether any part narrows the choice.
    pub fn is_empty(&self) -> bool {
        let FilterArgs {
            outbox: _,
            event_type,
            key,
            destination,
            kind,
            older_than,
        } = self;
        event_type.is_none()
            && key.is_none()
            && destination.is_none()
            && kind.is_none()
            && older_than.is_none()
    }

    /// The filter of the store, for rows of these states.
    pub fn filter(&self, status: Vec<Status>, id: Option<&str>) -> Filter {
        Filter {
            status,
            event_id: id.map(EventId::from),
            event_type: self.event_type.clone(),
            key: self.key.clone(),
            destination: self.destination.as_deref().map(DestinationName::from),
            error_kind: self.kind.clone(),
            older_than: self.older_than,
            ..Filter::default()
        }
    }
}

/// `postrider dead redrive` and `discard`
#[derive(Debug, Args)]
pub struct ActArgs {
    /// The ids of the events
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    #[command(flatten)]
    pub filter: FilterArgs,
    /// All of them
    #[arg(long, conflicts_with = "ids")]
    pub all: bool,
    /// Only count
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

fn aggregate(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((kind, id)) if !kind.is_empty() && !id.is_empty() => Ok((kind.to_owned(), id.to_owned())),
        _ => Err("must be TYPE/ID, such as ORDER/42".to_owned()),
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("must be NAME=VALUE".to_owned()),
    }
}
