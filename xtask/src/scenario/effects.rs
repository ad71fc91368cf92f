//! What a consumer does with an event: it takes effect once, whatever arrives how often.

use std::path::Path;
use std::time::Duration;

use postrider_sqlite::Inbox;
use rusqlite::{Connection, TransactionBehavior};

use super::shop::number;
use crate::failure::Result;

/// How the inbox knows this consumer.
const CONSUMER: &str = "scenario";

/// The effects of a consumer, in a database of its own.
pub(super) struct Effects {
    connection: Connection,
}

impl Effects {
    pub(super) fn open(directory: &Path) -> Result<Self> {
        let connection = database(directory)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS effects (id TEXT NOT NULL) STRICT;",
        )?;
        Inbox::default().migrate(&connection)?;
        Ok(Self { connection })
    }

    /// Lets events take effect, all in one transaction, those that did already not again.
    pub(super) fn take<'a>(&mut self, ids: impl Iterator<Item = &'a str>) -> Result<()> {
        let inbox = Inbox::default();
        let tx = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        for id in ids {
            if inbox.first(&tx, CONSUMER, id)? {
                tx.prepare_cached("INSERT INTO effects (id) VALUES (?1)")?
                    .execute([id])?;
            }
        }
        Ok(tx.commit()?)
    }
}

/// The consumer's own database.
pub(super) fn database(directory: &Path) -> Result<Connection> {
    let connection = Connection::open(directory.join("consumer.db"))?;
    connection.busy_timeout(Duration::from_secs(10))?;
    Ok(connection)
}

/// How many effects there are; fast enough to be asked often.
pub(super) fn effect_count(directory: &Path) -> Result<u64> {
    if !directory.join("consumer.db").exists() {
        return Ok(0);
    }
    let connection = database(directory)?;
    // Nothing is ever deleted, so that the last number is the count.
    Ok(number(&connection, "SELECT coalesce(max(rowid), 0) FROM effects").unwrap_or(0))
}
