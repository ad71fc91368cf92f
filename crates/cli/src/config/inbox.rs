//! `[inbox.NAME]`: the database in which a consumer's effects happen once.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::cleanup::Cleanup;
use super::duration::Span;
use super::error::Problem;
use super::outbox::{Outbox, OutboxTable};
use super::postgres::PostgresTable;
use super::scalar::Hidden;

/// The name in the SQL contract.
pub const DEFAULT_TABLE: &str = "inbox";

/// The table as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InboxTable {
    url: Option<Spanned<Hidden>>,
    url_file: Option<Spanned<PathBuf>>,
    user: Option<Spanned<String>>,
    password: Option<Spanned<Hidden>>,
    password_file: Option<Spanned<PathBuf>>,
    table: Option<Spanned<String>>,
    retention: Option<Span>,
    busy_timeout: Option<Spanned<Span>>,
    postgres: Option<Spanned<PostgresTable>>,
}

/// One inbox.
#[derive(Clone, Debug)]
pub struct Inbox {
    /// The database, as an outbox in it would have it; its prefix is the name of the table.
    pub database: Outbox,
    /// How long what took effect is known.
    pub retention: Duration,
}

impl Inbox {
    /// The inbox beside an outbox, in its database.
    pub fn beside(outbox: &Outbox, cleanup: &Cleanup) -> Self {
        let mut database = outbox.clone();
        DEFAULT_TABLE.clone_into(&mut database.prefix);
        Self {
            database,
            retention: cleanup.inbox_retention,
        }
    }
}

impl InboxTable {
    /// The files that hold its secrets.
    pub fn secret_files(&self) -> impl Iterator<Item = PathBuf> {
        [&self.url_file, &self.password_file]
            .into_iter()
            .flatten()
            .map(|file| file.get_ref().clone())
    }

    pub fn resolve(self, name: &Spanned<String>, cleanup: &Cleanup) -> Result<Inbox, Problem> {
        let is_named = self.table.is_some();
        // Whatever an address needs is the same for both; what is the outbox's alone is not taken here.
        let table = OutboxTable {
            url: self.url,
            url_file: self.url_file,
            user: self.user,
            password: self.password,
            password_file: self.password_file,
            prefix: self.table,
            history: None,
            dedup: None,
            busy_timeout: self.busy_timeout,
            postgres: self.postgres,
        };
        let mut database = table.resolve(name, cleanup)?;
        if !is_named {
            DEFAULT_TABLE.clone_into(&mut database.prefix);
        }
        Ok(Inbox {
            database,
            retention: self
                .retention
                .map_or(cleanup.inbox_retention, |retention| retention.0),
        })
    }
}
