//! The inbox as operators see it, on the connections of its effects.

use std::time::Duration;

use postrider_core::{BoxFuture, InboxConsole, Records, StoreError};

use super::PgEffects;

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

    fn purge(&self, older_than: Duration, limit: u32) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            let lent = self.pool().lend().await?;
            let gone = self
                .inbox()
                .purge(&lent.session.client, older_than, limit)
                .await?;
            lent.keep(self.pool());
            Ok(gone)
        })
    }
}
