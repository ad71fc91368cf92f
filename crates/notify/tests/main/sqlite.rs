//! The suite on SQLite.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Applied, ApplyError, BoxFuture, Console, Effects, Received, Schema, Store};
use postrider_notify::{Board, People, SqliteBoard, Workflows};
use postrider_sqlite::{Inbox, Outbox, SqliteEffects, SqliteOptions, SqliteStore};
use rusqlite::Connection;

use crate::suite::{Bench, board_suite};

/// A file of its own.
struct Sqlite {
    folder: tempfile::TempDir,
}

impl Sqlite {
    async fn fresh() -> Self {
        let bench = Self {
            folder: tempfile::tempdir().expect("a folder"),
        };
        bench.outbox().up().await.expect("an outbox");
        bench.effects().migrate().await.expect("an inbox");
        bench
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("shop.db")
    }

    fn outbox(&self) -> SqliteStore {
        SqliteStore::open(self.path(), SqliteOptions::default()).expect("opened")
    }

    fn effects(&self) -> SqliteEffects {
        SqliteEffects::open(self.path(), SqliteOptions::default(), Inbox::default()).expect("opened")
    }

    fn board(&self, workflows: Arc<Workflows>) -> SqliteBoard {
        SqliteBoard::new(self.effects(), Outbox::default(), workflows)
    }

    fn connect(&self) -> Connection {
        let connection = Connection::open(self.path()).expect("a connection");
        connection.busy_timeout(Duration::from_secs(20)).expect("patient");
        connection
    }
}

impl Bench for Sqlite {
    fn open(&self, workflows: Arc<Workflows>) -> BoxFuture<'_, Arc<dyn Board>> {
        Box::pin(async { Arc::new(self.board(workflows)) as Arc<dyn Board> })
    }

    fn deliver(
        &self,
        workflows: Arc<Workflows>,
        deliveries: Vec<Received>,
    ) -> BoxFuture<'_, Result<Vec<Applied>, ApplyError>> {
        Box::pin(async {
            let handler = self.board(workflows).handler();
            self.effects()
                .apply("notify".into(), deliveries.into(), handler)
                .await
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
        Box::pin(async {
            let handler = self.board(workflows).with_directory(people).handler();
            self.effects()
                .apply("notify".into(), deliveries.into(), handler)
                .await
        })
    }

    fn run<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async { self.connect().execute_batch(sql).expect(sql) })
    }

    fn number<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, i64> {
        Box::pin(async { self.connect().query_row(sql, [], |row| row.get(0)).expect(sql) })
    }

    fn texts<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async {
            let connection = self.connect();
            let mut statement = connection.prepare(sql).expect(sql);
            let texts = statement.query_map([], |row| row.get(0)).expect(sql);
            texts.collect::<Result<_, _>>().expect(sql)
        })
    }

    fn age<'a>(&'a self, table: &'a str, column: &'a str, by: Duration) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let sql = format!("UPDATE {table} SET {column} = {column} - {}", by.as_micros());
            self.connect().execute_batch(&sql).expect("aged");
        })
    }

    fn store(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async { Arc::new(self.outbox()) as Arc<dyn Store> })
    }

    fn console(&self) -> BoxFuture<'_, Arc<dyn Console>> {
        Box::pin(async { Arc::new(self.outbox()) as Arc<dyn Console> })
    }
}

board_suite!(Sqlite::fresh());
