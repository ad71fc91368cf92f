//! The records of the database in memory, as operators and listeners see them.

use std::time::Duration;

use postrider_core::{BoxFuture, InboxConsole, Recorded, Records, StoreError};
use tokio::time::Instant;

use super::{Kept, MemoryEffects, Record, State};

impl InboxConsole for MemoryEffects {
    fn migrate(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.with(|_| ())
    }

    fn count(&self, records: Records) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.with(move |state| {
            let meant = state
                .records
                .iter()
                .filter(|(record, kept)| is_meant(&records, record, kept));
            meant.count() as u64
        })
    }

    fn forget(&self, records: Records) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.with(move |state| {
            let before = state.records.len();
            state
                .records
                .retain(|record, kept| !is_meant(&records, record, kept));
            (before - state.records.len()) as u64
        })
    }

    fn look(
        &self,
        consumer: String,
        event_id: String,
        hash: Option<String>,
    ) -> BoxFuture<'_, Result<Option<Recorded>, StoreError>> {
        self.with(move |state| {
            let kept = state.records.get(&(consumer.into(), event_id))?;
            Some(Recorded::beside(kept.hash.clone(), hash.as_deref()))
        })
    }

    fn record(
        &self,
        consumer: String,
        event_id: String,
        hash: Option<String>,
    ) -> BoxFuture<'_, Result<Recorded, StoreError>> {
        self.with(move |state| {
            let record = (consumer.into(), event_id);
            if let Some(kept) = state.records.get(&record) {
                return Recorded::beside(kept.hash.clone(), hash.as_deref());
            }
            let since = Instant::now();
            state.records.insert(record, Kept { hash, since });
            Recorded::Now
        })
    }

    fn purge(
        &self,
        consumer: Option<String>,
        older_than: Duration,
        limit: u32,
    ) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.with(move |state| {
            let is_of = |whose: &str| consumer.as_deref().is_none_or(|consumer| consumer == whose);
            let old = state
                .records
                .iter()
                .filter(|((whose, _), kept)| is_of(whose) && kept.since.elapsed() > older_than);
            let old: Vec<Record> = old
                .map(|(record, _)| record.clone())
                .take(limit as usize)
                .collect();
            for record in &old {
                state.records.remove(record);
            }
            old.len() as u64
        })
    }
}

impl MemoryEffects {
    /// One call, unless the database is away.
    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut State) -> T + Send + 'static,
    ) -> BoxFuture<'_, Result<T, StoreError>> {
        Box::pin(async move {
            let mut state = self.state();
            state.answer()?;
            Ok(work(&mut state))
        })
    }
}

fn is_meant(records: &Records, (consumer, id): &Record, kept: &Kept) -> bool {
    let age = kept.since.elapsed();
    **consumer == *records.consumer
        && (records.ids.is_empty() || records.ids.contains(id))
        && records.older_than.is_none_or(|bound| age >= bound)
        && records.newer_than.is_none_or(|bound| age <= bound)
}
