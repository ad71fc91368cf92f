//! Arguments of what operators do with events that need time or a person.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use postrider_core::Timestamp;

use crate::config::duration;

/// `postrider dead edit`
#[derive(Debug, Args)]
pub struct EditArgs {
    /// The event's id
    pub id: String,
    /// The new payload, JSON unless the content type says otherwise
    #[arg(long, value_name = "TEXT", required_unless_present = "payload_file")]
    pub payload: Option<String>,
    /// The new payload from a file
    #[arg(long, value_name = "FILE", conflicts_with = "payload")]
    pub payload_file: Option<PathBuf>,
    /// The new content type; default: as it was
    #[arg(long, value_name = "TYPE")]
    pub content_type: Option<String>,
    /// Only for this destination; default: for all where it has failed
    #[arg(long, value_name = "NAME")]
    pub destination: Option<String>,
    /// Only this outbox
    #[arg(long, value_name = "NAME")]
    pub outbox: Option<String>,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

/// `postrider pause` and `resume`
#[derive(Debug, Args)]
pub struct PauseArgs {
    /// Only what goes to this destination
    #[arg(long, value_name = "NAME", conflicts_with = "key")]
    pub destination: Option<String>,
    /// Only this key: as given by the producer, or TYPE/ID of the aggregate
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// The outbox; needed if there are several, unless a destination is named: then each that has a route to it
    #[arg(long, value_name = "NAME")]
    pub outbox: Option<String>,
}

/// `postrider limit`
#[derive(Debug, Args)]
pub struct LimitArgs {
    /// The destination
    pub destination: String,
    /// Events a second, for each relay
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,
    /// Events handed over and not yet answered, for each relay
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub in_flight: Option<u32>,
    /// Back to what the configuration says
    #[arg(long, conflicts_with_all = ["rate", "in_flight"])]
    pub reset: bool,
    /// Only this outbox
    #[arg(long, value_name = "NAME")]
    pub outbox: Option<String>,
}

/// `postrider replay`
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Published at or after this: so long ago, or a moment such as 2026-11-08T09:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub since: Option<Timestamp>,
    /// Published before this
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub until: Option<Timestamp>,
    /// Only this type; may be repeated
    #[arg(long = "type", value_name = "TYPE")]
    pub event_type: Vec<String>,
    /// Only this key: as given by the producer, or TYPE/ID of the aggregate; may be repeated
    #[arg(long, value_name = "KEY")]
    pub key: Vec<String>,
    /// Only this event; may be repeated
    #[arg(long, value_name = "ID")]
    pub id: Vec<String>,
    /// Only what was sent to this destination
    #[arg(long, value_name = "NAME")]
    pub from: Option<String>,
    /// Send it to this destination instead of where it was sent
    #[arg(long, value_name = "NAME")]
    pub to: Option<String>,
    /// What this job read back from an archive, instead of the history
    #[arg(long, value_name = "JOB")]
    pub restored: Option<String>,
    /// Everything that is still in the history
    #[arg(long)]
    pub all: bool,
    /// Copies a second, at most; the job keeps it
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: u32,
    /// Only count
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// The outbox; needed if there are several
    #[arg(long, value_name = "NAME")]
    pub outbox: Option<String>,
}

/// `postrider purge`
#[derive(Debug, Args)]
pub struct PurgeArgs {
    /// Older than this
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, required = true)]
    pub older_than: Duration,
    /// Of what
    #[arg(long, value_enum, default_value_t = What::History)]
    pub what: What,
    /// With --what inbox: only this one, by its name or its table; default: all in the outbox's database
    #[arg(long, value_name = "NAME")]
    pub inbox: Option<String>,
    /// Only count
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Only this outbox
    #[arg(long, value_name = "NAME")]
    pub outbox: Option<String>,
}

/// What is kept for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum What {
    /// Sent, discarded and duplicate events
    History,
    /// What people did
    Audit,
    /// Jobs that have ended
    Jobs,
    /// Payloads before people changed them, whose events are gone
    Originals,
    /// What was read back from an archive
    Restored,
    /// What consumers have seen
    Inbox,
}

/// A moment, or how long ago it was by this machine's clock.
pub fn moment(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Ok(Timestamp(at.as_microsecond()));
    }
    let ago = duration::parse(text)
        .map_err(|error| format!("{error}; or a moment such as 2026-11-08T09:00:00Z"))?;
    let ago = i64::try_from(ago.as_micros()).unwrap_or(i64::MAX);
    Ok(Timestamp(
        jiff::Timestamp::now().as_microsecond().saturating_sub(ago),
    ))
}
