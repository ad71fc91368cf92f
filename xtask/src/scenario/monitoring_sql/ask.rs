//! The two databases, and the queries of the page.

use std::collections::BTreeMap;
use std::path::Path;

use postrider_testkit::servers::Postgres;
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::mix::{Event, Fate};
use crate::failure::{Failure, Result};
use crate::scenario::shop;

/// Parts the columns of what `psql` prints; no text of an event has it.
const COLUMN: char = '\u{1f}';

/// Rows as text: the two databases print numbers alike.
pub(super) type Rows = Vec<Vec<String>>;

/// A database with an outbox.
pub(super) enum Database<'a> {
    Postgres { server: &'a Postgres, database: &'a str },
    Sqlite(Connection),
}

impl<'a> Database<'a> {
    pub(super) fn postgres(server: &'a Postgres, database: &'a str) -> Self {
        Database::Postgres { server, database }
    }

    pub(super) fn sqlite(path: &Path) -> Result<Self> {
        Ok(Database::Sqlite(shop::open(path)?))
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Database::Postgres { .. } => "PostgreSQL",
            Database::Sqlite(_) => "SQLite",
        }
    }

    /// The queries of the page for this database.
    fn queries(&self) -> &'static str {
        match self {
            Database::Postgres { .. } => include_str!("postgresql.sql"),
            Database::Sqlite(_) => include_str!("sqlite.sql"),
        }
    }

    /// Commits events in one statement.
    pub(super) fn insert<'e>(&self, events: impl Iterator<Item = &'e Event>) -> Result<()> {
        let rows: Vec<String> = events.map(|event| self.row(event)).collect();
        let sql = format!(
            "INSERT INTO outbox (event_id, event_type, aggregate_type, aggregate_id, payload, available_at, created_at)
             VALUES {}",
            rows.join(", ")
        );
        self.rows(&sql).map(drop)
    }

    fn row(&self, event: &Event) -> String {
        let moment = |seconds: i64| match self {
            Database::Postgres { .. } => format!("now() + interval '{seconds} seconds'"),
            Database::Sqlite(_) => format!("strftime('%Y-%m-%d %H:%M:%f', 'now', '{seconds} seconds')"),
        };
        let available = match event.fate {
            Fate::Scheduled => moment(3_600),
            _ => "NULL".to_owned(),
        };
        let Event {
            id,
            event_type,
            aggregate_type,
            ..
        } = event;
        let created = moment(-i64::from(event.age));
        // Each is of an aggregate of its own, so that none waits for another.
        format!("('{id}', '{event_type}', '{aggregate_type}', '{id}', '{{}}', {available}, {created})")
    }

    pub(super) fn rows(&self, sql: &str) -> Result<Rows> {
        match self {
            Database::Postgres { server, database } => ask_psql(server, database, sql),
            Database::Sqlite(connection) => ask_sqlite(connection, sql),
        }
    }
}

fn ask_psql(server: &Postgres, database: &str, sql: &str) -> Result<Rows> {
    let output = server
        .psql(database)
        .args(["-F", &COLUMN.to_string(), "-c", sql])
        .output()?;
    if !output.status.success() {
        return Err(Failure::new(format!(
            "{sql}: {}",
            String::from_utf8_lossy(&output.stderr)
        )));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let rows = text
        .lines()
        .map(|line| line.split(COLUMN).map(str::to_owned).collect());
    Ok(rows.collect())
}

fn ask_sqlite(connection: &Connection, sql: &str) -> Result<Rows> {
    let mut statement = connection.prepare(sql)?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    let mut all = Rows::new();
    while let Some(row) = rows.next()? {
        let mut texts = Vec::with_capacity(columns);
        for column in 0..columns {
            texts.push(match row.get_ref(column)? {
                ValueRef::Null => String::new(),
                ValueRef::Integer(number) => number.to_string(),
                ValueRef::Real(number) => number.to_string(),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            });
        }
        all.push(texts);
    }
    Ok(all)
}

/// What a database answered.
pub(super) struct Asked {
    /// By the name that stands before each query.
    pub(super) answers: BTreeMap<&'static str, Rows>,
}

impl Asked {
    /// Asks every query of the page.
    pub(super) fn ask(database: &Database<'_>) -> Result<Self> {
        let mut answers = BTreeMap::new();
        for query in database.queries().split("\n\n") {
            let name = query
                .strip_prefix("-- ")
                .and_then(|rest| Some(rest.split_once(':')?.0))
                .ok_or_else(|| Failure::new(format!("there is no name before {query}")))?;
            answers.insert(name, database.rows(query)?);
        }
        Ok(Self { answers })
    }

    pub(super) fn rows(&self, name: &str) -> Result<&Rows> {
        let rows = self.answers.get(name);
        rows.ok_or_else(|| Failure::new(format!("there is no query {name}")))
    }
}
