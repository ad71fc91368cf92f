//! Lines: the deliveries of one key, lane and destination. They leave one call at a time, the lowest `seq` first. A key
//! ties the lines of one key together.

use std::collections::{BTreeMap, BTreeSet};

use postrider_core::{DestinationId, Lane, OrderKey, Seq, Shard};

use super::Call;
use super::item::{Item, ItemId};
use super::ready::Ticket;
use super::rows::Rows;

pub(super) type LineId = usize;

/// A key within its shard and lane.
pub(super) type KeyRef = (Shard, Lane, OrderKey);

/// The queued rows of one key and lane.
#[derive(Debug, Default)]
pub(super) struct Key {
    pub(super) members: BTreeMap<Seq, ItemId>,
    pub(super) lines: BTreeMap<DestinationId, LineId>,
    /// Rows of the key about to be parked without a destination: they block it everywhere.
    pub(super) parking: BTreeSet<Seq>,
    /// What reads up to this number said of the key is void.
    pub(super) void_to: Option<Call>,
}

/// The deliveries of one key, lane and destination.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) key: KeyRef,
    pub(super) destination: DestinationId,
    /// Deliveries to be handed over, in order.
    pub(super) waiting: BTreeMap<Seq, ItemId>,
    /// Queued rows that are not settled yet, decided or not.
    pub(super) unsettled: BTreeMap<Seq, ItemId>,
    /// Of those, the ones about to be parked here that hold back what comes after them.
    pub(super) parking: BTreeSet<Seq>,
    /// The call that is unanswered.
    pub(super) call: Option<Call>,
    /// What reads up to this number said of the line is void.
    pub(super) void_to: Option<Call>,
    /// When it was probed last, as a count.
    pub(super) probed: u64,
    /// Deliveries in memory that name this line; it must outlive them.
    pub(super) members: usize,
    /// Its place in the queue of its destination.
    ticket: Option<Ticket>,
}

impl Rows {
    /// The line of a key at a destination, made when it is not there.
    pub(super) fn line_of(&mut self, key: &KeyRef, destination: DestinationId) -> LineId {
        let entry = self.keys.entry(key.clone()).or_default();
        if let Some(line) = entry.lines.get(&destination) {
            return *line;
        }
        let line = self.lines.insert(Line {
            key: key.clone(),
            destination,
            waiting: BTreeMap::new(),
            unsettled: BTreeMap::new(),
            parking: BTreeSet::new(),
            call: None,
            void_to: None,
            probed: 0,
            members: 0,
            ticket: None,
        });
        entry.lines.insert(destination, line);
        line
    }

    /// Whether what a read said about a key at a destination cannot be trusted.
    pub(super) fn is_void(&self, key: &KeyRef, destination: DestinationId) -> bool {
        let Some(key) = self.keys.get(key) else {
            return false;
        };
        let line = key.lines.get(&destination).and_then(|line| self.lines.get(*line));
        !key.parking.is_empty()
            || key.void_to.is_some()
            || line.is_some_and(|line| !line.parking.is_empty() || line.void_to.is_some())
    }

    /// Lets a line stand in the queue of its destination exactly while it has something to hand over, which is started,
    /// and nothing unanswered: nobody takes lines from the queue of a closed destination, so one that stayed there
    /// would stay for ever.
    pub(super) fn make_ready(&mut self, id: LineId) {
        let Some(line) = self.lines.get_mut(id) else {
            return;
        };
        let head = line
            .waiting
            .first_key_value()
            .and_then(|(_, id)| self.items.get(*id));
        let ready = line.call.is_none() && head.is_some_and(Item::is_started);
        let queue = (line.destination, line.key.1);
        match (ready, line.ticket) {
            (true, None) => line.ticket = Some(self.ready.push(queue, id)),
            (false, Some(ticket)) => {
                line.ticket = None;
                self.ready.remove(queue, ticket);
            }
            _ => {}
        }
    }

    pub(super) fn has_ready(&self, destination: DestinationId) -> bool {
        !self.ready.is_empty(destination)
    }

    pub(super) fn has_ready_in(&self, destination: DestinationId, lane: Lane) -> bool {
        self.ready.has((destination, lane))
    }

    /// Takes the next line of a lane that can hand something over.
    pub(super) fn pop_ready(&mut self, destination: DestinationId, lane: Lane) -> Option<LineId> {
        let id = self.ready.pop((destination, lane))?;
        self.lines.get_mut(id)?.ticket = None;
        Some(id)
    }

    /// Every line that could hand something over, for choosing a probe.
    pub(super) fn ready_lines(&self, destination: DestinationId) -> Vec<LineId> {
        self.ready.all(destination).collect()
    }

    /// The queued deliveries that wait in a line behind a row, lowest first.
    pub(super) fn waiting_queued(&self, line: LineId) -> Vec<ItemId> {
        let Some(line) = self.lines.get(line) else {
            return Vec::new();
        };
        line.waiting
            .values()
            .copied()
            .filter(|id| self.items.get(*id).is_some_and(Item::is_queued))
            .collect()
    }

    /// The parked rows that wait in a line.
    pub(super) fn waiting_parked(&self, line: LineId) -> Vec<ItemId> {
        let Some(line) = self.lines.get(line) else {
            return Vec::new();
        };
        line.waiting
            .values()
            .copied()
            .filter(|id| self.items.get(*id).is_some_and(|item| !item.is_queued()))
            .collect()
    }

    /// All lines of a key.
    pub(super) fn lines_of(&self, key: &KeyRef) -> Vec<LineId> {
        self.keys
            .get(key)
            .map(|key| key.lines.values().copied().collect())
            .unwrap_or_default()
    }

    /// All lines of keys that are meant.
    pub(super) fn lines_with(&self, is_meant: impl Fn(&OrderKey) -> bool) -> Vec<LineId> {
        let keys = self.keys.iter().filter(|((_, _, key), _)| is_meant(key));
        keys.flat_map(|(_, key)| key.lines.values().copied()).collect()
    }

    /// Rows of a key below a place that are about to be parked without a destination.
    pub(super) fn nowhere_before(&self, key: &KeyRef, seq: Seq) -> impl Iterator<Item = ItemId> + '_ {
        let key = self.keys.get(key);
        key.into_iter().flat_map(move |key| {
            key.parking
                .range(..seq)
                .filter_map(|seq| key.members.get(seq).copied())
        })
    }

    /// The queued rows of a key at or below a place.
    pub(super) fn members_to(&self, key: &KeyRef, seq: Seq) -> Vec<ItemId> {
        let Some(key) = self.keys.get(key) else {
            return Vec::new();
        };
        key.members.range(..=seq).map(|(_, id)| *id).collect()
    }

    /// A read was answered: what was void because of it is void no longer.
    pub(super) fn trust_again(&mut self, read: Call) {
        let over = |void_to: Option<Call>| void_to.is_none_or(|to| to <= read);
        for id in std::mem::take(&mut self.void_lines) {
            match self.lines.get_mut(id) {
                Some(line) if over(line.void_to) => {
                    line.void_to = None;
                    self.tidy_line(id);
                }
                Some(_) => {
                    self.void_lines.insert(id);
                }
                None => {}
            }
        }
        for key in std::mem::take(&mut self.void_keys) {
            match self.keys.get_mut(&key) {
                Some(entry) if over(entry.void_to) => {
                    entry.void_to = None;
                    self.tidy_key(&key);
                }
                Some(_) => {
                    self.void_keys.insert(key);
                }
                None => {}
            }
        }
    }

    /// Drops a line that has nothing left to remember. One with an unanswered call stays: its key is busy.
    pub(super) fn tidy_line(&mut self, id: LineId) {
        let Some(line) = self.lines.get(id) else { return };
        let idle = line.members == 0 && line.call.is_none() && line.void_to.is_none();
        if !idle {
            return;
        }
        if let Some(line) = self.lines.remove(id) {
            if let Some(key) = self.keys.get_mut(&line.key) {
                key.lines.remove(&line.destination);
            }
            self.tidy_key(&line.key);
        }
    }

    pub(super) fn tidy_key(&mut self, key: &KeyRef) {
        if self.keys.get(key).is_some_and(Key::is_idle) {
            self.keys.remove(key);
        }
    }
}

impl Key {
    pub(super) fn is_idle(&self) -> bool {
        self.members.is_empty() && self.lines.is_empty() && self.parking.is_empty() && self.void_to.is_none()
    }
}
