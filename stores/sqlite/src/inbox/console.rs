//! The inbox as operators see it, on the thread of its effects.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{BoxFuture, InboxConsole, Recorded, Records, StoreError};
use rusqlite::Connection;

use super::{Inbox, SqliteEffects, record};
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

    fn look(
        &self,
        consumer: String,
        event_id: String,
        hash: Option<String>,
    ) -> BoxFuture<'_, Result<Option<Recorded>, StoreError>> {
        let doing = "looking an event up in the inbox";
        self.ask(doing, move |inbox, connection| {
            record::look(connection, &inbox.tables, &consumer, &event_id, hash.as_deref())
                .map_err(|error| inbox.explain(error, doing))
        })
    }

    fn record(
        &self,
        consumer: String,
        event_id: String,
        hash: Option<String>,
    ) -> BoxFuture<'_, Result<Recorded, StoreError>> {
        let doing = "recording an event in the inbox";
        self.ask(doing, move |inbox, connection| {
            let event = (event_id.as_str(), hash.as_deref());
            record::record(connection, &inbox.tables, &consumer, &[event])
                .map_err(|error| inbox.explain(error, doing))
                .and_then(Recorded::only)
        })
    }

    fn purge(
        &self,
        consumer: Option<String>,
        older_than: Duration,
        limit: u32,
    ) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.ask("purging the inbox", move |inbox, connection| {
            inbox.purge(connection, consumer.as_deref(), older_than, limit)
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
