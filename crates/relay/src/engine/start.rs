//! The start of an attempt on a parked row is written to its table before the row is handed over, so that whoever reads
//! it next, after whatever has happened, knows that it may have been sent.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{Park, Then};

use super::item::{Item, ItemId, Origin};
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
        let (seq, lines) = (item.seq, item.deliveries.iter().map(|one| one.line));
        let lines: Vec<_> = lines.collect();
        self.starts.remove(&(seq, id));
        for line in lines {
            self.make_ready(line);
        }
    }
}

impl Engine {
    /// Whether starts are to be written: a relay that hands nothing over starts nothing.
    pub(super) fn has_starts(&self) -> bool {
        !self.rows.starts.is_empty() && self.stop.is_none() && !self.controls.paused
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
    pub(super) fn choose_starts(&self, now: Time, chosen: &BTreeSet<ItemId>, limit: usize) -> Vec<ItemId> {
        if !self.has_starts() {
            return Vec::new();
        }
        let room = limit.saturating_sub(chosen.len());
        let rested = |item: &Item| item.rests_until.map(|until| now >= until);
        let mut starts = Vec::new();
        for (_, id) in &self.rows.starts {
            let Some(item) = self.rows.item(*id).filter(|item| !item.settling) else {
                continue;
            };
            let alone = chosen.is_empty() && starts.is_empty();
            match rested(item) {
                None if starts.len() < room => starts.push(*id),
                // Who has rested goes alone: if it is refused again, nobody else is.
                Some(true) if alone => return vec![*id],
                _ => {}
            }
        }
        starts
    }
}
