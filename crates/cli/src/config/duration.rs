//! Durations as people write them: `250ms`, `1s`, `1h30m`, `7d`; and `none` where something can be switched off.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer};

use super::scalar::{Scalar, scalar, shown};

/// No setting is about more than ten years; beyond that it is a slip of the unit.
const MAX: Duration = Duration::from_secs(3_650 * 86_400);

/// The units, in milliseconds.
const UNITS: [(&str, u64); 6] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
];

/// Parses a duration. The error names the allowed form and range.
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err(format!(
            "must not be negative: a duration from 0s to 3650d, is {}",
            shown(text)
        ));
    }
    let total = pieces(text).ok_or_else(|| {
        format!(
            "must be a duration such as \"250ms\", \"1s\", \"1h30m\" or \"7d\", is {}",
            shown(text)
        )
    })?;
    let duration = Duration::from_millis(total);
    match duration > MAX {
        true => Err(format!("must be a duration from 0s to 3650d, is {}", shown(text))),
        false => Ok(duration),
    }
}

/// The sum in milliseconds; saturates, so that what is far too long is refused as too long and not as malformed.
fn pieces(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0_u64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let letters = rest[digits..]
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len() - digits);
        let unit = &rest[digits..digits + letters];
        let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let number: &str = &rest[..digits];
        if number.is_empty() {
            return None;
        }
        let number: u64 = number.parse().unwrap_or(u64::MAX);
        total = total.saturating_add(number.saturating_mul(*millis));
        rest = rest[digits + letters..].trim_start();
    }
    (!text.is_empty()).then_some(total)
}

/// Writes a duration the way it is parsed, in as few pieces as possible.
pub fn show(duration: Duration) -> String {
    let mut millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    // Weeks are never written: "7d" is what people say.
    for (name, unit) in UNITS.iter().rev().filter(|(name, _)| *name != "w") {
        if millis >= *unit {
            text.push_str(&format!("{}{name}", millis / unit));
            millis %= unit;
        }
    }
    text
}

/// A duration in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(deserializer, "a duration such as \"1s\"", |value| match value {
            Scalar::Text(text) => parse(text).map(Self),
            Scalar::Int(int) if int < 0 => Err(format!(
                "must not be negative: a duration from 0s to 3650d, is {int}"
            )),
            _ => Err("must be text with a unit, such as \"250ms\" or \"1s\"".to_owned()),
        })
    }
}

/// How long something is kept: a duration, or `none` for not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep(pub Option<Duration>);

impl<'de> Deserialize<'de> for Keep {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(
            deserializer,
            "a duration such as \"7d\", or \"none\"",
            |value| match value {
                Scalar::Text("none") => Ok(Self(None)),
                Scalar::Text(text) => parse(text).map(|duration| Self(Some(duration))),
                _ => Err("must be text with a unit such as \"7d\", or \"none\"".to_owned()),
            },
        )
    }
}

/// The text of a [`Keep`].
pub fn show_keep(keep: Option<Duration>) -> String {
    keep.map_or_else(|| "none".to_owned(), show)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_again() {
        for (text, millis) in [
            ("250ms", 250),
            ("1s", 1_000),
            ("1h30m", 5_400_000),
            ("7d", 604_800_000),
        ] {
            let duration = parse(text).unwrap();
            assert_eq!(duration, Duration::from_millis(millis));
            assert_eq!(show(duration), text);
        }
        assert_eq!(parse("2w").unwrap(), Duration::from_secs(14 * 86_400));
        assert_eq!(show(Duration::ZERO), "0s");
    }

    #[test]
    fn what_is_no_duration_is_refused_with_the_range() {
        assert!(parse("-1s").unwrap_err().contains("negative"));
        assert!(parse("99999999999999999999d").unwrap_err().contains("3650d"));
        for text in ["", "1", "s", "1 parsec", "1s2", "1.5s", "one second", "1S"] {
            assert!(parse(text).unwrap_err().contains("such as"), "{text:?}");
        }
    }
}
