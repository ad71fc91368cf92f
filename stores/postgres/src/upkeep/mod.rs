//! What keeps the tables small: removal by age, the duties that one relay does for all, and the history as rows.

mod days;
mod duty;
mod history;
mod hold;
mod purge;
mod restore;

use std::time::Duration;

use postrider_core::{
    BoxFuture, Claim, Cursor, Duty, HistoryAsk, HistoryPage, HistoryRow, Job, JobId, Kept, PastDuty, Purge,
    Purged, StoreError, Upkeep,
};

pub(crate) use days::{drop_old, is_any_due, maintain};
#[cfg(test)]
pub(crate) use purge::{IS_GONE, PURGE};

use crate::store::PgStore;

impl Upkeep for PgStore {
    fn claim(&self, duty: Duty) -> BoxFuture<'_, Result<Claim, StoreError>> {
        Box::pin(self.view("claiming a duty", move |view| async move {
            duty::claim(&view, &duty).await
        }))
    }

    fn finish(&self, duty: Duty, note: String) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.view("finishing a duty", move |view| async move {
            duty::finish(&view, &duty, &note).await
        }))
    }

    fn past_duties(&self, prefix: String) -> BoxFuture<'_, Result<Vec<PastDuty>, StoreError>> {
        Box::pin(self.view("looking at duties", move |view| async move {
            duty::past(&view, &prefix).await
        }))
    }

    fn forget_duties(&self, seen: Vec<PastDuty>) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(self.view("forgetting duties", move |view| async move {
            duty::forget(&view, &seen).await
        }))
    }

    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged, StoreError>> {
        Box::pin(self.view("removing what is old", move |view| async move {
            if purge.what == Kept::History && !purge.dry_run {
                let (days, purged) = days::drop_old(&view, &purge).await?;
                if days > 0 || purge.in_bulk {
                    return purge::written_down(&view, &purge, purged).await;
                }
            }
            purge::purge(&view, &purge).await
        }))
    }

    fn forgotten(&self, older_than: Duration) -> BoxFuture<'_, Result<Option<JobId>, StoreError>> {
        Box::pin(
            self.view("looking for forgotten replays", move |view| async move {
                purge::forgotten(&view, older_than).await
            }),
        )
    }

    fn history(&self, ask: HistoryAsk) -> BoxFuture<'_, Result<HistoryPage, StoreError>> {
        Box::pin(self.view("reading the history", move |view| async move {
            history::page(&view, &ask).await
        }))
    }

    fn mark(
        &self,
        job: JobId,
        cursor: Cursor,
        rows: u64,
        done: bool,
    ) -> BoxFuture<'_, Result<Job, StoreError>> {
        Box::pin(self.view("going on with a job", move |view| async move {
            restore::mark(&view, &job, cursor, rows, done).await
        }))
    }

    fn restore(
        &self,
        job: JobId,
        rows: Vec<HistoryRow>,
        cursor: Cursor,
    ) -> BoxFuture<'_, Result<Job, StoreError>> {
        Box::pin(self.view("reading an archive back", move |view| async move {
            restore::restore(&view, &job, &rows, cursor).await
        }))
    }

    fn restored(&self, job: JobId) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(self.view("counting what was restored", move |view| async move {
            restore::restored(&view, &job).await
        }))
    }
}
