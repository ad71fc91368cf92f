//! `[on_dead]`: who is told when events need a person.

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::duration::Span;
use super::error::Problem;

/// Long enough for a chat or a pager to answer.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The table as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnDeadTable {
    command: Spanned<Vec<String>>,
    timeout: Option<Span>,
}

/// A command that is run once for each group of failures that has dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnDead {
    pub program: String,
    pub arguments: Vec<String>,
    pub timeout: Duration,
}

impl OnDeadTable {
    pub fn resolve(self) -> Result<OnDead, Problem> {
        let span = self.command.span();
        let mut words = self.command.into_inner().into_iter();
        match words.next().filter(|program| !program.is_empty()) {
            Some(program) => Ok(OnDead {
                program,
                arguments: words.collect(),
                timeout: self.timeout.map_or(DEFAULT_TIMEOUT, |span| span.0),
            }),
            None => Err(Problem::new("must name a program, with its arguments behind it")
                .at(span)
                .help("for example command = [\"/usr/local/bin/tell-the-team\"]".to_owned())),
        }
    }
}
