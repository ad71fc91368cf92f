//! The shop's database as a scenario asks it.

use std::sync::{Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row};

use crate::failure::{Doing, Failure, Result};

/// One connection, opened again when the server was away.
pub(in crate::scenario) struct Database {
    url: String,
    runtime: Handle,
    client: Mutex<Option<Client>>,
}

impl Database {
    pub(super) fn new(url: String, runtime: Handle) -> Self {
        Self {
            url,
            runtime,
            client: Mutex::default(),
        }
    }

    pub(in crate::scenario) fn url(&self) -> &str {
        &self.url
    }

    /// Runs statements that give nothing.
    pub(in crate::scenario) fn execute(&self, sql: &str) -> Result<()> {
        self.with(|client, runtime| runtime.block_on(client.batch_execute(sql)))
            .doing(|| sql.to_owned())
    }

    /// The rows of a query.
    pub(in crate::scenario) fn rows(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        self.with(|client, runtime| runtime.block_on(client.query(sql, parameters)))
            .doing(|| sql.to_owned())
    }

    /// The one number that a query gives, a bigint.
    pub(in crate::scenario) fn number(&self, sql: &str) -> Result<u64> {
        let rows = self.rows(sql, &[])?;
        let row = rows
            .first()
            .ok_or_else(|| Failure::new(format!("{sql}: no row")))?;
        let number: i64 = row.try_get(0)?;
        Ok(u64::try_from(number)?)
    }

    fn with<T>(
        &self,
        ask: impl FnOnce(&Client, &Handle) -> std::result::Result<T, tokio_postgres::Error>,
    ) -> Result<T> {
        let mut kept = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        let client = match kept.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.runtime.block_on(connect(&self.url))?,
        };
        let answer = ask(&client, &self.runtime);
        *kept = Some(client);
        Ok(answer?)
    }
}

/// A connection that is driven by a task of its own.
pub(super) async fn connect(url: &str) -> std::result::Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // Its end shows in the next statement.
    tokio::spawn(connection);
    Ok(client)
}
