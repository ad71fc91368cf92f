//! What the program does with an SQLite outbox itself: its settings, committing events to it, reading its history.

use std::path::Path;
use std::sync::Arc;

use postrider_core::{Event, Timestamp};
use postrider_sqlite::{EnqueueError, EnqueueErrorKind, SqliteOptions, SqliteStore};
use rusqlite::{Connection, OpenFlags, Row, TransactionBehavior, params};

use crate::config::Outbox;
use crate::failure::Failure;
use crate::output::cell;
use crate::wire::{Missing, Opened};

/// Opens the store.
pub fn open(name: &str, outbox: &Outbox, path: &Path, missing: Missing) -> Result<Opened, Failure> {
    if missing == Missing::Refuse && !path.exists() {
        let what = format!(
            "the database file {} of outbox {name:?} does not exist",
            path.display()
        );
        let advice = "check its url; `postrider migrate up` makes the file and its tables";
        return Err(Failure::backend(what).advice(advice));
    }
    let options = SqliteOptions {
        prefix: outbox.prefix.clone(),
        history: outbox.history,
        dedup: outbox.dedup,
        busy_timeout: outbox.busy_timeout,
        create: missing == Missing::Create,
        ..SqliteOptions::default()
    };
    let store = SqliteStore::open(path, options).map_err(|error| Failure::store(name, &error))?;
    Ok(Opened {
        name: name.to_owned(),
        store: Arc::new(store.clone()),
        console: Arc::new(store.clone()),
        schema: Arc::new(store),
    })
}

/// Commits events in one transaction: all of them or none.
pub fn commit(name: &str, outbox: &Outbox, path: &Path, events: &[Event]) -> Result<(), Failure> {
    let failed = |error: rusqlite::Error| {
        Failure::backend(format!("the events were not committed to outbox {name:?}"))
            .because(&error)
            .advice("nothing was sent; send them again once the cause is gone")
    };
    let produce =
        postrider_sqlite::Outbox::new(&outbox.prefix).map_err(|error| Failure::input(error.to_string()))?;
    let mut connection = Connection::open(path).map_err(failed)?;
    connection.busy_timeout(outbox.busy_timeout).map_err(failed)?;
    // Immediate: a transaction that reads first and writes later may fail as busy without waiting.
    let tx = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    for event in events {
        produce
            .enqueue(&tx, event)
            .map_err(|error| refused(name, event, &error))?;
    }
    tx.commit().map_err(failed)
}

fn refused(name: &str, event: &Event, error: &EnqueueError) -> Failure {
    let what = format!(
        "outbox {name:?} did not take the event {:?}; nothing was sent",
        cell(event.id.as_str())
    );
    match error.kind() {
        EnqueueErrorKind::Invalid(_) | EnqueueErrorKind::DuplicateId(_) => {
            Failure::input(what).because(error)
        }
        _ => Failure::backend(what).because(error),
    }
}

/// One published event.
pub struct Sent {
    pub published_at: Timestamp,
    pub event_id: String,
    pub event_type: String,
    pub key: String,
    pub destination: String,
    pub receipt: Option<String>,
    id: i64,
}

/// The history of an outbox, read in the order of publishing.
pub struct History {
    name: String,
    connection: Connection,
    select: String,
    newest: String,
    seen: i64,
}

impl History {
    /// Opens the history of an outbox whose tables are up to date.
    pub fn open(name: &str, outbox: &Outbox, path: &Path) -> Result<History, Failure> {
        // The prefix was checked with the configuration: letters, digits and underscores.
        let select = format!(
            "SELECT id, published_at, event_id, event_type, coalesce(event_key, aggregate_type || '/' || aggregate_id),
                    destination, receipt
             FROM \"{}_sent\" WHERE outcome = 'published' AND (?1 IS NULL OR event_type = ?1)",
            outbox.prefix
        );
        let newest = format!("SELECT coalesce(max(id), 0) FROM \"{}_sent\"", outbox.prefix);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_with_flags(path, flags).map_err(|error| unreadable(name, &error))?;
        connection
            .busy_timeout(outbox.busy_timeout)
            .map_err(|error| unreadable(name, &error))?;
        Ok(Self {
            name: name.to_owned(),
            connection,
            select,
            newest,
            seen: 0,
        })
    }

    /// The last that were published, oldest first; from then on [`History::since_last`] goes on behind them.
    pub fn last(&mut self, lines: usize, event_type: Option<&str>) -> Result<Vec<Sent>, Failure> {
        let sql = format!("{} ORDER BY id DESC LIMIT ?2", self.select);
        // One more than wanted, so that the newest is seen even when none is to be shown.
        let limit = i64::try_from(lines).unwrap_or(i64::MAX).max(1);
        let mut sent = self.query(&sql, event_type, limit)?;
        self.seen = sent.first().map_or(0, |sent| sent.id);
        sent.truncate(lines);
        sent.reverse();
        Ok(sent)
    }

    /// What was published since the last look, oldest first.
    pub fn since_last(&mut self, event_type: Option<&str>) -> Result<Vec<Sent>, Failure> {
        let sql = format!("{} AND id > ?2 ORDER BY id LIMIT 1000", self.select);
        let sent = self.query(&sql, event_type, self.seen)?;
        self.seen = match sent.last() {
            Some(last) => last.id,
            None => self.seen.min(self.newest()?),
        };
        Ok(sent)
    }

    /// The highest number in the table. It falls back when the whole history is removed: numbers then start anew.
    fn newest(&self) -> Result<i64, Failure> {
        let max = |row: &Row<'_>| row.get(0);
        self.connection
            .prepare_cached(&self.newest)
            .and_then(|mut statement| statement.query_row([], max))
            .map_err(|error| unreadable(&self.name, &error))
    }

    fn query(&self, sql: &str, event_type: Option<&str>, number: i64) -> Result<Vec<Sent>, Failure> {
        let read = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            statement
                .query_map(params![event_type, number], sent)?
                .collect::<Result<Vec<_>, _>>()
        };
        read().map_err(|error| unreadable(&self.name, &error))
    }
}

fn sent(row: &Row<'_>) -> rusqlite::Result<Sent> {
    Ok(Sent {
        id: row.get(0)?,
        published_at: Timestamp(row.get(1)?),
        event_id: row.get(2)?,
        event_type: row.get(3)?,
        key: row.get(4)?,
        destination: row.get::<_, Option<String>>(5)?.unwrap_or_default(),
        receipt: row.get(6)?,
    })
}

fn unreadable(name: &str, error: &rusqlite::Error) -> Failure {
    Failure::backend(format!("the history of outbox {name:?} cannot be read")).because(error)
}
