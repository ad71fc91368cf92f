//! What a command says when it cannot go on: what happened, why, and what to do; and the exit code for scripts.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

use postrider_core::{InvalidEvent, MAX_ERROR_TEXT, SchemaStatus, StoreError, StoreErrorKind, inert};
use serde_json::{Value, json};

use crate::config::{ConfigError, ErrorPlace};

/// How a command that did its work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Nothing to complain of: exit code 0.
    Fine,
    /// It looked, and found a problem: exit code 1.
    Found,
}

impl From<Done> for ExitCode {
    fn from(done: Done) -> ExitCode {
        match done {
            Done::Fine => ExitCode::SUCCESS,
            Done::Found => ExitCode::from(1),
        }
    }
}

/// Why a command could not do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The command line, the configuration or the input is wrong: exit code 2.
    Input,
    /// It looked, and found a problem: exit code 1.
    Found,
    /// A database or broker cannot be used: exit code 3.
    Backend,
    /// Whoever read our output went away: nobody is left to tell, and nothing is wrong.
    Closed,
}

/// A command that could not do its work.
#[derive(Debug)]
pub struct Failure {
    cause: Cause,
    what: String,
    chain: Vec<String>,
    advice: Option<String>,
    config: Option<Box<ConfigError>>,
}

impl Failure {
    fn new(cause: Cause, what: impl Into<String>) -> Self {
        Self {
            cause,
            what: what.into(),
            chain: Vec::new(),
            advice: None,
            config: None,
        }
    }

    /// The command line, the configuration or the input is wrong.
    pub fn input(what: impl Into<String>) -> Self {
        Self::new(Cause::Input, what)
    }

    /// The command line cannot be understood.
    pub fn usage(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        // A missing command is answered with the whole help, which is no sentence.
        let (what, rest) = match error.kind() {
            clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => ("no command is given", ""),
            _ => text.split_once("\n\n").unwrap_or((text.as_str(), "")),
        };
        let what = what.strip_prefix("error: ").unwrap_or(what);
        let what: Vec<&str> = what.split_whitespace().collect();
        let tip = rest.lines().find_map(|line| line.trim().strip_prefix("tip: "));
        Self::input(inert(&what.join(" "), MAX_ERROR_TEXT))
            .advice(tip.unwrap_or("`postrider help` lists the commands"))
    }

    /// A problem was found, and nothing is left to do.
    pub fn found(what: impl Into<String>) -> Self {
        Self::new(Cause::Found, what)
    }

    /// A database or broker cannot be used.
    pub fn backend(what: impl Into<String>) -> Self {
        Self::new(Cause::Backend, what)
    }

    /// With what to do about it.
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// With the errors that led to it.
    pub fn because(mut self, error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            self.chain.push(inert(&error.to_string(), MAX_ERROR_TEXT).into());
            next = error.source();
        }
        self
    }

    /// A failed call on the database of an outbox, or one that asked for what cannot be.
    pub fn store(outbox: &str, error: &StoreError) -> Self {
        if error.kind() == StoreErrorKind::Invalid {
            return Self::input(format!("refused by outbox {outbox:?}: {error}")).advice(error.advice());
        }
        // A relay goes on by itself; a command has ended.
        let advice = match error.kind() {
            StoreErrorKind::Busy => {
                "give the command again; if that does not help, look for a long transaction"
            }
            StoreErrorKind::Full => "free disk space on the database's volume, then give the command again",
            _ => error.advice(),
        };
        Self::backend(format!("the database of outbox {outbox:?} cannot be used"))
            .because(error)
            .advice(advice)
    }

    /// Tables that are missing or of another version.
    pub fn schema(outbox: &str, status: &SchemaStatus) -> Self {
        let (installed, wanted) = (status.installed, status.wanted);
        if installed > wanted {
            let what = format!(
                "the tables of outbox {outbox:?} are of version {installed}, this program knows {wanted}"
            );
            return Self::backend(what).advice("use a newer version of postrider");
        }
        let what = match installed {
            0 => format!("the tables of outbox {outbox:?} do not exist"),
            _ => format!(
                "the tables of outbox {outbox:?} are of version {installed}, this program needs {wanted}"
            ),
        };
        Self::backend(what).advice(StoreErrorKind::Schema.advice())
    }

    /// The same where tables are made together with those of notifications.
    pub fn with_notifications(mut self) -> Self {
        self.advice = self
            .advice
            .map(|advice| advice.replace("`postrider migrate up`", "`postrider notify migrate up`"));
        self
    }

    /// On one line, without advice: where many are told together, and in logs.
    pub fn line(&self) -> String {
        let what = self.what.lines().collect::<Vec<_>>().join(" ");
        let parts: Vec<&str> = std::iter::once(what.as_str())
            .chain(self.chain.iter().map(String::as_str))
            .collect();
        parts.join(": ")
    }

    /// What to do about it.
    pub fn advised(&self) -> Option<&str> {
        self.advice.as_deref()
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self.cause {
            Cause::Found => 1,
            Cause::Input => 2,
            Cause::Backend => 3,
            Cause::Closed => 0,
        }
    }

    /// Tells about it on standard error, as JSON for scripts that asked for it.
    pub fn report(&self, as_json: bool) {
        match (self.cause, as_json) {
            (Cause::Closed, _) => {}
            (_, true) => eprintln!("{}", self.to_json()),
            (_, false) => eprintln!("error: {self}"),
        }
    }

    fn to_json(&self) -> Value {
        let mut value = json!({
            "error": self.what,
            "causes": self.chain,
            "advice": self.advice,
            "exit_code": self.code(),
        });
        match self.config.as_ref().map(|error| (&error.source, &error.place)) {
            Some((source, ErrorPlace::Line { line, column, .. })) => {
                value["place"] = json!({ "file": source, "line": line, "column": column });
            }
            Some((_, ErrorPlace::Variable(name))) => value["place"] = json!({ "variable": name }),
            Some((source, ErrorPlace::Whole)) => value["place"] = json!({ "file": source }),
            None => {}
        }
        value
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(config) = &self.config {
            return write!(f, "{config}");
        }
        write!(f, "{}", self.what)?;
        for cause in &self.chain {
            write!(f, "\n  because: {cause}")?;
        }
        match &self.advice {
            Some(advice) => write!(f, "\n  what to do: {advice}"),
            None => Ok(()),
        }
    }
}

/// The failures of some outboxes, kept until those of the others are told: one that is down must not hide the rest.
#[derive(Debug, Default)]
pub struct Failed(Vec<Failure>);

impl Failed {
    /// What was asked for, unless it failed.
    pub fn keep<T>(&mut self, asked: Result<T, Failure>) -> Option<T> {
        asked.map_err(|failure| self.0.push(failure)).ok()
    }

    /// Whether something failed.
    pub fn is_some(&self) -> bool {
        !self.0.is_empty()
    }

    /// How the command ends: by the last failure, behind the others.
    pub fn or(mut self, as_json: bool, done: Done) -> Result<Done, Failure> {
        let Some(last) = self.0.pop() else { return Ok(done) };
        for failure in self.0 {
            failure.report(as_json);
        }
        Err(last)
    }
}

impl From<Box<ConfigError>> for Failure {
    fn from(error: Box<ConfigError>) -> Self {
        let mut failure = Self::input(error.message.clone());
        failure.advice = error.help.clone();
        failure.config = Some(error);
        failure
    }
}

impl From<InvalidEvent> for Failure {
    fn from(error: InvalidEvent) -> Self {
        Self::input("the event is refused")
            .because(&error)
            .advice("nothing was sent; correct it and send it again")
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(Cause::Closed, "the output was closed"),
            _ => Self::backend("input or output failed").because(&error),
        }
    }
}
