//! The inbox as operators see it, on the thread of its effects.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{BoxFuture, InboxConsole, Records, StoreError};
use rusqlite::Connection;

use super::{Inbox, SqliteEffects};
use crate::connect::Session;

impl InboxConsole for SqliteEffects {
    fn migrate(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.ask("making the inbox table", Inbox::migrate)
    }

    fn count(&self, records: Records) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.ask("counting records of the inbox", move |inbox, connection| {
            inbox.count(connection, &records)
        })
    }

    fn forget(&self, records: Records) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.ask("forgetting events of the inbox", move |inbox, connection| {
            inbox.forget_all(connection, &records)
        })
    }

    fn purge(&self, older_than: Duration, limit: u32) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.ask("purging the inbox", move |inbox, connection| {
            inbox.purge(connection, older_than, limit)
        })
    }
}

impl SqliteEffects {
    fn ask<T: Send + 'static>(
        &self,
        doing: &'static str,
        ask: impl FnOnce(&Inbox, &Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'_, Result<T, StoreError>> {
        let inbox = Arc::clone(self.inbox());
        let ask = move |session: &mut Session| Ok(ask(&inbox, &session.connection)?);
        Box::pin(self.worker().call(doing, ask))
    }
}
