//! From configuration to a board: the database that notifications are stored in.

#[cfg(feature = "sqlite")]
pub mod demo;

use std::sync::Arc;

use postrider_core::{InboxConsole, StoreErrorKind};
use postrider_notify::{Board, BoardError};
use tempfile::TempDir;

use crate::config::{Config, Inbox, Notify, Outbox, Place};
use crate::failure::Failure;
use crate::inbox::{self, OpenInbox};
use crate::wire::{self, Missing};

/// Connections to the database, where there is more than one: eight for what takes effect, and some for feeds and for
/// what goes on beside.
const CONNECTIONS: usize = 12;

/// A board with its database open. Each kind has handlers of its own, so that whoever runs it has to know which it is.
#[derive(Clone, Debug)]
pub enum OpenBoard {
    #[cfg(feature = "sqlite")]
    Sqlite(postrider_sqlite::SqliteEffects, postrider_notify::SqliteBoard),
    #[cfg(feature = "postgres")]
    Postgres(postrider_postgres::PgEffects, postrider_notify::PgBoard),
}

impl OpenBoard {
    /// What everybody asks of it.
    pub fn board(&self) -> Arc<dyn Board> {
        match self {
            #[cfg(feature = "sqlite")]
            OpenBoard::Sqlite(_, board) => Arc::new(board.clone()),
            #[cfg(feature = "postgres")]
            OpenBoard::Postgres(_, board) => Arc::new(board.clone()),
        }
    }

    /// The inbox beside it.
    pub fn inbox(&self) -> Arc<dyn InboxConsole> {
        match self {
            #[cfg(feature = "sqlite")]
            OpenBoard::Sqlite(effects, _) => Arc::new(effects.clone()),
            #[cfg(feature = "postgres")]
            OpenBoard::Postgres(effects, _) => Arc::new(effects.clone()),
        }
    }

    /// Makes the tables of the inbox and of notifications.
    pub async fn migrate(&self, name: &str) -> Result<(), Failure> {
        let made = self.inbox().migrate().await;
        made.map_err(|error| inbox::failed(name, &error))?;
        let made = self.board().migrate().await;
        made.map_err(|error| failed(name, &error))
    }

    /// Whether the tables are there. A database that does not answer now is waited for by everybody who needs it.
    pub async fn check(&self, name: &str) -> Result<(), Failure> {
        match self.board().unread("").await {
            Err(error) if error.kind() == StoreErrorKind::Schema => {
                Err(failed(name, &BoardError::Store(error)))
            }
            _ => Ok(()),
        }
    }
}

/// What is configured about notifications, with the outbox of that.
pub fn configured(config: &Config) -> Result<(&Notify, &Outbox), Failure> {
    let Some(notify) = &config.notify else {
        let advice =
            "add [notify] and at least one [[notify.workflow]]; docs/configuration.md has an example";
        return Err(Failure::input("no notifications are configured").advice(advice));
    };
    let missing = || Failure::input(format!("there is no outbox named {:?}", notify.outbox));
    let outbox = config.outboxes.get(&notify.outbox).ok_or_else(missing)?;
    Ok((notify, outbox))
}

/// Opens the board. With PostgreSQL nothing is connected yet.
pub fn open(config: &Config, missing: Missing) -> Result<OpenBoard, Failure> {
    let (notify, outbox) = configured(config)?;
    on(notify, outbox, &Inbox::beside(outbox, &config.cleanup), missing)
}

/// The same on a file that goes away, for what is known without touching a database.
pub fn elsewhere(config: &Config) -> Result<(OpenBoard, TempDir), Failure> {
    let folder = tempfile::tempdir()?;
    let (notify, outbox) = configured(config)?;
    let mut inbox = Inbox::beside(outbox, &config.cleanup);
    if let Place::Sqlite(path) = &mut inbox.database.place {
        *path = folder.path().join("print.db");
    }
    Ok((on(notify, outbox, &inbox, Missing::Create)?, folder))
}

fn on(notify: &Notify, outbox: &Outbox, inbox: &Inbox, missing: Missing) -> Result<OpenBoard, Failure> {
    let workflows = Arc::clone(&notify.workflows);
    match inbox::open(&notify.outbox, inbox, missing, CONNECTIONS)? {
        #[cfg(feature = "sqlite")]
        OpenInbox::Sqlite(effects) => {
            let deliveries = postrider_sqlite::Outbox::new(&outbox.prefix)
                .map_err(|error| Failure::input(error.to_string()))?;
            let board = postrider_notify::SqliteBoard::new(effects.clone(), deliveries, workflows);
            Ok(OpenBoard::Sqlite(effects, board))
        }
        #[cfg(feature = "postgres")]
        OpenInbox::Postgres(effects) => {
            let schema = match &outbox.place {
                Place::Postgres(place) => place.schema.as_deref(),
                _ => None,
            };
            let deliveries =
                postrider_postgres::Outbox::in_schema(schema.unwrap_or("public"), &outbox.prefix)
                    .map_err(|error| Failure::input(error.to_string()))?;
            let board = postrider_notify::PgBoard::new(effects.clone(), deliveries, workflows);
            Ok(OpenBoard::Postgres(effects, board))
        }
    }
}

/// Opens the board for reading what is in it; its tables must be there.
pub async fn ready(config: &Config) -> Result<Arc<dyn Board>, Failure> {
    let (notify, outbox) = configured(config)?;
    let found = wire::ready(&notify.outbox, outbox).await;
    found.map_err(Failure::with_notifications)?;
    let opened = open(config, Missing::Refuse)?;
    opened.check(&notify.outbox).await?;
    Ok(opened.board())
}

/// A failed call on a board.
pub fn failed(name: &str, error: &BoardError) -> Failure {
    let what = format!("the notifications of outbox {name:?} cannot be used");
    match error {
        BoardError::Store(error) if error.kind() == StoreErrorKind::Schema => Failure::backend(what)
            .because(error)
            .advice("make the tables with `postrider notify migrate up`"),
        BoardError::Store(error) => Failure::backend(what).because(error).advice(error.advice()),
        error => Failure::found(what).because(error),
    }
}
