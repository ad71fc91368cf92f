//! What the program does with a PostgreSQL outbox itself: its settings, and committing events to it.

use std::sync::Arc;

use postrider_core::{Event, causes};
use postrider_postgres::{EnqueueErrorKind, PgOptions, PgStore, PgTls};

use crate::config::{Outbox, Postgres, Problem};
use crate::failure::Failure;
use crate::wire::{Opened, refuse};

/// Opens the store. Nothing is connected yet: a relay waits for a database that is not there.
pub fn open(name: &str, outbox: &Outbox, place: &Postgres) -> Result<Opened, Failure> {
    let store = store(name, outbox, place)?;
    Ok(Opened {
        name: name.to_owned(),
        store: Arc::new(store.clone()),
        console: Arc::new(store.clone()),
        upkeep: Arc::new(store.clone()),
        schema: Arc::new(store),
    })
}

/// Whether the store can read its settings. Nothing is connected.
pub fn check(name: &str, outbox: &Outbox, place: &Postgres) -> Result<(), Failure> {
    store(name, outbox, place).map(drop)
}

/// Commits events in one transaction: all of them or none.
pub async fn commit(name: &str, outbox: &Outbox, place: &Postgres, events: &[Event]) -> Result<(), Failure> {
    let store = store(name, outbox, place)?;
    store.send(events).await.map_err(|error| {
        let what = format!("outbox {name:?} did not take the events; nothing was sent");
        match error.kind() {
            EnqueueErrorKind::Invalid(_) | EnqueueErrorKind::DuplicateId(_) => {
                Failure::input(what).because(&error)
            }
            _ => Failure::backend(what).because(&error),
        }
    })
}

fn store(name: &str, outbox: &Outbox, place: &Postgres) -> Result<PgStore, Failure> {
    PgStore::lazy(place.url.expose(), options(outbox, place)).map_err(|error| {
        let problem = Problem::new(format!("the outbox {name:?}: {}", causes(&error)));
        refuse(outbox.place_of_url.as_deref(), problem)
    })
}

/// The settings of a database.
pub fn options(outbox: &Outbox, place: &Postgres) -> PgOptions {
    let mut options = PgOptions::default()
        .prefix(&outbox.prefix)
        .history(outbox.history)
        // The cleanup drops it, at its time, when it is archived.
        .trim(false)
        .dedup(outbox.dedup)
        .login(outbox.user.clone(), outbox.password.clone());
    if let Some(file) = &outbox.url_file {
        options = options.url_file(file);
    }
    if let Some(file) = &outbox.password_file {
        options = options.password_file(file);
    }
    if let Some(schema) = &place.schema {
        options = options.schema(schema);
    }
    if let Some(shards) = place.shards {
        options = options.shards(shards);
    }
    if let Some(strict) = place.strict_keys {
        options = options.strict_keys(strict);
    }
    if let Some(url) = &place.listen_url {
        options = options.listen_url(url.clone());
    }
    if let Some(file) = &place.listen_url_file {
        options = options.listen_url_file(file);
    }
    if let Some(poll_only) = place.poll_only {
        options = options.poll_only(poll_only);
    }
    if let Some(file) = &place.ca_file {
        options = options.tls(PgTls::Authority(file.clone()));
    }
    if let Some(limit) = place.connect_timeout {
        options = options.connect_timeout(limit);
    }
    if let Some(limit) = place.statement_timeout {
        options = options.statement_timeout(limit);
    }
    options
}
