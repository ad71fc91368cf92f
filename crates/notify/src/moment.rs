//! Times in JSON: RFC 3339 text, which every language reads and people too.

use postrider_core::Timestamp;
use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(time)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).ok_or_else(|| serde::de::Error::custom("not a time such as 2026-01-31T12:00:00Z"))
}

/// A time as others write it; None when it is none.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let stamp: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp(stamp.as_microsecond()))
}

/// The same for a time that may be missing.
pub(crate) mod optional {
    use postrider_core::Timestamp;
    use serde::Serializer;

    pub(crate) fn serialize<S: Serializer>(time: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => to.collect_str(time),
            None => to.serialize_none(),
        }
    }
}
