//! Finding the configuration and reading it: `--config`, `POSTRIDER_CONFIG`, `./postrider.toml`, the embedded default.

use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::{DeTable, Deserializer};

use super::error::{ConfigError, Problem, Source};
use super::{Config, Document, env};

/// The name that is looked for in the working directory.
pub const FILE_NAME: &str = "postrider.toml";

/// The variable that names a configuration file.
pub const VARIABLE: &str = "POSTRIDER_CONFIG";

/// What holds when nobody configured anything.
pub const DEFAULT: &str = include_str!("default.toml");

/// Where a configuration came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    File(PathBuf),
    Embedded,
}

impl Origin {
    pub fn show(&self) -> String {
        match self {
            Origin::File(path) => path.display().to_string(),
            Origin::Embedded => "embedded default".to_owned(),
        }
    }
}

/// Finds and reads the configuration of this process.
pub fn load(given: Option<&Path>) -> Result<Config, Box<ConfigError>> {
    let origin = find(given, std::env::var_os(VARIABLE), Path::new(FILE_NAME).exists());
    let text = match &origin {
        Origin::Embedded => DEFAULT.to_owned(),
        Origin::File(path) => read(path)?,
    };
    parse(origin, &text, std::env::vars_os())
}

fn find(given: Option<&Path>, variable: Option<OsString>, here: bool) -> Origin {
    match (given, variable.filter(|value| !value.is_empty())) {
        (Some(path), _) => Origin::File(path.to_owned()),
        (None, Some(path)) => Origin::File(path.into()),
        (None, None) if here => Origin::File(FILE_NAME.into()),
        (None, None) => Origin::Embedded,
    }
}

fn read(path: &Path) -> Result<String, Box<ConfigError>> {
    let fail = |message: String, help: &str| {
        Source::new(path.display().to_string(), "").error(Problem::new(message).help(help.to_owned()))
    };
    let bytes = std::fs::read(path).map_err(|error| {
        fail(
            format!("cannot read the configuration: {error}"),
            "`postrider init` writes a new one",
        )
    })?;
    String::from_utf8(bytes).map_err(|_| {
        fail(
            "the configuration is not valid UTF-8".to_owned(),
            "save the file as UTF-8",
        )
    })
}

/// Reads a configuration from a text and variables. Pure but for the secret files that it names.
pub fn parse(
    origin: Origin,
    text: &str,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Config, Box<ConfigError>> {
    let mut source = Source::new(origin.show(), text);
    let document =
        document(&origin, &mut source, text, variables).map_err(|problem| source.error(problem))?;
    let mut config = document
        .resolve(origin)
        .map_err(|problem| source.error(problem))?;
    let place = |span: &Range<usize>| Some(source.error(Problem::new("").at(span.clone())));
    for outbox in config.outboxes.values_mut() {
        outbox.place_of_url = place(&outbox.span);
    }
    for inbox in config.inboxes.values_mut() {
        inbox.database.place_of_url = place(&inbox.database.span);
    }
    for broker in config.brokers.values_mut() {
        broker.place_of_url = place(&broker.span);
    }
    Ok(config)
}

fn document(
    origin: &Origin,
    source: &mut Source,
    text: &str,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Document, Problem> {
    let mut tree = DeTable::parse(text)?;
    env::overlay(origin, source, &mut tree, variables)?;
    Ok(Document::deserialize(Deserializer::from(tree))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_given_wins() {
        let given = Some(Path::new("a.toml"));
        assert_eq!(
            find(given, Some("b.toml".into()), true),
            Origin::File("a.toml".into())
        );
        assert_eq!(
            find(None, Some("b.toml".into()), true),
            Origin::File("b.toml".into())
        );
        assert_eq!(find(None, Some("".into()), true), Origin::File(FILE_NAME.into()));
        assert_eq!(find(None, None, false), Origin::Embedded);
    }
}
