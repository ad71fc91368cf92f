//! From configuration to inboxes: the databases in which effects happen once.

use std::sync::Arc;

use postrider_core::{InboxConsole, StoreError, causes};

use crate::config::{Config, Inbox, Place, Problem, suggestion};
use crate::failure::Failure;
use crate::wire::{self, Missing};

/// An inbox with its database open. Each kind has handlers of its own, so that a listener has to know which it is.
#[derive(Clone, Debug)]
pub enum OpenInbox {
    #[cfg(feature = "sqlite")]
    Sqlite(postrider_sqlite::SqliteEffects),
    #[cfg(feature = "postgres")]
    Postgres(postrider_postgres::PgEffects),
}

impl OpenInbox {
    /// What operators ask of it.
    pub fn console(&self) -> Arc<dyn InboxConsole> {
        match self {
            #[cfg(feature = "sqlite")]
            OpenInbox::Sqlite(effects) => Arc::new(effects.clone()),
            #[cfg(feature = "postgres")]
            OpenInbox::Postgres(effects) => Arc::new(effects.clone()),
        }
    }
}

/// The inboxes that a command is about: all that are configured, or the one that was named. Where none is configured it
/// is the table `inbox` beside each outbox, under the outbox's name.
pub fn chosen(config: &Config, name: Option<&str>) -> Result<Vec<(String, Inbox)>, Failure> {
    let mut all = config.inboxes.clone();
    if all.is_empty() {
        let outboxes = config.outboxes.iter();
        all.extend(outboxes.map(|(name, outbox)| (name.clone(), Inbox::beside(outbox, &config.cleanup))));
    }
    let Some(name) = name else {
        return Ok(all.into_iter().collect());
    };
    match all.remove_entry(name) {
        Some(one) => Ok(vec![one]),
        None => {
            let known: Vec<&str> = all.keys().map(String::as_str).collect();
            let failure = Failure::input(format!("there is no inbox named {name:?}"));
            Err(failure.advice(suggestion(name, &known).unwrap_or_default()))
        }
    }
}

/// Opens the database of an inbox, with at most so many connections where there is more than one.
pub fn open(name: &str, inbox: &Inbox, missing: Missing, connections: usize) -> Result<OpenInbox, Failure> {
    match &inbox.database.place {
        #[cfg(feature = "sqlite")]
        Place::Sqlite(path) => {
            if missing == Missing::Refuse && !path.exists() {
                let what = format!(
                    "the database file {} of inbox {name:?} does not exist",
                    path.display()
                );
                let advice = "check its url; `postrider inbox migrate` makes the file and its table";
                return Err(Failure::backend(what).advice(advice));
            }
            let options = postrider_sqlite::SqliteOptions::default()
                .busy_timeout(inbox.database.busy_timeout)
                .create(missing == Missing::Create);
            let effects = postrider_sqlite::SqliteEffects::open(path, options, sqlite(inbox)?);
            Ok(OpenInbox::Sqlite(effects.map_err(|error| failed(name, &error))?))
        }
        #[cfg(feature = "postgres")]
        Place::Postgres(place) => {
            let options = crate::postgres::options(&inbox.database, place);
            let effects = postrider_postgres::PgEffects::new(
                place.url.expose(),
                options,
                postgres(inbox, place.schema.as_deref())?,
                connections,
            );
            let effects = effects.map_err(|error| {
                let problem = Problem::new(format!("the inbox {name:?}: {}", causes(&error)));
                wire::refuse(inbox.database.place_of_url.as_deref(), problem)
            })?;
            Ok(OpenInbox::Postgres(effects))
        }
        other => {
            let _ = (missing, connections);
            let problem = wire::unsupported("inbox", name, other.scheme());
            Err(wire::refuse(inbox.database.place_of_url.as_deref(), problem))
        }
    }
}

/// Whether its settings can be used. Nothing is connected, and no file is made.
pub fn check(name: &str, inbox: &Inbox) -> Result<(), Failure> {
    match &inbox.database.place {
        Place::Postgres(_) => open(name, inbox, Missing::Refuse, 1).map(drop),
        Place::Sqlite(_) | Place::Other { .. } => sql(name, inbox).map(drop),
    }
}

/// The statements that make its table.
pub fn sql(name: &str, inbox: &Inbox) -> Result<String, Failure> {
    match &inbox.database.place {
        #[cfg(feature = "sqlite")]
        Place::Sqlite(_) => Ok(sqlite(inbox)?.sql()),
        #[cfg(feature = "postgres")]
        Place::Postgres(place) => Ok(postgres(inbox, place.schema.as_deref())?.sql()),
        other => {
            let problem = wire::unsupported("inbox", name, other.scheme());
            Err(wire::refuse(inbox.database.place_of_url.as_deref(), problem))
        }
    }
}

/// A failed call on the database of an inbox.
pub fn failed(name: &str, error: &StoreError) -> Failure {
    Failure::backend(format!("the database of inbox {name:?} cannot be used"))
        .because(error)
        .advice(error.advice())
}

#[cfg(feature = "sqlite")]
fn sqlite(inbox: &Inbox) -> Result<postrider_sqlite::Inbox, Failure> {
    postrider_sqlite::Inbox::new(&inbox.database.prefix).map_err(|error| Failure::input(error.to_string()))
}

#[cfg(feature = "postgres")]
fn postgres(inbox: &Inbox, schema: Option<&str>) -> Result<postrider_postgres::Inbox, Failure> {
    postrider_postgres::Inbox::in_schema(schema.unwrap_or("public"), &inbox.database.prefix)
        .map_err(|error| Failure::input(error.to_string()))
}
