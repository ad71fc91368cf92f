//! What happened to one event.

use std::time::Duration;

use postrider_core::{AuditEntry, EventId, EventRecord, Moment, Timestamp, What};

use super::{Fate, Model, Record, time};

impl Model {
    /// Every record of an id, with its timeline and its original payload; see `Console::show`.
    pub fn show(&self, now: Duration, id: &EventId) -> Vec<EventRecord> {
        let mut shown: Vec<_> = self.records(now).into_values().collect();
        shown.retain(|record| record.event_id == *id);
        for record in &mut shown {
            record.timeline = self.timeline(record);
            let originals = self.originals.iter();
            record.original = originals
                .filter(|((seq, _), _)| *seq == record.seq)
                .map(|(_, original)| original.clone())
                .next();
        }
        shown
    }

    fn timeline(&self, record: &EventRecord) -> Vec<Moment> {
        let mut all = Vec::new();
        all.extend(self.inserted(record).map(|at| moment(at, What::Enqueued)));
        for route in &record.routes {
            let mut add = |at: Option<Timestamp>, what, detail: Option<&String>| {
                all.extend(at.map(|at| Moment {
                    destination: route.destination.clone(),
                    detail: detail.cloned().unwrap_or_default(),
                    ..moment(at, what)
                }));
            };
            let (first, last) = route.failed.unzip();
            add(first, What::FirstFailed, route.error.as_ref());
            add(
                last.filter(|_| first != last),
                What::LastFailed,
                route.error.as_ref(),
            );
            add(route.next_attempt_at, What::NextAttempt, None);
        }
        all.extend(self.history().filter_map(|left| left_as(record, left)));
        let deeds = self.audit.values().filter(|entry| {
            record.replay.is_none() && entry.event_id.as_ref() == Some(&record.event_id) && entry.touched > 0
        });
        all.extend(deeds.filter_map(deed));
        all.sort_by_key(|moment| (moment.at, moment.what));
        all
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

/// How a row of the history ended a record, or, as a copy, repeated it.
fn left_as(record: &EventRecord, left: &Record) -> Option<Moment> {
    let is_own = left.row.seq == record.seq;
    let is_copy =
        record.replay.is_none() && left.row.replay.is_some() && *left.row.event_id() == record.event_id;
    let (what, detail) = match &left.fate {
        Fate::Sent(receipt) if is_own => (What::Published, receipt.0.as_deref().unwrap_or_default()),
        Fate::Sent(receipt) if is_copy => (What::Replayed, receipt.0.as_deref().unwrap_or_default()),
        Fate::Discarded(reason) if is_own => (What::Discarded, reason.as_str()),
        Fate::Sent(_) | Fate::Discarded(_) => return None,
    };
    Some(Moment {
        destination: left.destination.clone(),
        detail: detail.to_owned(),
        ..moment(time(left.at), what)
    })
}

/// What a person did to the one event that was named. That it was discarded, the history says.
fn deed(entry: &AuditEntry) -> Option<Moment> {
    let what = match entry.action.as_str() {
        "redrive" => What::Redriven,
        "edit" => What::Edited,
        "move" => What::Moved,
        _ => return None,
    };
    Some(Moment {
        actor: Some(entry.actor.clone()),
        ..moment(entry.at, what)
    })
}

fn moment(at: Timestamp, what: What) -> Moment {
    Moment {
        at,
        what,
        destination: None,
        actor: None,
        detail: String::new(),
    }
}
