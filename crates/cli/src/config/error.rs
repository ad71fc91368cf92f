//! Errors that point at the place: file, line and column with the line itself, or the environment variable.

use std::fmt;
use std::ops::Range;

use super::mask::mask;
use super::nearest::suggestion;

/// What is wrong, and where in the source it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub message: String,
    pub span: Option<Range<usize>>,
    pub help: Option<String>,
}

impl Problem {
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            span: None,
            help: None,
        }
    }

    pub fn at(mut self, span: Range<usize>) -> Self {
        self.span = Some(span);
        self
    }

    pub fn help(mut self, help: impl Into<Option<String>>) -> Self {
        self.help = help.into();
        self
    }
}

impl From<toml::de::Error> for Problem {
    /// Serde's sentences are written for programmers; these are for the person who edits the file. Values are left out
    /// of them, because a value in the wrong place may be a password.
    fn from(error: toml::de::Error) -> Self {
        let message = error.message();
        let (text, help) = if let Some(rest) = message.strip_prefix("unknown field `") {
            let name = rest.split('`').next().unwrap_or_default();
            let known = quoted(rest);
            let help = without_quotes(name, &known).or_else(|| suggestion(name, &known));
            (format!("unknown key `{name}`"), help)
        } else if let Some(rest) = message.strip_prefix("missing field `") {
            (
                format!("the key `{}` is missing", rest.trim_end_matches('`')),
                None,
            )
        } else {
            (without_value(message), None)
        };
        Self {
            message: text,
            span: error.span(),
            help,
        }
    }
}

/// The names in backticks behind "expected".
fn quoted(rest: &str) -> Vec<&str> {
    let known = rest.split_once("expected").map_or("", |(_, known)| known);
    known.split('`').skip(1).step_by(2).collect()
}

/// In TOML a dot between quotes is part of the name: `"header.tenant"` is not the `tenant` of `header`.
fn without_quotes(name: &str, known: &[&str]) -> Option<String> {
    let (table, _) = name.split_once('.')?;
    known
        .contains(&table)
        .then(|| format!("write {name} without quotes around it"))
}

/// "invalid type: string "hunter2", expected …" without the value.
fn without_value(message: &str) -> String {
    let Some(rest) = message.strip_prefix("invalid type: ") else {
        return message.lines().collect::<Vec<_>>().join(", ");
    };
    let (found, expected) = rest
        .rsplit_once(", expected ")
        .unwrap_or((rest, "something else"));
    let kind = found.split([' ', '"', '`']).next().unwrap_or(found);
    let kind = if kind == "map" { "a table" } else { kind };
    let expected = match expected {
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other => other,
    };
    format!("expected {expected}, found {kind}")
}

/// What the configuration was read from: a text and the environment variables laid over it.
///
/// Variables have no place in the text, so they are given spans behind its end: a span tells which of the two it is.
#[derive(Clone, Debug)]
pub struct Source {
    pub name: String,
    pub text: String,
    pub variables: Vec<String>,
}

impl Source {
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
            variables: Vec::new(),
        }
    }

    /// Registers a variable and gives the span that stands for it.
    pub fn variable(&mut self, name: &str) -> Range<usize> {
        let at = self.text.len() + 1 + self.variables.len();
        self.variables.push(name.to_owned());
        at..at
    }

    /// The problem with its place looked up.
    pub fn error(&self, problem: Problem) -> Box<ConfigError> {
        let place = problem.span.map_or(Place::Whole, |span| self.place(span));
        Box::new(ConfigError {
            source: self.name.clone(),
            place,
            message: problem.message,
            help: problem.help,
        })
    }

    fn place(&self, span: Range<usize>) -> Place {
        if let Some(index) = span.start.checked_sub(self.text.len() + 1) {
            return match self.variables.get(index) {
                Some(name) => Place::Variable(name.clone()),
                None => Place::Whole,
            };
        }
        let start = floor(&self.text, span.start);
        let begin = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let end = self.text[begin..]
            .find('\n')
            .map_or(self.text.len(), |at| begin + at);
        let line = self.text[begin..end].trim_end_matches('\r');
        let within = start - begin..floor(&self.text, span.end.min(end)).saturating_sub(begin);
        let (shown, mark) = mask(line, within);
        Place::Line {
            line: self.text[..begin].matches('\n').count() + 1,
            column: self.text[begin..start].chars().count() + 1,
            shown,
            mark,
        }
    }
}

/// The nearest character boundary at or below.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(0)
}

/// Where in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Whole,
    Variable(String),
    Line {
        line: usize,
        column: usize,
        shown: String,
        mark: Range<usize>,
    },
}

/// A configuration that cannot be used, as it is shown to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub source: String,
    pub place: Place,
    pub message: String,
    pub help: Option<String>,
}

impl ConfigError {
    /// The same place with another sentence.
    pub fn saying(&self, problem: Problem) -> Box<ConfigError> {
        Box::new(ConfigError {
            message: problem.message,
            help: problem.help,
            ..self.clone()
        })
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        match &self.place {
            Place::Whole => write!(f, "\n  --> {}", self.source)?,
            Place::Variable(name) => write!(f, "\n  --> environment variable {name}")?,
            Place::Line {
                line,
                column,
                shown,
                mark,
            } => {
                let gutter = " ".repeat(line.to_string().len());
                let caret = "^".repeat(mark.len().max(1));
                write!(f, "\n{gutter} --> {}:{line}:{column}", self.source)?;
                write!(f, "\n{gutter} |\n{line} | {shown}")?;
                write!(f, "\n{gutter} | {}{caret}", " ".repeat(mark.start))?;
            }
        }
        match &self.help {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}
