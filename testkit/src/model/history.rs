//! The history as rows that an archive keeps, and what is read back of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Cursor, ErrorKind, Event, Failure, HistoryAsk, HistoryPage, HistoryRow, Job, JobId, JobState, Lane,
    Receipt, Timestamp,
};

use super::{Fate, Model, Place, Record, Row, Tries, cursor, rows, time};

impl Model {
    /// A page of the history by place; see `Upkeep::history`.
    pub fn history_page(&self, ask: &HistoryAsk, after: Option<&Place>) -> HistoryPage {
        let mut all: Vec<(Place, &Record)> = self
            .history()
            .filter(|record| ask.since.is_none_or(|since| time(record.at) >= since))
            .filter(|record| ask.until.is_none_or(|until| time(record.at) < until))
            .map(|record| ((record.row.seq, record.destination.clone()), record))
            .filter(|(place, _)| after.is_none_or(|after| place > after))
            .collect();
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut bytes = 0;
        let mut page = HistoryPage::default();
        let mut last = None;
        for (place, record) in all {
            let full = page.rows.len() >= ask.limit as usize || bytes >= ask.max_bytes.max(1);
            // Rows of the same place stay together, because a cursor cannot tell them apart.
            if full && last.as_ref() != Some(&place) {
                page.next = last.as_ref().map(cursor);
                break;
            }
            bytes += record.row.event.payload.len() as u64;
            page.rows.push(row_of(record));
            last = Some(place);
        }
        page
    }

    /// Puts rows of an archive where a replay finds them; none: there is no such job.
    pub fn restore(&mut self, now: Duration, id: &JobId, rows: &[HistoryRow], at: Cursor) -> Option<Job> {
        let job = self.jobs(Some(id), 1).pop()?;
        if job.has_reached(&at) {
            return Some(job);
        }
        let running = job.state == JobState::Running;
        for row in rows.iter().filter(|_| running) {
            let record = record_of(row, self.options.shards);
            self.restored.push((id.clone(), now, record));
        }
        self.mark(now, id, at, rows.len() as u64, false)
    }

    /// What is left of the rows that a job restored.
    pub(crate) fn restored_by<'a>(&'a self, job: &'a JobId) -> impl Iterator<Item = &'a Record> {
        let of_job = self.restored.iter().filter(move |(id, ..)| id == job);
        of_job.map(|(.., record)| record)
    }
}

fn row_of(record: &Record) -> HistoryRow {
    let event = &record.row.event;
    let (outcome, receipt, reason) = match &record.fate {
        Fate::Sent(receipt) => ("published", receipt.0.as_deref().map(str::to_owned), None),
        Fate::Discarded(reason) => ("discarded", None, Some(reason.clone())),
    };
    let failure = record.tries.failure.as_ref();
    HistoryRow {
        seq: record.row.seq,
        destination: record.destination.clone(),
        outcome: outcome.to_owned(),
        event_id: event.id.clone(),
        event_type: event.event_type.clone(),
        aggregate: (event.aggregate_type.clone(), event.aggregate_id.clone()),
        event_key: event.key.clone(),
        payload: event.payload.clone(),
        content_type: event.content_type.clone(),
        headers: event.headers_text(),
        priority: Some(event.priority),
        available_at: event.available_at,
        created_at: event.created_at,
        enqueued_at: Some(time(record.row.inserted)),
        replay: record.row.replay.clone().map(JobId),
        reason,
        receipt,
        attempts: record.tries.attempts,
        failures: record.tries.failures,
        error: failure.map(|(failure, _)| (failure.kind.as_str().to_owned(), failure.text.to_string())),
        last_failed_at: failure
            .map(|(_, at)| *at)
            .or(record.tries.before.as_ref().map(|(_, at)| *at))
            .map(time),
        published_at: time(record.at),
    }
}

/// The record of a row that was written out. Headers that are none make a bad row of it, as they would anywhere.
fn record_of(row: &HistoryRow, shards: u16) -> Record {
    let headers = row.headers.as_deref().map_or(Ok(BTreeMap::new()), |text| {
        serde_json::from_str::<BTreeMap<String, String>>(text)
    });
    let bad = headers
        .as_ref()
        .err()
        .map(|error| Failure::new(ErrorKind::BadRow, error.to_string()));
    let event = Event {
        id: row.event_id.clone(),
        event_type: row.event_type.clone(),
        aggregate_type: row.aggregate.0.clone(),
        aggregate_id: row.aggregate.1.clone(),
        key: row.event_key.clone(),
        payload: row.payload.clone(),
        content_type: row.content_type.clone(),
        headers: headers.unwrap_or_default(),
        priority: row.priority.unwrap_or(0),
        available_at: row.available_at,
        created_at: row.created_at,
    };
    let key = event.order_key();
    Record {
        destination: row.destination.clone(),
        fate: match &row.reason {
            Some(reason) => Fate::Discarded(reason.clone()),
            None => Fate::Sent(Receipt(row.receipt.as_deref().map(Into::into))),
        },
        at: clock(row.published_at),
        tries: Tries {
            before: None,
            attempts: row.attempts,
            failures: row.failures,
            failure: row
                .error
                .as_ref()
                .zip(row.last_failed_at)
                .map(|((kind, text), at)| (Failure::new(ErrorKind::parse(kind), text), clock(at))),
        },
        row: Row {
            seq: row.seq,
            shard: rows::shard_of(&key, shards),
            lane: Lane::of(i64::from(event.priority)),
            key,
            event: Arc::new(event),
            bad,
            replay: row.replay.clone().map(|id| id.0),
            inserted: row.enqueued_at.map_or(Duration::ZERO, clock),
            tx: None,
        },
    }
}

fn clock(Timestamp(micros): Timestamp) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
