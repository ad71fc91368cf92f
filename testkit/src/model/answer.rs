//! What a read says about a row: the event, its time, what stands in its way, and where its id was published before.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider_core::{Blocked, DestinationName, ParkedRow, QueuedRow, SentBefore};

use super::read::passed_over;
use super::{Model, Parked, Row, rows};

impl Model {
    pub(super) fn queued_answer(&self, now: Duration, row: &Row, skip_dead: &[DestinationName]) -> QueuedRow {
        QueuedRow {
            seq: row.seq,
            shard: row.shard,
            lane: row.lane,
            key: row.key.clone(),
            event_id: row.event_id().clone(),
            event: match &row.bad {
                Some(failure) => Err(failure.clone()),
                None => Ok(row.event.clone()),
            },
            due_in: rows::until(now, row.event.available_at),
            blocked: self.blocked(row, skip_dead),
            sent_before: self.sent_before(now, row, false),
            replay: row.replay.clone(),
        }
    }

    /// What a read says of the event in a parked row, whether it is due or not.
    pub fn parked_row_answer(&self, now: Duration, parked: &Parked) -> QueuedRow {
        QueuedRow {
            blocked: Blocked::Nowhere,
            sent_before: self.sent_before(now, &parked.row, parked.edits.is_empty()),
            ..self.queued_answer(now, &parked.row, &[])
        }
    }

    pub(super) fn parked_answer(&self, now: Duration, parked: &Parked) -> ParkedRow {
        ParkedRow {
            row: self.parked_row_answer(now, parked),
            destination: parked.destination.clone(),
            version: parked.version,
            attempts: parked.attempts,
            failures: parked.failures,
            failed_ago: parked.failed.map(|(_, last)| now.saturating_sub(last)),
            failing_for: parked.failed.map(|(first, _)| now.saturating_sub(first)),
            maybe_sent: parked.maybe_sent,
            redriven: parked.redriven,
        }
    }

    fn blocked(&self, row: &Row, skip_dead: &[DestinationName]) -> Blocked {
        if self.paused_keys.contains(&row.key) {
            return Blocked::Everywhere;
        }
        let Some(line) = self.line_of(row) else {
            return Blocked::Nowhere;
        };
        if line.contains_key(&None) {
            return Blocked::Everywhere;
        }
        let at: Vec<DestinationName> = line
            .iter()
            .filter(|(destination, seqs)| {
                seqs.iter()
                    .map(|seq| &self.parked[&(*seq, (*destination).clone())])
                    .any(|parked| !passed_over(parked, skip_dead))
            })
            .filter_map(|(destination, _)| destination.clone())
            .collect();
        if at.is_empty() {
            Blocked::Nowhere
        } else {
            Blocked::At(at)
        }
    }

    /// One entry a destination, even if the id was published there several times: the same content once is enough. A
    /// copy that a replay sent there says nothing about the event itself. Other content that was sent from the row's
    /// own place is what a person has edited since, or, where this row is parked and nobody has edited it, what a
    /// person has edited of another one.
    fn sent_before(&self, now: Duration, row: &Row, is_unedited: bool) -> Vec<SentBefore> {
        let Some(window) = self.options.dedup_window else {
            return Vec::new();
        };
        let known = self.history_by_id.get(row.event_id());
        if row.replay.is_some() {
            return Vec::new();
        }
        let mut before: BTreeMap<&DestinationName, bool> = BTreeMap::new();
        for record in known.into_iter().flatten().map(|n| &self.history[n]) {
            if let Some(destination) = &record.destination
                && record.is_sent()
                && record.row.replay.is_none()
                && now.saturating_sub(record.at) < window
            {
                let is_own = record.row.seq == row.seq;
                let is_this = is_own && record.row.inserted == row.inserted;
                let same = record.row.event.same_content(&row.event) || is_unedited && is_this;
                if same || !is_own {
                    *before.entry(destination).or_default() |= same;
                }
            }
        }
        before
            .into_iter()
            .map(|(destination, same_content)| SentBefore {
                destination: destination.clone(),
                same_content,
            })
            .collect()
    }
}
