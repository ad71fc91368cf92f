//! Sent events that are sent again: copies, parked beside the live flow.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use postrider_core::{DestinationName, Job, JobId, OrderKey, Park, Replay, Seq};

use super::job::Filed;
use super::record::{record_of, sent_route};
use super::{Model, Parked, Place, Record, Row, cursor, rows, time};

impl Model {
    pub(super) fn step_replay(&mut self, now: Duration, filed: &Filed, replay: &Replay, limit: u32) {
        let (waiting, stuck) = (
            self.waiting_copies(&filed.job.id),
            self.stuck_copies(&filed.job.id),
        );
        let room = Replay::room(waiting, stuck).min(limit) as usize;
        let mut rest = self.replayed(filed, replay).into_iter().peekable();
        let mut taken: Vec<Record> = rest.by_ref().take(room).collect();
        // The next step begins behind the place.
        let is_behind = |one: &Record, last: &Record| match replay.to {
            Some(_) => one.row.seq != last.row.seq,
            None => place(one) != place(last),
        };
        while let Some(same) = rest.next_if(|next| taken.last().is_some_and(|last| !is_behind(next, last))) {
            taken.push(same);
        }
        let is_end = rest.next().is_none();
        // Behind its bound it reads no more, and keeps nothing from being removed.
        let at = match is_end {
            true => Some((Seq(filed.bound.0.saturating_add(1)), None)),
            false => taken.last().map(place),
        };
        for record in &taken {
            let to = replay.to.clone().or(record.destination.clone());
            if let Some(to) = to {
                self.copy(now, &filed.job, record, to);
            }
        }
        let ended = is_end && self.waiting_copies(&filed.job.id) == 0;
        let touched = taken.len() as u64;
        self.advance(now, &filed.job, at.as_ref().map(cursor), (touched, 0), ended);
    }

    /// What is still to be sent again, by place. Sent elsewhere, an event goes once, wherever it had gone.
    fn replayed(&self, filed: &Filed, replay: &Replay) -> Vec<Record> {
        let until = replay.until(filed.job.begun_at);
        let from = filed.from();
        let is_behind = |place: &Place| match &from {
            Some(from) if replay.to.is_some() => place.0 > from.0,
            Some(from) => place > from,
            None => true,
        };
        let is_meant = |record: &&Record| {
            record.is_sent()
                && record.row.replay.is_none()
                && replay.since.is_none_or(|since| time(record.at) >= since)
                && until.is_none_or(|until| time(record.at) < until)
                && is_behind(&place(record))
                && record.row.seq <= filed.bound
                && filed
                    .job
                    .filter
                    .matches(&record_of(&record.row), &sent_route(record), filed.job.begun_at)
        };
        let mut meant: Vec<Record> = match &replay.restored {
            Some(job) => self.restored_by(job).filter(is_meant).cloned().collect(),
            None => self.history().filter(is_meant).cloned().collect(),
        };
        // Edited while it was being sent, an event was sent twice: the last is what people wanted. Another event may
        // have the same place, after a backup was put back.
        let id = |record: &Record| record.row.event_id().clone();
        meant.sort_by_key(|record| (place(record), id(record), Reverse(record.at)));
        meant.dedup_by_key(|record| (place(record), id(record)));
        if replay.to.is_some() {
            meant.sort_by_key(|record| (record.row.seq, id(record), record.destination.clone()));
            meant.dedup_by_key(|record| (record.row.seq, id(record)));
        }
        meant
    }

    /// Parks a copy at a place of its own, in a line of the replay's own.
    fn copy(&mut self, now: Duration, job: &Job, record: &Record, to: DestinationName) {
        self.last_seq = Seq(self.last_seq.0 + 1);
        let own = record.row.event.order_key();
        let row = Row {
            seq: self.last_seq,
            shard: rows::shard_of(&own, self.options.shards),
            key: OrderKey::replayed(job.id.as_str(), own.as_str()),
            replay: Some(job.id.0.clone()),
            inserted: now,
            ..record.row.clone()
        };
        self.park(Parked::new(now, row, &Park::waiting(to, false), 1));
    }

    /// Copies that are made and neither sent nor dead.
    pub(super) fn waiting_copies(&self, id: &JobId) -> u64 {
        let waits = |parked: &&Parked| parked.row.replay.as_ref() == Some(&id.0) && !parked.dead;
        self.parked.values().filter(waits).count() as u64
    }

    /// Those that wait behind a dead one of their key.
    fn stuck_copies(&self, id: &JobId) -> u64 {
        let of_job = |parked: &&Parked| parked.row.replay.as_ref() == Some(&id.0);
        let line = |parked: &Parked| {
            (
                parked.row.key.clone(),
                parked.row.lane,
                parked.destination.clone(),
            )
        };
        let mut dead = BTreeMap::new();
        for parked in self.parked.values().filter(of_job).filter(|parked| parked.dead) {
            let first = dead.entry(line(parked)).or_insert(parked.row.seq);
            *first = parked.row.seq.min(*first);
        }
        let waits = self.parked.values().filter(of_job).filter(|parked| !parked.dead);
        let stuck = waits.filter(|parked| {
            dead.get(&line(parked))
                .is_some_and(|first| *first < parked.row.seq)
        });
        stuck.count() as u64
    }

    pub(super) fn take_copies_back(&mut self, id: &JobId) -> u64 {
        let copies: Vec<Place> = self
            .parked
            .iter()
            .filter(|(_, parked)| parked.row.replay.as_ref() == Some(&id.0))
            .map(|(place, _)| place.clone())
            .collect();
        for place in &copies {
            self.unpark(place);
        }
        copies.len() as u64
    }
}

fn place(record: &Record) -> Place {
    (record.row.seq, record.destination.clone())
}
