//! What keeps a database in memory small.

use std::time::Duration;

use postrider_core::{
    BoxFuture, Claim, Cursor, Duty, HistoryAsk, HistoryPage, HistoryRow, Job, JobId, PastDuty, Purge, Purged,
    StoreError, Upkeep,
};

use super::MemoryStore;
use crate::model::place_of;

impl Upkeep for MemoryStore {
    fn claim(&self, duty: Duty) -> BoxFuture<'_, Result<Claim, StoreError>> {
        Box::pin(async move { Ok(self.with_model(|model, now| model.claim_duty(now, &duty))) })
    }

    /// The note is for people who look at the table, and here is none.
    fn finish(&self, duty: Duty, _note: String) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.with_model(|model, now| model.finish_duty(now, &duty));
            Ok(())
        })
    }

    fn past_duties(&self, prefix: String) -> BoxFuture<'_, Result<Vec<PastDuty>, StoreError>> {
        Box::pin(async move { Ok(self.with_model(|model, now| model.past_duties(now, &prefix))) })
    }

    fn forget_duties(&self, seen: Vec<PastDuty>) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async move { Ok(self.with_model(|model, _| model.forget_duties(&seen))) })
    }

    fn forgotten(&self, older_than: Duration) -> BoxFuture<'_, Result<Option<JobId>, StoreError>> {
        Box::pin(async move { Ok(self.with_model(|model, now| model.forgotten(now, older_than))) })
    }

    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged, StoreError>> {
        Box::pin(async move { Ok(self.with_model(|model, now| model.purge(now, &purge))) })
    }

    fn history(&self, ask: HistoryAsk) -> BoxFuture<'_, Result<HistoryPage, StoreError>> {
        Box::pin(async move {
            let after = ask.after.as_ref().map(place_of).transpose()?;
            Ok(self.with_model(|model, _| model.history_page(&ask, after.as_ref())))
        })
    }

    fn mark(
        &self,
        job: JobId,
        cursor: Cursor,
        rows: u64,
        done: bool,
    ) -> BoxFuture<'_, Result<Job, StoreError>> {
        Box::pin(async move {
            let marked = self.with_model(|model, now| model.mark(now, &job, cursor, rows, done));
            marked.ok_or_else(|| Job::unknown(&job))
        })
    }

    fn restore(
        &self,
        job: JobId,
        rows: Vec<HistoryRow>,
        cursor: Cursor,
    ) -> BoxFuture<'_, Result<Job, StoreError>> {
        Box::pin(async move {
            // A cursor has no more room than a place of SQL.
            if let Some(strange) = rows.iter().find(|row| row.seq.0 >= i64::MAX as u128) {
                return Err(strange.out_of_place());
            }
            let restored = self.with_model(|model, now| model.restore(now, &job, &rows, cursor));
            restored.ok_or_else(|| Job::unknown(&job))
        })
    }

    fn restored(&self, job: JobId) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async move { Ok(self.with_model(|model, _| model.restored_by(&job).count() as u64)) })
    }
}
