//! Values with bounds. Each accepts its text form as well, because environment variables are always text.

use std::fmt;

use postrider_core::Secret;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// One value of the file, whatever its type there.
pub enum Scalar<'a> {
    Text(&'a str),
    Int(i64),
    Float(f64),
    Bool(bool),
}

/// Reads one scalar and converts it. `from` writes the error, so it alone decides whether the value is repeated in it.
pub fn scalar<'de, D, T>(
    deserializer: D,
    expected: &'static str,
    from: impl FnOnce(Scalar<'_>) -> Result<T, String>,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
{
    struct Any<F>(&'static str, F);

    impl<T, F: FnOnce(Scalar<'_>) -> Result<T, String>> Visitor<'_> for Any<F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            self.1(Scalar::Text(text)).map_err(E::custom)
        }

        fn visit_i64<E: Error>(self, int: i64) -> Result<T, E> {
            self.1(Scalar::Int(int)).map_err(E::custom)
        }

        fn visit_f64<E: Error>(self, float: f64) -> Result<T, E> {
            self.1(Scalar::Float(float)).map_err(E::custom)
        }

        fn visit_bool<E: Error>(self, bool: bool) -> Result<T, E> {
            self.1(Scalar::Bool(bool)).map_err(E::custom)
        }
    }

    deserializer.deserialize_any(Any(expected, from))
}

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole<const MIN: u64, const MAX: u64>(pub u64);

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Whole<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let range = || format!("must be a whole number from {MIN} to {MAX}");
        scalar(deserializer, "a whole number", |value| {
            let (number, shown) = match value {
                Scalar::Text(text) => (text.trim().parse::<u64>().ok(), shown(text)),
                Scalar::Int(int) => (u64::try_from(int).ok(), int.to_string()),
                Scalar::Float(float) => (None, float.to_string()),
                Scalar::Bool(bool) => (None, bool.to_string()),
            };
            match number.filter(|number| (MIN..=MAX).contains(number)) {
                Some(number) => Ok(Self(number)),
                None => Err(format!("{}, is {shown}", range())),
            }
        })
    }
}

/// A number from `MIN` to `MAX`, with a fraction where wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Real<const MIN: i64, const MAX: i64>(pub f64);

impl<'de, const MIN: i64, const MAX: i64> Deserialize<'de> for Real<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(deserializer, "a number", |value| {
            let (number, shown) = match value {
                Scalar::Text(text) => (text.trim().parse::<f64>().ok(), shown(text)),
                Scalar::Int(int) => (Some(int as f64), int.to_string()),
                Scalar::Float(float) => (Some(float), float.to_string()),
                Scalar::Bool(bool) => (None, bool.to_string()),
            };
            match number.filter(|number| (MIN as f64..=MAX as f64).contains(number)) {
                Some(number) => Ok(Self(number)),
                None => Err(format!("must be a number from {MIN} to {MAX}, is {shown}")),
            }
        })
    }
}

/// True or false.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch(pub bool);

impl<'de> Deserialize<'de> for Switch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(deserializer, "true or false", |value| match value {
            Scalar::Bool(bool) => Ok(Self(bool)),
            Scalar::Text("true") => Ok(Self(true)),
            Scalar::Text("false") => Ok(Self(false)),
            _ => Err("must be true or false".to_owned()),
        })
    }
}

/// An amount of bytes: `16MiB`, `64KiB`, or a plain number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub usize);

impl Size {
    /// The largest amount that makes sense for a buffer in memory.
    const MAX: u64 = 64 << 30;

    pub fn parse(text: &str) -> Option<Size> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let unit: u64 = match text[digits..].trim() {
            "" | "B" => 1,
            "KB" | "kB" => 1_000,
            "KiB" => 1 << 10,
            "MB" => 1_000_000,
            "MiB" => 1 << 20,
            "GB" => 1_000_000_000,
            "GiB" => 1 << 30,
            _ => return None,
        };
        let bytes = text[..digits].parse::<u64>().ok()?.checked_mul(unit)?;
        (1..=Self::MAX).contains(&bytes).then_some(())?;
        usize::try_from(bytes).ok().map(Size)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(deserializer, "a size such as \"16MiB\"", |value| {
            let given = match value {
                Scalar::Text(text) => text.to_owned(),
                Scalar::Int(int) => int.to_string(),
                Scalar::Float(float) => float.to_string(),
                Scalar::Bool(bool) => bool.to_string(),
            };
            Size::parse(&given).ok_or_else(|| {
                let units = "B, KB, KiB, MB, MiB, GB or GiB";
                format!(
                    "must be a size from 1B to 64GiB with a unit ({units}), is {}",
                    shown(&given)
                )
            })
        })
    }
}

/// Text that may hold a secret. Its errors never repeat the value.
#[derive(Clone)]
pub struct Hidden(pub Secret);

impl<'de> Deserialize<'de> for Hidden {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(deserializer, "text in quotes", |value| match value {
            Scalar::Text(text) => clean(text).map(|text| Self(Secret::new(text))),
            _ => Err("must be text in quotes".to_owned()),
        })
    }
}

/// A wrong value as an error may repeat it: one that looks like an address may have a password in it.
pub fn shown(text: &str) -> String {
    match text.contains(['@', '/']) || text.chars().count() > 32 {
        true => "something else".to_owned(),
        false => format!("{text:?}"),
    }
}

/// Text without control characters: a line break in a URL or a password is a mistake of whoever set the variable.
pub fn clean(text: &str) -> Result<String, String> {
    match text.chars().any(char::is_control) {
        true => Err("must not contain line breaks or other control characters".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// One of a few words.
pub fn word<'de, D, T: Copy>(deserializer: D, words: &[(&'static str, T)]) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
{
    let list = || {
        words
            .iter()
            .map(|(word, _)| format!("{word:?}"))
            .collect::<Vec<_>>()
            .join(" or ")
    };
    scalar(deserializer, "text in quotes", |value| match value {
        Scalar::Text(text) => match words.iter().find(|(word, _)| *word == text) {
            Some((_, value)) => Ok(*value),
            None => Err(format!("must be {}, is {}", list(), shown(text))),
        },
        _ => Err(format!("must be {}", list())),
    })
}
