//! The inbox as operators see it, on the connections of its effects.

use std::time::Duration;

use postrider_core::{BoxFuture, InboxConsole, Recorded, Records, StoreError};

use super::PgEffects;
use super::record::{self, Entry, Insert};

impl InboxConsole for PgEffects {
    fn migrate(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async {
            let lent = self.pool().lend().await?;
            self.inbox().migrate(&lent.session.client).await?;
            lent.keep(self.pool());
            Ok(())
        })
    }

    fn count(&self, records: Records) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            let lent = self.pool().lend().await?;
            let counted = self.inbox().count(&lent.session.client, &records).await?;
            lent.keep(self.pool());
            Ok(counted)
        })
    }

    fn forget(&self, records: Records) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            let lent = self.pool().lend().await?;
            let gone = self.inbox().forget_all(&lent.session.client, &records).await?;
            lent.keep(self.pool());
            Ok(gone)
        })
    }

    fn look(
        &self,
        consumer: String,
        event_id: String,
        hash: Option<String>,
    ) -> BoxFuture<'_, Result<Option<Recorded>, StoreError>> {
        Box::pin(async move {
            let lent = self.pool().lend().await?;
            let event = Entry {
                id: &event_id,
                hash: hash.as_deref(),
            };
            let inbox = self.inbox();
            let known = record::look(&lent.session.client, &inbox.tables, &consumer, &event).await;
            let known = known.map_err(|error| inbox.explain(error, "looking an event up in the inbox"))?;
            lent.keep(self.pool());
            Ok(known)
        })
    }

    fn record(
        &self,
        consumer: String,
        event_id: String,
        hash: Option<String>,
    ) -> BoxFuture<'_, Result<Recorded, StoreError>> {
        Box::pin(async move {
            let lent = self.pool().lend().await?;
            let event = Entry {
                id: &event_id,
                hash: hash.as_deref(),
            };
            let (inbox, client) = (self.inbox(), &lent.session.client);
            let insert = inbox.tables.sql(record::INSERT);
            let said =
                record::record(client, &inbox.tables, &Insert::Text(&insert), &consumer, &[event]).await;
            let said = said.map_err(|error| inbox.explain(error, "recording an event in the inbox"))?;
            lent.keep(self.pool());
            Recorded::only(said)
        })
    }

    fn purge(
        &self,
        consumer: Option<String>,
        older_than: Duration,
        limit: u32,
    ) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            let lent = self.pool().lend().await?;
            let gone = self
                .inbox()
                .purge(&lent.session.client, consumer.as_deref(), older_than, limit)
                .await?;
            lent.keep(self.pool());
            Ok(gone)
        })
    }
}
