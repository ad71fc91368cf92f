//! What the program does with a PostgreSQL outbox itself: its settings, and committing events to it.

use std::sync::Arc;

use postrider_core::{Event, Secret};
use postrider_postgres::{EnqueueErrorKind, PgOptions, PgStore};

use crate::config::Outbox;
use crate::failure::Failure;
use crate::wire::Opened;

/// Whether a url is one of this store.
pub fn is_one(scheme: &str) -> bool {
    matches!(scheme, "postgres" | "postgresql")
}

/// Opens the store. Nothing is connected yet: a relay waits for a database that is not there.
pub fn open(name: &str, outbox: &Outbox, url: &Secret) -> Result<Opened, Failure> {
    let store = store(name, outbox, url)?;
    Ok(Opened {
        name: name.to_owned(),
        store: Arc::new(store.clone()),
        console: Arc::new(store.clone()),
        schema: Arc::new(store),
    })
}

/// Commits events in one transaction: all of them or none.
pub async fn commit(name: &str, outbox: &Outbox, url: &Secret, events: &[Event]) -> Result<(), Failure> {
    let store = store(name, outbox, url)?;
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

fn store(name: &str, outbox: &Outbox, url: &Secret) -> Result<PgStore, Failure> {
    let options = PgOptions {
        prefix: outbox.prefix.clone(),
        history: outbox.history,
        dedup: outbox.dedup,
        user: outbox.user.clone(),
        password: outbox.password.clone(),
        ..PgOptions::default()
    };
    PgStore::lazy(url.expose(), options).map_err(|error| Failure::store(name, &error))
}
