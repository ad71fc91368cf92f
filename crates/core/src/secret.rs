//! The one type that holds secrets.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What is shown in place of a secret.
pub(crate) const HIDDEN: &str = "***";

/// A password or token. It is wiped from memory when it is dropped, and every way of printing it, serialising
/// included, shows `***`: a secret reaches the outside only through [`Secret::expose`], which a review can search for.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Takes a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(SecretString::from(secret.into()))
    }

    /// Takes what a secret file holds. One line break at its end belongs to the editor, not to the secret.
    pub fn of_file(text: &str) -> Self {
        let text = text.strip_suffix('\n').unwrap_or(text);
        Self::new(text.strip_suffix('\r').unwrap_or(text))
    }

    /// The secret itself: for handing to a driver, never for printing.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl From<String> for Secret {
    fn from(secret: String) -> Self {
        Self::new(secret)
    }
}

impl From<&str> for Secret {
    fn from(secret: &str) -> Self {
        Self::new(secret)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

/// Writes `***`, so that a configuration can be shown.
impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(HIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn one_line_break_is_the_editors() {
        for (text, secret) in [
            ("s3", "s3"),
            ("s3\n", "s3"),
            ("s3\r\n", "s3"),
            (" s3 \n\n", " s3 \n"),
        ] {
            assert_eq!(Secret::of_file(text).expose(), secret);
        }
    }

    #[test]
    fn no_way_of_printing_shows_it() {
        let secret: Secret = serde_json::from_str("\"hunter2\"").unwrap();
        assert_eq!(secret.expose(), "hunter2");
        let shown = format!(
            "{secret} {secret:?} {:#?} {}",
            Some(&secret),
            serde_json::to_string(&secret).unwrap()
        );
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
