//! `[on_dead]`: who is told when events need a person.

use std::path::PathBuf;
use std::time::Duration;

use postrider_admin::Webhook;
use serde::Deserialize;
use toml::Spanned;

use super::duration::Span;
use super::error::Problem;
use super::scalar::Hidden;
use super::secret::{path, secret};

/// Long enough for a chat or a pager to answer.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The table as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnDeadTable {
    command: Option<Spanned<Vec<String>>>,
    url: Option<Spanned<Hidden>>,
    url_file: Option<Spanned<PathBuf>>,
    timeout: Option<Span>,
}

/// Who is told, once for each group of failures that has dead letters.
#[derive(Clone, Debug)]
pub struct OnDead {
    /// A program and its arguments.
    pub command: Option<Vec<String>>,
    pub url: Option<Webhook>,
    pub timeout: Duration,
}

impl OnDeadTable {
    /// The file that holds its secret.
    pub fn secret_file(&self) -> Option<PathBuf> {
        path(self.url_file.as_ref())
    }

    pub fn resolve(table: Spanned<Self>) -> Result<OnDead, Problem> {
        let span = table.span();
        let table = table.into_inner();
        let url = secret("url", table.url, table.url_file)?;
        if table.command.is_none() && url.is_none() {
            return Err(Problem::new("[on_dead] has neither a `command` nor a `url`")
                .at(span)
                .help("for example command = [\"/usr/local/bin/tell-the-team\"]".to_owned()));
        }
        if let Some(command) = &table.command
            && command.get_ref().first().is_none_or(String::is_empty)
        {
            return Err(Problem::new("must name a program, with its arguments behind it")
                .at(command.span())
                .help("for example command = [\"/usr/local/bin/tell-the-team\"]".to_owned()));
        }
        let url = url.map(|url| {
            let span = url.span();
            Webhook::new(url.into_inner()).map_err(|text| Problem::new(text).at(span))
        });
        Ok(OnDead {
            command: table.command.map(Spanned::into_inner),
            url: url.transpose()?,
            timeout: table.timeout.map_or(DEFAULT_TIMEOUT, |span| span.0),
        })
    }
}
