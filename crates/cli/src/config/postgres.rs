//! The settings of `[outbox.NAME]` that only PostgreSQL has.

// They are read in every build, so that the same file is good for all; without the feature nobody uses them.
#![cfg_attr(not(feature = "postgres"), allow(dead_code))]

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use postrider_core::Secret;
use serde::Deserialize;
use toml::Spanned;

use super::duration::{Span, show};
use super::error::Problem;
use super::scalar::{Hidden, Switch, Whole};
use super::secret::secret;

/// The defaults of the store, for showing them.
pub const DEFAULT_SCHEMA: &str = "public";
pub const DEFAULT_SHARDS: u16 = 64;
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The default of the store, for comparing it with the lease.
const DEFAULT_STATEMENT_TIMEOUT: Duration = Duration::from_secs(3);

/// The keys as they are written. A table of its own, so that the other kinds of stores can refuse them as one.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostgresTable {
    schema: Option<Spanned<String>>,
    shards: Option<Whole<1, 1_024>>,
    strict_keys: Option<Switch>,
    listen_url: Option<Spanned<Hidden>>,
    listen_url_file: Option<Spanned<PathBuf>>,
    poll_only: Option<Spanned<Switch>>,
    ca_file: Option<PathBuf>,
    connect_timeout: Option<Span>,
    statement_timeout: Option<Spanned<Span>>,
}

/// A PostgreSQL. What is not set has the default of its store.
#[derive(Clone, Debug)]
pub struct Postgres {
    pub url: Secret,
    pub schema: Option<String>,
    pub shards: Option<u16>,
    pub strict_keys: Option<bool>,
    /// A way to the server itself, when `url` leads through a pooler.
    pub listen_url: Option<Secret>,
    pub listen_url_file: Option<PathBuf>,
    pub poll_only: Option<bool>,
    pub ca_file: Option<PathBuf>,
    pub connect_timeout: Option<Duration>,
    pub statement_timeout: Option<Duration>,
    /// Where `statement_timeout` stands in the configuration.
    timeout_span: Option<Range<usize>>,
}

impl Postgres {
    /// Three statements must fit into a lease, or a relay that waits for one loses its shards meanwhile. With a short
    /// lease the default is shorter too.
    pub fn fit(&mut self, lease: Duration) -> Result<(), Problem> {
        let default = DEFAULT_STATEMENT_TIMEOUT.min(lease / 4);
        let timeout = *self.statement_timeout.get_or_insert(default);
        if timeout.saturating_mul(3) < lease {
            return Ok(());
        }
        let text = format!(
            "statement_timeout is {}, which is not below a third of relay.lease, {}",
            show(timeout),
            show(lease)
        );
        let help = "lower postgres.statement_timeout of this outbox, or raise relay.lease".to_owned();
        let problem = Problem::new(text).help(help);
        Err(match &self.timeout_span {
            Some(span) => problem.at(span.clone()),
            None => problem,
        })
    }
}

/// Whether a url is one of PostgreSQL.
pub fn is_postgres(scheme: &str) -> bool {
    matches!(scheme, "postgres" | "postgresql")
}

impl PostgresTable {
    /// The files that hold its secrets.
    pub fn secret_files(&self) -> Option<PathBuf> {
        self.listen_url_file.as_ref().map(|file| file.get_ref().clone())
    }

    pub fn resolve(self, url: &Secret) -> Result<Postgres, Problem> {
        if let Some(schema) = &self.schema {
            let fits = (1..=63).contains(&schema.get_ref().len()) && !schema.get_ref().contains('\0');
            if !fits {
                return Err(Problem::new("the name of a schema has from 1 to 63 bytes").at(schema.span()));
            }
        }
        let listen_url_file = self.secret_files();
        let listen_url = secret("listen_url", self.listen_url, self.listen_url_file)?;
        let poll_only = self.poll_only.as_ref().map(|it| it.get_ref().0);
        if let (Some(given), Some(true), Some(_)) = (&self.poll_only, poll_only, &listen_url) {
            let problem = Problem::new("`poll_only` and `listen_url` exclude each other").at(given.span());
            return Err(problem.help("leave one of them out".to_owned()));
        }
        Ok(Postgres {
            url: url.clone(),
            schema: self.schema.map(Spanned::into_inner),
            shards: self.shards.and_then(|number| u16::try_from(number.0).ok()),
            strict_keys: self.strict_keys.map(|it| it.0),
            listen_url: listen_url.map(Spanned::into_inner),
            listen_url_file,
            poll_only,
            ca_file: self.ca_file,
            connect_timeout: self.connect_timeout.map(|limit| limit.0),
            timeout_span: self.statement_timeout.as_ref().map(Spanned::span),
            statement_timeout: self.statement_timeout.map(|limit| limit.into_inner().0),
        })
    }
}
