//! The start of an attempt on a parked row is written to its table before the row is handed over, so that whoever reads
//! it next, after whatever has happened, knows that it may have been sent.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{DestinationId, Park, Then};

use super::item::{Delivery, Item, ItemId, Origin};
use super::line::{Line, LineId};
use super::places::Places;
use super::rows::Rows;
use super::{Engine, Time};

impl Item {
    /// Whether it may be handed over: a queued row always, a parked one once its table says that it may have been sent.
    pub(super) fn is_started(&self) -> bool {
        match &self.origin {
            Origin::Queued => true,
            Origin::Parked(parked) => parked.maybe_sent,
        }
    }

    /// What is written before it is handed over. An answer that says that it was not sent takes it back.
    pub(super) fn start(&self) -> Option<Then> {
        let Origin::Parked(parked) = &self.origin else {
            return None;
        };
        Some(Then::Again(Park {
            destination: parked.destination.clone(),
            dead: false,
            next_attempt_in: Duration::ZERO,
            available_at: None,
            attempts: parked.attempts,
            failures: parked.failures,
            maybe_sent: true,
            failure: None,
        }))
    }
}

impl Rows {
    /// The table says that a row may have been sent: it has another version, and its line goes on.
    pub(super) fn started(&mut self, id: ItemId) {
        let Some(item) = self.items.get_mut(id) else {
            return;
        };
        item.settling = false;
        item.rests_until = None;
        if let Origin::Parked(parked) = &mut item.origin {
            parked.version += 1;
            parked.maybe_sent = true;
        }
        let lines: Vec<_> = item.deliveries.iter().map(|one| one.line).collect();
        self.strike_start(id);
        for line in lines {
            self.make_ready(line);
        }
    }
}

impl Engine {
    /// Whether starts are to be written: a relay that hands nothing over starts nothing.
    pub(super) fn has_starts(&self) -> bool {
        let serves = !self.rows.starts.is_empty() && self.stop.is_none() && !self.controls.paused;
        serves && (0..self.circuits.len()).any(|index| self.startable_at(index) > 0)
    }

    /// How many rows for a destination may be started now. Where not everything leaves at once, no more than are about
    /// to: what is started says that it may have been sent, and whoever discards or edits it then comes too late.
    fn startable_at(&self, index: usize) -> usize {
        let destination = DestinationId(index);
        let unstarted = self.rows.unstarted_at(destination);
        match self.circuits[index].start_room() {
            _ if unstarted == 0 => 0,
            None => unstarted,
            Some(room) => {
                let leaving = self.rows.ready_lines(destination).into_iter();
                let leaving = leaving.filter(|line| self.is_parked_at_its_head(*line)).count();
                unstarted.min(room.saturating_sub(leaving))
            }
        }
    }

    fn is_parked_at_its_head(&self, line: LineId) -> bool {
        let head = self.rows.line(line).and_then(|line| line.waiting.values().next());
        head.and_then(|id| self.rows.item(*id))
            .is_some_and(|item| !item.is_queued())
    }

    /// Whether a row may be started that leaves in its turn only: nothing of its line is on its way.
    fn is_next(&self, delivery: &Delivery) -> bool {
        let bounded = self.circuits[delivery.destination.0].start_room().is_some();
        let line = self.rows.line(delivery.line);
        let is_on_its_way = |line: &Line| {
            let head = line.waiting.values().next().and_then(|id| self.rows.item(*id));
            line.call.is_some() || head.is_some_and(Item::is_started)
        };
        !(bounded && line.is_some_and(is_on_its_way))
    }

    /// A person was first, or an earlier copy of the settle: the row is read again, and those behind it with it,
    /// because it may still stand before them.
    pub(super) fn start_refused(&mut self, now: Time, id: ItemId) {
        let lines = self
            .rows
            .item(id)
            .map(|item| item.deliveries.iter().map(|one| one.line));
        for line in lines.map(Vec::from_iter).unwrap_or_default() {
            self.forget_parked(line);
        }
        self.put_back(id);
        self.read_soon(now);
    }

    /// Rows whose start goes with the next settle, after what was chosen for it already.
    pub(super) fn choose_starts(
        &self,
        now: Time,
        chosen: &BTreeSet<ItemId>,
        places: &Places,
        limit: usize,
    ) -> Vec<ItemId> {
        if !self.has_starts() {
            return Vec::new();
        }
        let room = limit.saturating_sub(chosen.len());
        let mut room_at: Vec<usize> = (0..self.circuits.len()).map(|at| self.startable_at(at)).collect();
        let rested = |item: &Item| item.rests_until.map(|until| now >= until);
        let mut starts = Vec::new();
        // One that is started behind another that is not would keep its room without leaving.
        let mut held = BTreeSet::new();
        for (_, id) in &self.rows.starts {
            let Some(item) = self.rows.item(*id) else { continue };
            let Some(delivery) = item.deliveries.first() else {
                continue;
            };
            let alone = chosen.is_empty() && starts.is_empty();
            let has_room = room_at[delivery.destination.0] > 0
                && !held.contains(&delivery.line)
                && !places.is_anew(item)
                && self.is_next(delivery);
            match rested(item) {
                None if starts.len() < room && has_room && !item.settling => {
                    room_at[delivery.destination.0] -= 1;
                    starts.push(*id);
                }
                // Who has rested goes alone: if it is refused again, nobody else is.
                Some(true) if alone && has_room && !item.settling => return vec![*id],
                _ => {
                    held.insert(delivery.line);
                }
            }
        }
        starts
    }
}
