//! What the program does with an SQLite outbox itself: its settings, and committing events to it.

use std::path::Path;
use std::sync::Arc;

use postrider_core::Event;
use postrider_sqlite::{EnqueueError, EnqueueErrorKind, SqliteOptions, SqliteStore};
use rusqlite::{Connection, TransactionBehavior};

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
    let options = SqliteOptions::default()
        .prefix(&outbox.prefix)
        .history(outbox.history)
        .dedup(outbox.dedup)
        .busy_timeout(outbox.busy_timeout)
        // The cleanup of `run` does it, at its time and after the archive.
        .trim(false)
        .create(missing == Missing::Create);
    let store = SqliteStore::open(path, options).map_err(|error| Failure::store(name, &error))?;
    Ok(Opened {
        name: name.to_owned(),
        store: Arc::new(store.clone()),
        console: Arc::new(store.clone()),
        upkeep: Arc::new(store.clone()),
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
