//! Which events a listing or a verb is about.

use std::time::Duration;

use clap::Args;
use clap::builder::RangedI64ValueParser;
use postrider_core::{DestinationName, ErrorKind, EventId, Filter, Status, Verb};

use crate::config::{duration, suggestion};
use crate::failure::Failure;
use crate::output::cell;

/// Which events.
#[derive(Debug, Args)]
pub struct FilterArgs {
    /// Only this outbox
    #[arg(long, value_name = "NAME")]
    pub outbox: Option<String>,
    /// Only this type; may be repeated
    #[arg(long = "type", value_name = "TYPE")]
    pub event_type: Vec<String>,
    /// Only this key: as given by the producer, or TYPE/ID of the aggregate; may be repeated
    #[arg(long, value_name = "KEY")]
    pub key: Vec<String>,
    /// Only what is owed to this destination, or was sent there
    #[arg(long, value_name = "NAME")]
    pub destination: Option<String>,
    /// Only this kind of error, such as rejected
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// Only what has this text in its id, type, key or error
    #[arg(long, value_name = "TEXT")]
    pub text: Option<String>,
    /// Only what was created at least this long ago, whenever it failed
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub older_than: Option<Duration>,
    /// Only what was created at most this long ago, whenever it failed
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub since: Option<Duration>,
}

impl FilterArgs {
    /// A kind that does not exist and an age that cannot be match nothing, which must not look like good news.
    pub fn check(&self) -> Result<(), Failure> {
        if let (Some(least), Some(most)) = (self.older_than, self.since)
            && least > most
        {
            return Err(
                Failure::input("nothing is older than --older-than and younger than --since")
                    .advice("--since says how old an event may be, --older-than how old it must be"),
            );
        }
        let known: Vec<&str> = ErrorKind::ALL.iter().map(|kind| kind.as_str()).collect();
        match &self.kind {
            Some(kind) if !known.contains(&kind.as_str()) => {
                let failure = Failure::input(format!("there is no kind of error named {:?}", cell(kind)));
                Err(failure.advice(suggestion(kind, &known).unwrap_or_default()))
            }
            _ => Ok(()),
        }
    }

    /// A group counts events of many types, keys and ages: an option that it cannot answer must not be passed over,
    /// because whoever narrows a listing acts on what it shows.
    pub fn suits_groups(&self) -> Result<(), Failure> {
        let given = [
            ("--type", !self.event_type.is_empty()),
            ("--key", !self.key.is_empty()),
            ("--older-than", self.older_than.is_some()),
            ("--since", self.since.is_some()),
        ];
        let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) else {
            return Ok(());
        };
        let text = format!("--group counts failures that look alike, and {option} is about single events");
        Err(Failure::input(text).advice(format!(
            "list the events with `postrider dead list {option} …` without --group; groups are narrowed by \
             --destination, --kind, --text and --outbox"
        )))
    }

    /// Whether any part narrows the choice.
    pub fn is_empty(&self) -> bool {
        self.filter(Vec::new(), None) == Filter::default()
    }

    /// The filter of the store, for rows of these states and this group.
    pub fn filter(&self, status: Vec<Status>, group: Option<&str>) -> Filter {
        Filter {
            status,
            event_type: self.event_type.clone(),
            key: self.key.clone(),
            destination: self.destination.as_deref().map(DestinationName::from),
            error_kind: self.kind.clone(),
            error_group: group.map(str::to_owned),
            text: self.text.clone(),
            older_than: self.older_than,
            newer_than: self.since,
            ..Filter::default()
        }
    }
}

/// `postrider events`
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Only this state, such as waiting or dead; may be repeated
    #[arg(long = "status", value_name = "STATUS", value_parser = status)]
    pub status: Vec<Status>,
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Only errors that look alike: a group of `dead list --group`
    #[arg(long, value_name = "GROUP", value_parser = group)]
    pub group: Option<String>,
    /// Only copies that this replay made
    #[arg(long, value_name = "JOB")]
    pub replay: Option<String>,
    /// The oldest first instead of the newest
    #[arg(long)]
    pub oldest_first: bool,
    /// At most this many
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = at_least_one())]
    pub limit: u32,
}

/// `postrider dead list`
#[derive(Debug, Args)]
pub struct DeadArgs {
    #[command(flatten)]
    pub filter: FilterArgs,
    /// How many failures look alike, instead of each event; with a GROUP of that listing: only its events
    #[arg(long, value_name = "GROUP", value_parser = group)]
    pub group: Option<Option<String>>,
    /// At most this many, as said below
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100, value_parser = at_least_one())]
    pub limit: u32,
}

/// `postrider dead redrive` and `discard`
#[derive(Debug, Args)]
pub struct ActArgs {
    /// The ids of the events
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Only errors that look alike: a group of `dead list --group`
    #[arg(long, value_name = "GROUP", value_parser = group)]
    pub group: Option<String>,
    /// All of them
    #[arg(long, conflicts_with = "ids")]
    pub all: bool,
    /// Only count
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask; a discard by ids also takes events that are WAITING, HELD or SCHEDULED
    #[arg(long)]
    pub yes: bool,
}

impl ActArgs {
    /// Whether anything was chosen.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.filter.is_empty() && self.group.is_none() && !self.all
    }

    /// What the filter means by itself. What is sent again may be refused and still tried, as `dead list` shows it;
    /// what is thrown away is dead.
    pub fn matching(&self, verb: &Verb) -> Filter {
        let status = match verb {
            Verb::Redrive => vec![Status::DeadLetter, Status::Retrying],
            Verb::Discard(_) | Verb::Move(_) => vec![Status::DeadLetter],
        };
        Filter {
            // What was redriven and has not failed since is on its way.
            failing_for: matches!(verb, Verb::Redrive).then_some(Duration::ZERO),
            ..self.filter.filter(status, self.group.as_deref())
        }
    }

    /// One event that was named, in any state: whether the verb suits it is the store's to say.
    pub fn named(&self, id: &str) -> Filter {
        Filter {
            event_id: vec![EventId::from(id)],
            ..self.filter.filter(Vec::new(), self.group.as_deref())
        }
    }
}

fn status(text: &str) -> Result<Status, String> {
    Status::parse(text).ok_or_else(|| {
        "must be pending, retrying, waiting, held, scheduled, dead, published or discarded".to_owned()
    })
}

/// A listing of nothing would look like one that has found nothing.
pub fn at_least_one() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

/// A group that cannot exist matches nothing, which must not look like good news.
fn group(text: &str) -> Result<String, String> {
    let is_one = text.len() == 16 && text.chars().all(|digit| digit.is_ascii_hexdigit());
    match is_one {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("must be 16 hexadecimal digits, as `postrider dead list --group` shows them".to_owned()),
    }
}
