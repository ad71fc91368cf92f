//! `[cleanup]` and `[log]`: what is kept, and what is written about it.

use std::time::Duration;

use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::duration::{Keep, Span};
use super::error::Problem;
use super::scalar::{Whole, word};

/// A week of history answers "was it sent?" for every incident that is noticed at all.
pub const DEFAULT_RETENTION: Duration = Duration::from_secs(7 * 86_400);
/// Often enough that one pass is short.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);
/// Small enough that a producer never waits noticeably for the write lock.
pub const DEFAULT_BATCH: u32 = 1_000;
/// `[cleanup]` as it is written.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CleanupTable {
    retention: Option<Keep>,
    interval: Option<Spanned<Span>>,
    batch_size: Option<Whole<1, 100_000>>,
}

/// How history is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleanup {
    /// How long what was sent is kept, where an outbox does not say; none: it is not written at all.
    pub retention: Option<Duration>,
    pub interval: Duration,
    pub batch_size: u32,
}

impl CleanupTable {
    pub fn resolve(self) -> Result<Cleanup, Problem> {
        let interval = match &self.interval {
            Some(given) if given.get_ref().0 < Duration::from_secs(1) => {
                return Err(Problem::new("must be at least 1s").at(given.span()));
            }
            Some(given) => given.get_ref().0,
            None => DEFAULT_INTERVAL,
        };
        Ok(Cleanup {
            retention: self.retention.map_or(Some(DEFAULT_RETENTION), |keep| keep.0),
            interval,
            batch_size: self
                .batch_size
                .map_or(DEFAULT_BATCH, |n| u32::try_from(n.0).unwrap_or(DEFAULT_BATCH)),
        })
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
