//! The board in PostgreSQL, against a private server: the suite, and what only this database can do wrong.
//!
//! - `crash`: backends that end in the middle of a chunk.
//! - `plans`: how statements find their rows.
//! - `race`: many at once.

mod crash;
mod plans;
mod race;

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Applied, ApplyError, BoxFuture, Console, Effects, Received, Schema, Store};
use postrider_notify::{Board, People, PgBoard, Workflows};
use postrider_postgres::{Inbox, Outbox, PgEffects, PgOptions, PgStore};
use postrider_testkit::servers::{Postgres, TestDatabase};
use tokio_postgres::{Client, NoTls};

use crate::suite::{Bench, board_suite};

/// A database with an inbox and an outbox.
struct Pg {
    database: TestDatabase,
    /// The server, where others do not share it.
    own: Option<Postgres>,
}

impl Pg {
    async fn fresh() -> Self {
        Self::on(Postgres::shared().database(), None).await
    }

    /// On a server that may crash.
    async fn alone() -> Self {
        let server = Postgres::start().expect("a server");
        Self::on(server.database(), Some(server)).await
    }

    async fn on(database: TestDatabase, own: Option<Postgres>) -> Self {
        let pg = Self { database, own };
        pg.outbox().up().await.expect("an outbox");
        pg.effects().migrate().await.expect("an inbox");
        pg
    }

    fn outbox(&self) -> PgStore {
        PgStore::lazy(&self.database.url, PgOptions::default().shards(4)).expect("a url")
    }

    fn effects(&self) -> PgEffects {
        PgEffects::new(&self.database.url, PgOptions::default(), Inbox::default(), 2).expect("a url")
    }

    fn board(&self, workflows: Arc<Workflows>) -> PgBoard {
        PgBoard::new(self.effects(), Outbox::default(), workflows)
    }

    /// A connection of somebody else.
    async fn connect(&self) -> Client {
        let connected = tokio_postgres::connect(&self.database.url, NoTls).await;
        let (client, connection) = connected.expect("a connection");
        tokio::spawn(connection);
        client
    }

    fn sql(&self, sql: &str) -> String {
        let server = self.own.as_ref().unwrap_or_else(|| Postgres::shared());
        server.sql(&self.database.name, sql)
    }
}

impl Bench for Pg {
    fn open(&self, workflows: Arc<Workflows>) -> BoxFuture<'_, Arc<dyn Board>> {
        Box::pin(async { Arc::new(self.board(workflows)) as Arc<dyn Board> })
    }

    fn deliver(
        &self,
        workflows: Arc<Workflows>,
        deliveries: Vec<Received>,
    ) -> BoxFuture<'_, Result<Vec<Applied>, ApplyError>> {
        Box::pin(async move {
            let effects = self.effects();
            let handler = PgBoard::new(effects.clone(), Outbox::default(), workflows).handler();
            effects.apply("notify".into(), deliveries.into(), handler).await
        })
    }

    fn open_own(&self, workflows: Arc<Workflows>, people: Arc<dyn People>) -> BoxFuture<'_, Arc<dyn Board>> {
        Box::pin(async { Arc::new(self.board(workflows).with_directory(people)) as Arc<dyn Board> })
    }

    fn deliver_own(
        &self,
        workflows: Arc<Workflows>,
        people: Arc<dyn People>,
        deliveries: Vec<Received>,
    ) -> BoxFuture<'_, Result<Vec<Applied>, ApplyError>> {
        Box::pin(async move {
            let handler = self.board(workflows).with_directory(people).handler();
            self.effects()
                .apply("notify".into(), deliveries.into(), handler)
                .await
        })
    }

    fn run<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let done = self.connect().await.batch_execute(sql).await;
            done.expect("the statements work");
        })
    }

    fn number<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, i64> {
        Box::pin(async move {
            let row = self.connect().await.query_one(sql, &[]).await;
            row.expect("a row").get(0)
        })
    }

    fn texts<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async move {
            let rows = self.connect().await.query(sql, &[]).await;
            rows.expect("rows").iter().map(|row| row.get(0)).collect()
        })
    }

    fn age<'a>(&'a self, table: &'a str, column: &'a str, by: Duration) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let seconds = by.as_secs();
            let sql = format!("UPDATE {table} SET {column} = {column} - interval '{seconds} seconds'");
            self.run(&sql).await;
        })
    }

    fn store(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async { Arc::new(self.outbox()) as Arc<dyn Store> })
    }

    fn console(&self) -> BoxFuture<'_, Arc<dyn Console>> {
        Box::pin(async { Arc::new(self.outbox()) as Arc<dyn Console> })
    }
}

board_suite!(Pg::fresh());
