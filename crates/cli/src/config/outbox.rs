//! `[outbox.NAME]`: the database that a service commits its events in.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use postrider_core::{Secret, redact_url};
use serde::Deserialize;
use toml::Spanned;

use super::cleanup::Cleanup;
use super::duration::{Keep, Span, show};
use super::error::{ConfigError, Problem};
use super::postgres::{Postgres, PostgresTable, is_postgres};
use super::scalar::Hidden;
use super::secret::{path, secret};
use super::url::{file_path, scheme};

/// How long an id is remembered for the level-1 check: long enough for any retry of a producer.
pub const DEFAULT_DEDUP: Duration = Duration::from_secs(86_400);
/// How long a call waits for another process's write lock before it fails.
pub const DEFAULT_BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The name in the SQL contract.
pub const DEFAULT_PREFIX: &str = "outbox";
/// Longer prefixes would not leave room for the names behind them in every database.
const MAX_PREFIX: usize = 32;

/// The table as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutboxTable {
    pub(super) url: Option<Spanned<Hidden>>,
    pub(super) url_file: Option<Spanned<PathBuf>>,
    pub(super) user: Option<Spanned<String>>,
    pub(super) password: Option<Spanned<Hidden>>,
    pub(super) password_file: Option<Spanned<PathBuf>>,
    pub(super) prefix: Option<Spanned<String>>,
    pub(super) history: Option<Keep>,
    pub(super) dedup: Option<Keep>,
    pub(super) busy_timeout: Option<Spanned<Span>>,
    pub(super) postgres: Option<Spanned<PostgresTable>>,
}

/// One outbox.
#[derive(Clone, Debug)]
pub struct Outbox {
    pub place: Place,
    /// Where its url stands in the configuration.
    pub span: Range<usize>,
    /// An error at that place, for whoever finds out later that the url cannot be used.
    pub place_of_url: Option<Box<ConfigError>>,
    /// For stores with a login.
    pub user: Option<String>,
    /// For stores with a login.
    pub password: Option<Secret>,
    /// Where the password came from, for stores that read it again.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub password_file: Option<PathBuf>,
    /// Where the url came from, for stores that read it again.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub url_file: Option<PathBuf>,
    /// The name of the outbox table, and what the names of the others begin with.
    pub prefix: String,
    /// How long what was sent is kept.
    pub history: Option<Duration>,
    /// How far back the level-1 check looks.
    pub dedup: Option<Duration>,
    pub busy_timeout: Duration,
}

impl Outbox {
    /// Fits what the backend was not told to the lease, and refuses what does not fit.
    pub fn fit(&mut self, lease: Duration) -> Result<(), Problem> {
        match &mut self.place {
            Place::Postgres(postgres) => postgres.fit(lease),
            Place::Sqlite(_) | Place::Other { .. } => Ok(()),
        }
    }

    /// Whether two outboxes are the same tables, as far as their settings tell.
    pub fn has_the_tables_of(&self, other: &Outbox) -> bool {
        self.place.database() == other.place.database() && self.prefix.eq_ignore_ascii_case(&other.prefix)
    }

    /// What its settings take from the promises, in a sentence.
    pub fn weakness(&self) -> Option<String> {
        let Some(history) = self.history else {
            return Some(
                "it keeps no history: an event that is committed twice with one id is published twice, and what was \
                 published cannot be shown"
                    .to_owned(),
            );
        };
        let dedup = self.dedup.filter(|dedup| *dedup > history)?;
        Some(format!(
            "it keeps its history for {}, so an id that is used again is known for that long, not for dedup = {}",
            show(history),
            show(dedup)
        ))
    }
}

/// Where an outbox is.
#[derive(Clone, Debug)]
pub enum Place {
    /// A file, relative to the working directory.
    Sqlite(PathBuf),
    /// A PostgreSQL database.
    Postgres(Box<Postgres>),
    /// A database of a kind that this build has no store for.
    Other { scheme: String, url: Secret },
}

impl Place {
    /// The database, and the schema in it.
    fn database(&self) -> (PathBuf, Option<&str>) {
        match self {
            Place::Sqlite(path) => (std::path::absolute(path).unwrap_or_else(|_| path.clone()), None),
            Place::Postgres(postgres) => (postgres.url.expose().into(), postgres.schema.as_deref()),
            Place::Other { url, .. } => (url.expose().into(), None),
        }
    }

    /// Whether two places are in one database, as far as their settings tell; in PostgreSQL, whatever their schemas.
    pub fn is_in_the_database_of(&self, other: &Place) -> bool {
        self.database().0 == other.database().0
    }

    /// The kind of its url.
    pub fn scheme(&self) -> &str {
        match self {
            Place::Sqlite(_) => "sqlite",
            Place::Postgres(_) => "postgres",
            Place::Other { scheme, .. } => scheme,
        }
    }

    /// The address without a password.
    pub fn show(&self) -> String {
        match self {
            Place::Sqlite(path) if path.is_absolute() => format!("sqlite://{}", path.display()),
            Place::Sqlite(path) => format!("sqlite:{}", path.display()),
            Place::Postgres(postgres) => redact_url(postgres.url.expose()),
            Place::Other { url, .. } => redact_url(url.expose()),
        }
    }
}

impl OutboxTable {
    /// The files that hold its secrets.
    pub fn secret_files(&self) -> impl Iterator<Item = PathBuf> {
        [&self.url_file, &self.password_file]
            .into_iter()
            .flatten()
            .map(|file| file.get_ref().clone())
            .chain(
                self.postgres
                    .as_ref()
                    .and_then(|table| table.get_ref().secret_files()),
            )
    }

    pub fn resolve(self, name: &Spanned<String>, cleanup: &Cleanup) -> Result<Outbox, Problem> {
        let url_file = path(self.url_file.as_ref());
        let url = secret("url", self.url, self.url_file)?
            .ok_or_else(|| Problem::new("the key `url` is missing").at(name.span()))?;
        let mut place = place(url.get_ref()).map_err(|problem| problem.at(url.span()))?;
        match (&place, self.postgres) {
            (Place::Other { scheme, url }, given) if is_postgres(scheme) => {
                let table = given.map(Spanned::into_inner).unwrap_or_default();
                place = Place::Postgres(Box::new(table.resolve(url)?));
            }
            (_, Some(given)) => {
                return Err(Problem::new("`postgres` has the settings of PostgreSQL").at(given.span()));
            }
            (_, None) => {}
        }
        let login = self
            .user
            .as_ref()
            .map(Spanned::span)
            .or(self.password.as_ref().map(Spanned::span));
        let login = login.or(self.password_file.as_ref().map(Spanned::span));
        if let (Place::Sqlite(_), Some(span)) = (&place, login) {
            return Err(Problem::new("an SQLite file has no login").at(span));
        }
        if let (Place::Postgres(_), Some(given)) = (&place, &self.busy_timeout) {
            let problem = Problem::new("`busy_timeout` is a setting of SQLite").at(given.span());
            return Err(problem.help("for PostgreSQL set postgres.statement_timeout".to_owned()));
        }
        let prefix = match self.prefix {
            Some(prefix) => {
                check_prefix(prefix.get_ref()).map_err(|text| Problem::new(text).at(prefix.span()))?;
                prefix.into_inner()
            }
            None => DEFAULT_PREFIX.to_owned(),
        };
        Ok(Outbox {
            place,
            span: url.span(),
            place_of_url: None,
            user: self.user.map(Spanned::into_inner),
            url_file,
            password_file: path(self.password_file.as_ref()),
            password: secret("password", self.password, self.password_file)?.map(Spanned::into_inner),
            prefix,
            history: self.history.map_or(cleanup.retention, |keep| keep.0),
            dedup: self.dedup.map_or(Some(DEFAULT_DEDUP), |keep| keep.0),
            busy_timeout: self
                .busy_timeout
                .map_or(DEFAULT_BUSY_TIMEOUT, |span| span.into_inner().0),
        })
    }
}

/// Table names go into SQL, so they are made of letters, digits and underscores only; the store quotes them as well.
fn check_prefix(prefix: &str) -> Result<(), String> {
    let first = prefix
        .chars()
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let rest = prefix.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match first && rest && prefix.len() <= MAX_PREFIX {
        true => Ok(()),
        false => Err(format!(
            "a table prefix has from 1 to {MAX_PREFIX} letters, digits and underscores and does not begin with a digit"
        )),
    }
}

fn place(url: &Secret) -> Result<Place, Problem> {
    let text = url.expose();
    match scheme(text) {
        Some("sqlite") => file_path("sqlite", &text["sqlite:".len()..]).map(Place::Sqlite),
        Some(scheme) => Ok(Place::Other {
            scheme: scheme.to_owned(),
            url: url.clone(),
        }),
        None => {
            Err(Problem::new("the url has no scheme").help("for example \"sqlite:postrider.db\"".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault G15.
    #[test]
    fn a_prefix_cannot_leave_its_identifier() {
        assert!(check_prefix("shop_outbox").is_ok());
        for bad in ["", "a\"b", "1a", "a b", "a;--", "ä", &"x".repeat(33)] {
            assert!(check_prefix(bad).is_err(), "{bad}");
        }
    }
}
