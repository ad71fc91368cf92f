//! The tables: made, checked, printed and removed.

use postrider_core::{BoxFuture, Migration, Schema, SchemaStatus, StoreError, knows, wrong_version};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::error::Result;
use crate::ident::Tables;
use crate::{SqliteStore, clock};

/// What this program needs.
pub(crate) const WANTED: u32 = STEPS.len() as u32;

struct Step {
    name: &'static str,
    up: &'static str,
    down: &'static str,
}

const STEPS: &[Step] = &[
    Step {
        name: "tables",
        up: include_str!("sql/0001_tables.up.sql"),
        down: include_str!("sql/0001_tables.down.sql"),
    },
    Step {
        name: "views",
        up: include_str!("sql/0002_views.up.sql"),
        down: include_str!("sql/0002_views.down.sql"),
    },
    Step {
        name: "lifecycle",
        up: include_str!("sql/0003_lifecycle.up.sql"),
        down: concat!(
            include_str!("sql/0003_lifecycle.down.sql"),
            include_str!("sql/0002_views.up.sql")
        ),
    },
];

impl Schema for SqliteStore {
    fn migrations(&self) -> Vec<Migration> {
        migrations(self.tables())
    }

    fn status(&self) -> BoxFuture<'_, Result<SchemaStatus, StoreError>> {
        let tables = self.tables_shared();
        Box::pin(
            self.viewer()
                .call("looking at the outbox tables", move |session| {
                    let tx = session.connection.transaction()?;
                    status(&tx, &tables)
                }),
        )
    }

    fn up(&self) -> BoxFuture<'_, Result<Vec<u32>, StoreError>> {
        let tables = self.tables_shared();
        Box::pin(self.writer().call("making the outbox tables", move |session| {
            up(&mut session.connection, &tables)
        }))
    }

    fn down(&self) -> BoxFuture<'_, Result<Vec<u32>, StoreError>> {
        let tables = self.tables_shared();
        Box::pin(self.writer().call("removing the outbox tables", move |session| {
            down(&mut session.connection, &tables)
        }))
    }
}

/// What every call on the tables needs to know first.
#[derive(Debug)]
pub(crate) struct Standing {
    /// The identity of this outbox.
    pub(crate) outbox_id: String,
    /// The database's clock at the beginning of the call.
    pub(crate) now: i64,
}

/// Checks that the tables are the ones that this program knows. Costs one row, so it is done in every transaction: a
/// migration that another process makes is noticed at once.
pub(crate) fn check(connection: &Connection, tables: &Tables) -> Result<Standing> {
    let sql = tables
        .sql("SELECT outbox_id, {now}, (SELECT max(version) FROM {outbox_migrations}) FROM {outbox_meta}");
    let (outbox_id, now, installed): (String, i64, Option<u32>) = connection
        .prepare_cached(&sql)?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    match installed.unwrap_or(0) {
        version if knows(WANTED, version) => Ok(Standing { outbox_id, now }),
        other => Err(wrong_version(WANTED, other).into()),
    }
}

pub(crate) fn migrations(tables: &Tables) -> Vec<Migration> {
    (1..)
        .zip(STEPS)
        .map(|(version, step)| Migration {
            version,
            name: step.name,
            up: tables.sql(step.up),
            down: tables.sql(step.down),
        })
        .collect()
}

fn installed(connection: &Connection, tables: &Tables) -> Result<u32> {
    let exists = connection
        .query_row(
            "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1 || '_migrations' COLLATE NOCASE",
            [tables.prefix()],
            |_| Ok(()),
        )
        .optional()?;
    if exists.is_none() {
        return Ok(0);
    }
    let sql = tables.sql("SELECT coalesce(max(version), 0) FROM {outbox_migrations}");
    Ok(connection.query_row(&sql, [], |row| row.get(0))?)
}

fn status(connection: &Connection, tables: &Tables) -> Result<SchemaStatus> {
    let mut status = SchemaStatus {
        installed: installed(connection, tables)?,
        wanted: WANTED,
        queued: 0,
        parked: 0,
        differs: Vec::new(),
    };
    if status.installed > 0 {
        let count = |sql: &str| -> Result<u64> {
            let count: i64 = connection.query_row(&tables.sql(sql), [], |row| row.get(0))?;
            Ok(u64::try_from(count).unwrap_or(0))
        };
        status.queued = count("SELECT count(*) FROM {outbox}")?;
        status.parked = count("SELECT count(*) FROM {outbox_parked} WHERE seq > 0")?;
    }
    Ok(status)
}

/// The write lock is taken before anything is looked at, so of several processes one migrates and the others find
/// nothing left to do.
fn up(connection: &mut Connection, tables: &Tables) -> Result<Vec<u32>> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let installed = installed(&tx, tables)?;
    if installed > WANTED && !knows(WANTED, installed) {
        return Err(wrong_version(WANTED, installed).into());
    }
    let mut taken = Vec::new();
    for step in migrations(tables)
        .into_iter()
        .filter(|step| step.version > installed)
    {
        tx.execute_batch(&step.up)?;
        taken.push(step.version);
    }
    tx.commit()?;
    Ok(taken)
}

fn down(connection: &mut Connection, tables: &Tables) -> Result<Vec<u32>> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = status(&tx, tables)?;
    if found.installed > WANTED {
        return Err(wrong_version(WANTED, found.installed).into());
    }
    found.check_removable()?;
    let mut taken = Vec::new();
    for step in migrations(tables)
        .into_iter()
        .rev()
        .filter(|step| step.version <= found.installed)
    {
        tx.execute_batch(&step.down)?;
        taken.push(step.version);
    }
    tx.commit()?;
    Ok(taken)
}

/// The end of a duplicate or history window that began `window` ago.
pub(crate) fn since(now: i64, window: std::time::Duration) -> i64 {
    now.saturating_sub(clock::micros(window))
}
