//! Statements on the database itself, as a service gives them.

use std::fs::{self, File};
use std::time::Duration;

use rusqlite::Connection;
use tempfile::NamedTempFile;

use super::{Operated, check};
use crate::failure::{Failure, Result};
use crate::scenario::shop::now_us;

/// When an INSERT was made, in microseconds since 1970 by the clock of this machine.
pub(in crate::scenario) struct Written {
    /// What it waited for other writers before that, where one writes at a time.
    pub(in crate::scenario) waited_us: u64,
    pub(in crate::scenario) began_us: u64,
    pub(in crate::scenario) committed_us: u64,
}

impl Operated<'_> {
    /// Runs statements on the database itself, as a service does; gives what they print, which SQLite's do not.
    pub(in crate::scenario) fn sql(&self, sql: &str) -> Result<String> {
        let Some(server) = &self.server else {
            self.sqlite()?.execute_batch(sql)?;
            return Ok(String::new());
        };
        // By a file, because they are longer than an argument may be, and of its own, because others ask meanwhile.
        let file = NamedTempFile::new_in(&self.directory)?;
        fs::write(file.path(), sql)?;
        let output = server.psql("shop").stdin(File::open(file.path())?).output()?;
        check("psql", &output, 0)?;
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// Runs an INSERT in a transaction of its own; gives the times just before it and just after its commit: what is
    /// measured from the first holds the commit, and none of the waiting for other writers.
    pub(in crate::scenario) fn insert(&self, insert: &str) -> Result<Written> {
        if self.server.is_some() {
            let at = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
            let printed = self.sql(&format!("{insert} RETURNING {at};\nSELECT {at}"))?;
            let times = printed.lines().filter_map(|line| line.parse().ok());
            // One of each row, and the last of the commit.
            return match times.collect::<Vec<u64>>()[..] {
                [began_us, .., committed_us] => Ok(Written {
                    waited_us: 0,
                    began_us,
                    committed_us,
                }),
                _ => Err(Failure::new(format!("psql printed {printed:?} for an INSERT"))),
            };
        }
        let connection = self.sqlite()?;
        let asked_us = now_us();
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let began_us = now_us();
        connection.execute_batch(&format!("{insert}; COMMIT"))?;
        Ok(Written {
            waited_us: began_us.saturating_sub(asked_us),
            began_us,
            committed_us: now_us(),
        })
    }

    /// The one number that a query gives.
    pub(in crate::scenario) fn number(&self, sql: &str) -> Result<u64> {
        match &self.server {
            Some(_) => Ok(self.sql(sql)?.parse()?),
            None => {
                let number: i64 = self.sqlite()?.query_row(sql, [], |row| row.get(0))?;
                Ok(u64::try_from(number)?)
            }
        }
    }

    /// Makes what was published so much older: what needs old history cannot wait for it.
    pub(in crate::scenario) fn age(&self, hours: u64) -> Result<()> {
        let ago = match &self.server {
            Some(_) => format!("interval '{hours} hours'"),
            None => format!("{hours} * 3600000000"),
        };
        let sql = format!("UPDATE outbox_sent SET published_at = published_at - {ago}");
        self.sql(&sql).map(drop)
    }

    fn sqlite(&self) -> Result<Connection> {
        let connection = Connection::open(self.directory.join("shop.db"))?;
        connection.busy_timeout(Duration::from_secs(60))?;
        Ok(connection)
    }
}
