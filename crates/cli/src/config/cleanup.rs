//! `[cleanup]` and `[log]`: what is kept, and what is written about it.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::cron::Cron;
use super::duration::{Keep, Span, show};
use super::error::Problem;
use super::scalar::{Whole, word};

/// A week of history answers "was it sent?" for every incident that is noticed at all.
pub const DEFAULT_RETENTION: Duration = Duration::from_secs(7 * 86_400);
/// When the fewest people are awake to notice it.
pub const DEFAULT_SCHEDULE: &str = "0 0 3 * * *";
/// Small enough that a producer never waits noticeably for the write lock.
pub const DEFAULT_BATCH: u32 = 1_000;
/// Who did what is asked about for longer than what was sent.
pub const DEFAULT_AUDIT_RETENTION: Duration = Duration::from_secs(365 * 86_400);
/// Longer than any broker redelivers.
pub const DEFAULT_INBOX_RETENTION: Duration = Duration::from_secs(30 * 86_400);

/// `[cleanup]` as it is written.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CleanupTable {
    retention: Option<Keep>,
    schedule: Option<Cron>,
    batch_size: Option<Whole<1, 100_000>>,
    audit_retention: Option<Span>,
    inbox: Option<Vec<String>>,
    inbox_retention: Option<Span>,
    archive_dir: Option<Spanned<PathBuf>>,
    archive_after: Option<Spanned<Span>>,
}

/// What is removed when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleanup {
    /// How long what was sent is kept, where an outbox does not say; none: it is not written at all.
    pub retention: Option<Duration>,
    pub schedule: Cron,
    pub batch_size: u32,
    /// How long it is kept what people did.
    pub audit_retention: Duration,
    /// The inboxes beside the outboxes that are cleaned too.
    pub inbox: Vec<String>,
    pub inbox_retention: Duration,
    pub archive: Option<Archive>,
}

/// Where the history is written before it is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    pub dir: PathBuf,
    /// How old a row is when it is written.
    pub after: Duration,
    /// Where that stands in the configuration.
    pub span: Range<usize>,
}

impl CleanupTable {
    pub fn resolve(self) -> Result<Cleanup, Problem> {
        let schedule = match self.schedule {
            Some(schedule) => schedule,
            None => DEFAULT_SCHEDULE.parse().map_err(Problem::new)?,
        };
        let archive = match (self.archive_dir, self.archive_after) {
            (Some(dir), after) => Some(Archive {
                span: after.as_ref().map_or(dir.span(), Spanned::span),
                after: after.map_or(Duration::ZERO, |after| after.into_inner().0),
                dir: dir.into_inner(),
            }),
            (None, Some(after)) => {
                let problem = Problem::new("`archive_after` needs `archive_dir`").at(after.span());
                return Err(problem.help("set archive_dir to the folder of the archive".to_owned()));
            }
            (None, None) => None,
        };
        Ok(Cleanup {
            retention: self.retention.map_or(Some(DEFAULT_RETENTION), |keep| keep.0),
            schedule,
            batch_size: self
                .batch_size
                .map_or(DEFAULT_BATCH, |n| u32::try_from(n.0).unwrap_or(DEFAULT_BATCH)),
            audit_retention: self
                .audit_retention
                .map_or(DEFAULT_AUDIT_RETENTION, |span| span.0),
            inbox: self.inbox.unwrap_or_default(),
            inbox_retention: self
                .inbox_retention
                .map_or(DEFAULT_INBOX_RETENTION, |span| span.0),
            archive,
        })
    }
}

impl Cleanup {
    /// Whether what is archived is there for long enough. What is removed before it would be archived is lost to it.
    pub fn fits(&self, outbox: &str, history: Option<Duration>) -> Result<(), Problem> {
        match (&self.archive, history) {
            (Some(archive), Some(kept)) if archive.after > kept => Err(Problem::new(format!(
                "must not be longer than the history of the outbox {outbox:?} is kept, which is {}",
                show(kept)
            ))
            .at(archive.span.clone())
            .help("set it lower, or `retention` or the outbox's `history` higher".to_owned())),
            _ => Ok(()),
        }
    }
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    #[default]
    Text,
    Json,
}

impl Format {
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Json => "json",
        }
    }
}

impl<'de> Deserialize<'de> for Format {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, &[("text", Format::Text), ("json", Format::Json)])
    }
}

/// `[log]` as it is written.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogTable {
    format: Option<Format>,
    level: Option<Spanned<String>>,
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    pub format: Format,
    /// A level, or directives such as `warn,postrider_relay=debug`.
    pub level: String,
}

impl LogTable {
    pub fn resolve(self) -> Result<Log, Problem> {
        if let Some(level) = &self.level {
            let valid = !level.get_ref().trim().is_empty() && level.get_ref().split(',').all(directive);
            if !valid {
                let text = "must be off, error, warn, info, debug or trace, or directives of them";
                let help = "for example \"warn,postrider_relay=debug\"".to_owned();
                return Err(Problem::new(text).at(level.span()).help(help));
            }
        }
        let level = self.level.map_or_else(|| "info".to_owned(), Spanned::into_inner);
        Ok(Log {
            format: self.format.unwrap_or_default(),
            level,
        })
    }
}

/// `level` or `target=level`. The filter itself takes any word for a target, which hides slips such as `inof`.
fn directive(text: &str) -> bool {
    let level = text.rsplit_once('=').map_or(text, |(_, level)| level).trim();
    ["off", "error", "warn", "info", "debug", "trace"].contains(&level)
}
