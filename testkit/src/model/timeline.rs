//! What happened to one event.

use std::time::Duration;

use postrider_core::{AuditEntry, EditedAt, EventId, EventRecord, Head, Left, Moment, Story, Timestamp};

use super::{Fate, Model, Record, time};

impl Model {
    /// Every record of an id, with its timeline and its original payload; see `Console::show`.
    pub fn show(&self, now: Duration, id: &EventId) -> Vec<EventRecord> {
        let mut shown: Vec<_> = self.records(now).into_values().collect();
        shown.retain(|record| record.event_id == *id);
        let edits: Vec<_> = shown.iter().flat_map(|record| self.edits_of(record)).collect();
        let is_alone = shown.len() == 1;
        for record in &mut shown {
            record.timeline = self.timeline(record, is_alone, &edits);
            self.name_heads(now, record);
            let own = self.originals.iter().filter(|((seq, _), _)| *seq == record.seq);
            if let Some((_, original)) = own.min_by_key(|(_, original)| original.edited_at) {
                record.set_original(original.clone());
            }
        }
        shown
    }

    fn name_heads(&self, now: Duration, record: &mut EventRecord) {
        let seq = record.seq;
        for route in record.routes.iter_mut().filter(|route| route.status.is_parked()) {
            let parked = self.parked_row(seq, route.destination.as_ref());
            let head = parked.and_then(|parked| self.head_of(parked));
            route.behind = head.map(|head| Head {
                event_id: head.row.event_id().clone(),
                destination: head.destination.clone(),
                status: self.status_of(now, head),
            });
        }
    }

    fn edits_of(&self, record: &EventRecord) -> impl Iterator<Item = EditedAt> {
        let own = self.originals.iter().filter(|((seq, _), _)| *seq == record.seq);
        own.map(|((seq, _), original)| EditedAt {
            seq: *seq,
            at: original.edited_at,
            actor: original.actor.clone(),
        })
    }

    fn timeline(&self, record: &EventRecord, is_alone: bool, edits: &[EditedAt]) -> Vec<Moment> {
        let id = &record.event_id;
        let own = |left: &&Record| left.row.seq == record.seq;
        let copies = |left: &&Record| {
            left.is_sent()
                && left.row.replay.is_some()
                && left.row.event_id() == id
                && left.row.seq != record.seq
        };
        let by_name = |entry: &&AuditEntry| entry.event_id.as_ref() == Some(id) && entry.touched > 0;
        let story = Story {
            is_alone,
            enqueued_at: self.inserted(record),
            left: self.history().filter(own).map(left_as).collect(),
            copies: self.history().filter(copies).map(left_as).collect(),
            deeds: self.audit.values().filter(by_name).cloned().collect(),
            edits: edits.to_vec(),
            jobs: self.jobs(None, usize::MAX),
        };
        story.tell(record)
    }

    fn inserted(&self, record: &EventRecord) -> Option<Timestamp> {
        let queued = self.rows.get(&record.seq);
        let parked = self.parked().map(|parked| &parked.row);
        let left = self.history().map(|left| &left.row);
        let mut rows = queued.into_iter().chain(parked).chain(left);
        rows.find(|row| row.seq == record.seq)
            .map(|row| time(row.inserted))
    }
}

/// How a row left.
fn left_as(record: &Record) -> Left {
    let detail = match &record.fate {
        Fate::Sent(receipt) => receipt.0.as_deref().unwrap_or_default(),
        Fate::Discarded(reason) => reason.as_str(),
    };
    let failed = record.tries.failure.as_ref();
    let before = record.tries.before.as_ref();
    let before = before.map(|(text, at)| (time(*at), None, text.clone()));
    Left {
        at: time(record.at),
        destination: record.destination.clone(),
        discarded: !record.is_sent(),
        detail: detail.to_owned(),
        failed: failed
            .map(|(failure, at)| {
                (
                    time(*at),
                    Some(failure.kind.as_str().to_owned()),
                    failure.text.to_string(),
                )
            })
            .or(before),
    }
}
