//! What keeps the tables small: removal by age, the history as rows, and the duties that one relay does for all.

mod duty;
mod history;
mod purge;
mod restore;

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    BoxFuture, Claim, Cursor, Duty, HistoryAsk, HistoryPage, HistoryRow, Job, JobId, PastDuty, Purge, Purged,
    StoreError, Upkeep,
};
use rusqlite::Transaction;

#[cfg(test)]
pub(crate) use purge::OLD;

use crate::console::View;
use crate::store::SqliteStore;

const REMOVING: &str = "removing what is old";

impl Upkeep for SqliteStore {
    fn claim(&self, duty: Duty) -> BoxFuture<'_, Result<Claim, StoreError>> {
        Box::pin(self.tend("claiming a duty", move |view| duty::claim(&view, &duty)))
    }

    fn finish(&self, duty: Duty, note: String) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.tend("finishing a duty", move |view| duty::finish(&view, &duty, &note)))
    }

    fn past_duties(&self, prefix: String) -> BoxFuture<'_, Result<Vec<PastDuty>, StoreError>> {
        Box::pin(self.view("looking at duties", move |view| duty::past(&view, &prefix)))
    }

    fn forget_duties(&self, seen: Vec<PastDuty>) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(self.tend("forgetting duties", move |view| duty::forget(&view, &seen)))
    }

    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged, StoreError>> {
        match purge.dry_run {
            true => Box::pin(self.view(REMOVING, move |view| purge::count(&view, &purge))),
            false => Box::pin(self.remove_old(purge)),
        }
    }

    fn forgotten(&self, older_than: Duration) -> BoxFuture<'_, Result<Option<JobId>, StoreError>> {
        Box::pin(self.view("looking for forgotten replays", move |view| {
            purge::forgotten(&view, older_than)
        }))
    }

    fn history(&self, ask: HistoryAsk) -> BoxFuture<'_, Result<HistoryPage, StoreError>> {
        Box::pin(self.view("reading the history", move |view| history::page(&view, &ask)))
    }

    fn mark(
        &self,
        job: JobId,
        cursor: Cursor,
        rows: u64,
        done: bool,
    ) -> BoxFuture<'_, Result<Job, StoreError>> {
        Box::pin(self.tend("marking how far a job has come", move |view| {
            restore::mark(&view, &job, cursor, rows, done)
        }))
    }

    fn restore(
        &self,
        job: JobId,
        rows: Vec<HistoryRow>,
        cursor: Cursor,
    ) -> BoxFuture<'_, Result<Job, StoreError>> {
        Box::pin(self.tend("restoring rows of the history", move |view| {
            restore::restore(&view, &job, &rows, cursor)
        }))
    }

    fn restored(&self, job: JobId) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(self.view("counting what was restored", move |view| {
            restore::restored(&view, &job)
        }))
    }
}

impl SqliteStore {
    /// One step: finds what is old, and removes it, by the way if nobody waits for it.
    async fn remove_old(&self, purge: Purge) -> Result<Purged, StoreError> {
        let purge = Arc::new(purge);
        let look = Arc::clone(&purge);
        let mut found = self.view(REMOVING, move |view| purge::find(&view, &look)).await?;
        if let Some(nothing) = found.nothing() {
            return Ok(nothing);
        }
        if !purge::is_errand(&purge) {
            let remove = move |view: View<'_>| purge::remove(&view, &purge, found, None);
            return self.tend(REMOVING, remove).await;
        }
        let tables = self.tables_shared();
        let errand = move |tx: &Transaction<'_>, company| {
            let view = View::begin(tx, &tables)?;
            Ok((purge::remove(&view, &purge, found, Some(company))?, company))
        };
        let ((purged, company), took) = self.writer().errand(REMOVING, errand).await?;
        Ok(Purged {
            rest: Some(purge::rest(company, took)),
            ..purged
        })
    }
}
