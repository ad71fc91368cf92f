//! What keeps the tables small: removal by age, and the duties that one relay does for all.

mod purge;

use postrider_core::{BoxFuture, Purge, Purged, StoreError, Upkeep};

#[cfg(test)]
pub(crate) use purge::PURGE;

use crate::store::PgStore;

impl Upkeep for PgStore {
    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged, StoreError>> {
        Box::pin(self.view("removing what is old", move |view| async move {
            purge::purge(&view, &purge).await
        }))
    }
}
