//! What keeps the tables small: removal by age, the history as rows, and the duties that one relay does for all.

mod duty;
mod history;
mod purge;
mod restore;

use std::time::{Duration, Instant};

use postrider_core::{
    BoxFuture, Claim, Cursor, Duty, HistoryAsk, HistoryPage, HistoryRow, Job, JobId, PastDuty, Purge, Purged,
    StoreError, Upkeep,
};
use rusqlite::Transaction;

use crate::console::View;
use crate::errand;
use crate::store::SqliteStore;

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
        const DOING: &str = "removing what is old";
        match purge.dry_run {
            true => Box::pin(self.view(DOING, move |view| purge::count(&view, &purge))),
            false if purge::is_errand(&purge) => {
                let tables = self.tables_shared();
                Box::pin(async move {
                    let asked = Instant::now();
                    let errand = move |tx: &Transaction<'_>| {
                        let is_alone = asked.elapsed() >= errand::PATIENCE;
                        let (hold, rest) = match is_alone {
                            true => (purge::ALONE, Duration::ZERO),
                            false => (purge::BESIDE, purge::REST),
                        };
                        let purged = purge::purge(&View::begin(tx, &tables)?, &purge, Some(hold))?;
                        Ok(Purged {
                            rest: Some(rest),
                            ..purged
                        })
                    };
                    self.writer().errand(DOING, errand).await
                })
            }
            false => Box::pin(self.tend(DOING, move |view| purge::purge(&view, &purge, None))),
        }
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
}
