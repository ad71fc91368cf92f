//! The tables of an outbox: made, checked, printed and removed.

use crate::{BoxFuture, StoreError, StoreErrorKind};

/// One step of the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Its number, from 1 upwards without gaps.
    pub version: u32,
    /// A few words.
    pub name: &'static str,
    /// The statements that make it, with identifiers already quoted.
    pub up: String,
    /// The statements that undo it.
    pub down: String,
}

/// How a database stands to this version of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaStatus {
    /// What is installed; zero when nothing is.
    pub installed: u32,
    /// What this program needs.
    pub wanted: u32,
    /// Rows that a `down` would throw away.
    pub queued: u64,
    /// Rows that a `down` would throw away.
    pub parked: u64,
    /// Settings that were fixed when the tables were made and are others now, a sentence each: the tables win.
    pub differs: Vec<String>,
}

impl SchemaStatus {
    /// Whether this program can work on these tables: its own, or one version ahead, because programs are rolled out
    /// behind their migrations.
    pub fn is_usable(&self) -> bool {
        knows(self.wanted, self.installed)
    }

    /// Whether everything may be removed; the error counts what would be lost.
    pub fn check_removable(&self) -> Result<(), StoreError> {
        if self.queued + self.parked == 0 {
            return Ok(());
        }
        let text = format!(
            "the outbox holds {} queued and {} parked rows, which would be lost",
            self.queued, self.parked
        );
        let advice = "let a relay publish them, wait for those that are scheduled, or discard them";
        Err(StoreError::new(StoreErrorKind::Schema, text).with_advice(advice))
    }
}

/// Whether a program that needs tables of one version can work on another.
pub fn knows(wanted: u32, installed: u32) -> bool {
    installed == wanted || installed == wanted + 1
}

/// Why a program that needs tables of one version does not work on another.
pub fn wrong_version(wanted: u32, installed: u32) -> StoreError {
    if installed > wanted {
        let text = format!(
            "the outbox tables are of version {installed}, newer than this program, which knows {wanted}"
        );
        return StoreError::new(StoreErrorKind::Schema, text)
            .with_advice("use a newer version of this program");
    }
    let text = format!("the outbox tables are of version {installed}, this program needs {wanted}");
    StoreError::new(StoreErrorKind::Schema, text)
}

/// The tables of an outbox.
pub trait Schema: Send + Sync {
    /// Every step, for printing.
    fn migrations(&self) -> Vec<Migration>;

    /// The statements that let a role of the database be a relay's, and nothing more.
    fn grants(&self, role: &str) -> Result<String, StoreError> {
        let text = format!("this database has no roles, so there is nothing to grant to {role:?}");
        Err(StoreError::new(StoreErrorKind::Other, text))
    }

    /// Where the database stands.
    fn status(&self) -> BoxFuture<'_, Result<SchemaStatus, StoreError>>;

    /// Makes what is missing; answers the steps taken. Safe to call from several processes at once.
    fn up(&self) -> BoxFuture<'_, Result<Vec<u32>, StoreError>>;

    /// Does what the last steps left to be done beside running relays, because it takes as long as the history is;
    /// answers how many parts of it were. Everything works without, some of it slower. Whoever waits for [`Schema::up`]
    /// at his start does not call this.
    fn complete(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async { Ok(0) })
    }

    /// Removes everything. Refused while queued or parked rows exist, with their count: they would be lost.
    fn down(&self) -> BoxFuture<'_, Result<Vec<u32>, StoreError>>;
}
