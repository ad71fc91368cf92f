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
    let defaults = PgOptions::default();
    let options = PgOptions {
        schema: place.schema.clone().unwrap_or(defaults.schema),
        prefix: outbox.prefix.clone(),
        history: outbox.history,
        dedup: outbox.dedup,
        shards: place.shards.unwrap_or(defaults.shards),
        strict_keys: place.strict_keys.unwrap_or(defaults.strict_keys),
        user: outbox.user.clone(),
        password: outbox.password.clone(),
        tls: place.ca_file.clone().map_or(defaults.tls, PgTls::Authority),
        listen_url: place.listen_url.clone(),
        poll_only: place.poll_only.unwrap_or(defaults.poll_only),
        connect_timeout: place.connect_timeout.unwrap_or(defaults.connect_timeout),
        statement_timeout: place.statement_timeout.unwrap_or(defaults.statement_timeout),
    };
    PgStore::lazy(place.url.expose(), options).map_err(|error| {
        let problem = Problem::new(format!("the outbox {name:?}: {}", causes(&error)));
        refuse(outbox.place_of_url.as_deref(), problem)
    })
}
