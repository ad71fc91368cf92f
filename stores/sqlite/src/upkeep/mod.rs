//! What keeps the tables small: removal by age, and the duties that one relay does for all.

mod purge;

use postrider_core::{BoxFuture, Purge, Purged, StoreError, Upkeep};

use crate::store::SqliteStore;

impl Upkeep for SqliteStore {
    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged, StoreError>> {
        Box::pin(self.change("removing what is old", move |view| purge::purge(&view, &purge)))
    }
}
