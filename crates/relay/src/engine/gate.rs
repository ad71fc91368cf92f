//! What must hold before a line may hand something over, and what is done about lines that may not for long.

use std::collections::BTreeSet;

use postrider_core::{DestinationId, Lane, OrderKey};

use super::circuit::Circuit;
use super::item::{Delivery, Item, ItemId, State};
use super::line::LineId;
use super::rows::lane_index;
use super::{Engine, Plant, Time};

impl Engine {
    /// Whether the head of a line may leave now; drops parked rows from memory that are not heads any more, or that
    /// people may have changed since they were read.
    pub(super) fn may_send(&mut self, now: Time, id: LineId) -> bool {
        self.drop_overtaken(id);
        self.drop_stale(now, id);
        self.line_may_send(id)
    }

    /// Whether the shard of a line is being served, and served without special care or with its care taken.
    pub(super) fn line_may_send(&self, id: LineId) -> bool {
        let Some(line) = self.rows.line(id) else {
            return false;
        };
        let Some((seq, _)) = line.waiting.first_key_value() else {
            return false;
        };
        self.leases.may_send(line.key.0, *seq)
    }

    /// A queued row about to be parked stands before parked rows of its line that were read earlier: they are not the
    /// head any more, so they are forgotten and read again when their turn comes.
    fn drop_overtaken(&mut self, id: LineId) {
        let Some(line) = self.rows.line(id) else { return };
        let Some(first) = line.parking.first().copied() else {
            return;
        };
        for item in self.rows.waiting_parked(id) {
            if self.rows.item(item).is_some_and(|item| item.seq > first) {
                self.put_back(item);
            }
        }
    }

    /// What waited in memory for longer than a renewal, behind a pause, a limit or a closed circuit, may have been
    /// discarded, edited or taken back since. It is read again before it leaves, so that what people were told is true
    /// within a moment. Those behind a head were read with it.
    pub(super) fn drop_stale(&mut self, now: Time, id: LineId) {
        let line = self.rows.line(id);
        let head = line.and_then(|line| line.waiting.values().next());
        let head = head.and_then(|id| self.rows.item(*id));
        let is_stale = |item: &Item| !item.is_queued() && now - item.read_at > self.settings.lease / 3;
        if head.is_some_and(is_stale) && !self.planted(Plant::StaleTrusted) {
            self.forget_parked(id);
            self.read_soon(now);
        }
    }

    /// One closed destination of several must not fill the window: once its rows exceed their share they are parked,
    /// uncharged. One that is limited, by rate or by what is in flight, counts as closed while it is at its limit.
    /// Where all are closed the reading stops, and only what has arrived at one of them is parked for the others.
    pub(super) fn hold_back(&mut self, now: Time) {
        let closed =
            |circuit: &Circuit| circuit.is_open() || circuit.is_shut(now) || circuit.is_at_limit(now);
        if self.circuits.len() < 2 {
            return;
        }
        let all = self.circuits.iter().all(&closed);
        for index in 0..self.circuits.len() {
            let destination = DestinationId(index);
            let lasts = self.circuits[index].lasts();
            if !closed(&self.circuits[index]) || (all && !lasts) {
                continue;
            }
            let pending = self.rows.pending_at(destination);
            let over = Lane::ALL.map(|lane| !all && pending.queued(lane) > self.share(lane));
            for line in self.rows.ready_lines(destination) {
                let lane = self.rows.line(line).map_or(Lane::Normal, |line| line.key.1);
                if over[lane_index(lane)] || self.waits_half_decided(line, lasts) {
                    self.park_waiting(line);
                }
            }
        }
    }

    /// How many rows of a lane one destination may keep waiting in memory: all closed ones together less than half.
    fn share(&self, lane: Lane) -> usize {
        self.lane_cap(lane) / (2 * self.circuits.len().max(1))
    }

    /// Whether an event that waits in a line was refused elsewhere, or has arrived elsewhere and waits for long: that
    /// must be written down, so that people see it and it is tried again or not repeated, and must not wait for the
    /// line's destination.
    fn waits_half_decided(&self, line: LineId, for_long: bool) -> bool {
        let failed = |item: &Item| {
            let failure = |one: &Delivery| matches!(&one.state, State::Park(park) if park.failure.is_some());
            item.is_queued() && (item.deliveries.iter().any(failure) || (for_long && item.is_half_sent()))
        };
        let line = self.rows.line(line);
        line.is_some_and(|line| {
            line.waiting
                .values()
                .filter_map(|id| self.rows.item(*id))
                .any(failed)
        })
    }

    /// A destination whose every row is parked is probed with one of them: it must be read for that.
    pub(super) fn probe_parked(&mut self, now: Time) {
        for index in 0..self.circuits.len() {
            if !self.rows.has_ready(DestinationId(index)) && self.circuits[index].wants_probe(now) {
                self.read_soon(now);
            }
        }
    }

    /// What is in memory of keys that are paused joins what is held back in the tables.
    pub(super) fn hold_keys(&mut self, paused: &[OrderKey]) {
        if paused.is_empty() || self.planted(Plant::PauseKeyInHand) {
            return;
        }
        let paused: BTreeSet<&OrderKey> = paused.iter().collect();
        for line in self.rows.lines_with(|key| paused.contains(key)) {
            self.park_waiting(line);
            self.forget_parked(line);
        }
    }

    /// What is started and does not leave now is read again when it can: until then people may decide otherwise.
    pub(super) fn forget_started(&mut self, destination: DestinationId) {
        for line in self.rows.ready_lines(destination) {
            self.forget_parked(line);
        }
    }

    /// The parked rows that wait in a line are forgotten: they stay in the table and are read again when they are due.
    pub(super) fn forget_parked(&mut self, line: LineId) {
        for id in self.rows.waiting_parked(line) {
            self.put_back(id);
        }
    }

    /// A parked row goes back to its table, which says already whether it may have been sent.
    pub(super) fn put_back(&mut self, id: ItemId) {
        if self.rows.item(id).is_some_and(|item| !item.is_queued()) {
            self.rows.remove(id, None);
        }
    }
}
