//! The ledger checker: what was committed against what arrived.
//!
//! Both sides are written by others than the relay: what was committed comes from the business tables, what arrived
//! from a consumer. The relay's own counters prove nothing about the relay.
//!
//! ```
//! use postrider_testkit::ledger::{Arrived, Committed, Ledger};
//!
//! let mut ledger = Ledger::new();
//! for n in 1..=3 {
//!     ledger.commit(&Committed::new(format!("e{n}"), "order-7", n))?;
//! }
//! for id in ["e1", "e3", "e2", "e2"] {
//!     ledger.arrive(&Arrived::new(id, "order-7", "invoices"));
//! }
//! let report = ledger.report();
//! assert_eq!((report.lost, report.phantom, report.duplicates, report.reordered), (0, 0, 1, 1));
//! # Ok::<(), postrider_testkit::ledger::LedgerError>(())
//! ```

mod lines;
mod report;

use std::collections::{HashMap, HashSet};

use report::Offenders;

pub use lines::{Arrived, Committed, JsonLines, LedgerError};
pub use report::Report;

/// What was committed and what arrived, as compactly as a million events need it.
///
/// Enter everything that was committed first, then what arrived, in the order of arrival.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The number of an event, by its id.
    numbers: HashMap<Box<str>, u32>,
    entries: Vec<Entry>,
    keys: HashMap<Box<str>, u32>,
    /// By destination: how often each event arrived there.
    arrivals: Vec<Vec<u16>>,
    destinations: HashMap<Box<str>, usize>,
    /// Destinations at which every event must arrive.
    expected: Vec<usize>,
    /// The furthest place that has arrived, by key, lane and destination.
    furthest: HashMap<(u32, i8, usize), u64>,
    phantoms: HashSet<Box<str>>,
    consumers: HashMap<Box<str>, usize>,
    /// By consumer: how often each event took effect there.
    effects: Vec<Vec<u16>>,
    arrived: u64,
    redelivered: u64,
    torn: u64,
    reordered: Offenders,
    duplicates: Offenders,
    miskeyed: Offenders,
    duplicate_effects: Offenders,
}

/// One committed event.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u32,
    n: u64,
    lane: i8,
    unordered: bool,
    parked: bool,
}

impl Ledger {
    /// An empty ledger. An event is lost if it arrived nowhere.
    pub fn new() -> Self {
        Self::default()
    }

    /// A ledger in which an event is lost unless it arrived at every one of these destinations.
    pub fn expecting<'a>(destinations: impl IntoIterator<Item = &'a str>) -> Self {
        let mut ledger = Self::new();
        for destination in destinations {
            let number = ledger.destination(destination);
            ledger.expected.push(number);
        }
        ledger
    }

    /// Enters an event that was committed. The same id twice is an error of whoever counts, and refused.
    pub fn commit(&mut self, committed: &Committed) -> Result<(), LedgerError> {
        let number = u32::try_from(self.entries.len()).map_err(|_| LedgerError::TooMany)?;
        if self.numbers.contains_key(committed.id.as_str()) {
            return Err(LedgerError::CommittedTwice(committed.id.clone()));
        }
        let keys = u32::try_from(self.keys.len()).map_err(|_| LedgerError::TooMany)?;
        let key = match self.keys.get(committed.key.as_str()) {
            Some(key) => *key,
            None => *self.keys.entry(committed.key.as_str().into()).or_insert(keys),
        };
        self.numbers.insert(committed.id.as_str().into(), number);
        self.entries.push(Entry {
            key,
            n: committed.n,
            lane: committed.lane,
            unordered: committed.unordered,
            parked: false,
        });
        Ok(())
    }

    /// Notes that an event stands in the parked table, where an operator sees it: it is not lost.
    pub fn parked(&mut self, id: &str) {
        if let Some(number) = self.numbers.get(id) {
            self.entries[*number as usize].parked = true;
        }
    }

    /// Enters an arrival.
    pub fn arrive(&mut self, arrived: &Arrived) {
        self.arrived += 1;
        let Some(number) = self.numbers.get(arrived.id.as_str()).copied() else {
            self.phantoms.insert(arrived.id.as_str().into());
            return;
        };
        let entry = self.entries[number as usize];
        if self.keys.get(arrived.key.as_str()) != Some(&entry.key) {
            self.miskeyed.add(&arrived.id);
        }
        let destination = self.destination(&arrived.destination);
        if count(&mut self.arrivals[destination], number) > 1 {
            // Only first arrivals have an order: a repeated message comes later by its nature.
            match arrived.redelivered {
                true => self.redelivered += 1,
                false => self.duplicates.add(&arrived.id),
            }
            return;
        }
        if entry.unordered {
            return;
        }
        let furthest = self
            .furthest
            .entry((entry.key, entry.lane, destination))
            .or_insert(entry.n);
        if entry.n < *furthest {
            self.reordered.add(&arrived.id);
        }
        *furthest = (*furthest).max(entry.n);
    }

    /// Enters that a consumer's handler took effect for an event. An effect of an event that was never committed is a
    /// phantom.
    pub fn effect(&mut self, consumer: &str, id: &str) {
        let Some(number) = self.numbers.get(id).copied() else {
            self.phantoms.insert(id.into());
            return;
        };
        let consumer = number_of(&mut self.consumers, &mut self.effects, consumer);
        if count(&mut self.effects[consumer], number) > 1 {
            self.duplicate_effects.add(id);
        }
    }

    /// Settles the account.
    pub fn report(&self) -> Report {
        let mut lost = Offenders::default();
        for (id, number) in &self.numbers {
            if !self.entries[*number as usize].parked && !self.has_arrived(*number) {
                lost.add(id);
            }
        }
        let mut phantom = Offenders::default();
        self.phantoms.iter().for_each(|id| phantom.add(id));
        Report::new(
            self.entries.len() as u64,
            self.arrived,
            self.redelivered,
            self.torn,
            [
                ("lost", &lost),
                ("phantom", &phantom),
                ("reordered", &self.reordered),
                ("duplicate_effects", &self.duplicate_effects),
                ("miskeyed", &self.miskeyed),
                ("duplicates", &self.duplicates),
            ],
        )
    }

    fn has_arrived(&self, number: u32) -> bool {
        let at = |destination: usize| {
            let count = self.arrivals[destination].get(number as usize);
            count.is_some_and(|count| *count > 0)
        };
        match self.expected.is_empty() {
            true => (0..self.arrivals.len()).any(at),
            false => self.expected.iter().all(|destination| at(*destination)),
        }
    }

    fn destination(&mut self, name: &str) -> usize {
        number_of(&mut self.destinations, &mut self.arrivals, name)
    }
}

/// The number of a name, with room for its counts.
fn number_of(names: &mut HashMap<Box<str>, usize>, counts: &mut Vec<Vec<u16>>, name: &str) -> usize {
    if let Some(number) = names.get(name) {
        return *number;
    }
    let number = counts.len();
    names.insert(name.into(), number);
    counts.push(Vec::new());
    number
}

/// Counts one more for an event, and tells how often that was.
fn count(counts: &mut Vec<u16>, number: u32) -> u16 {
    let index = number as usize;
    if counts.len() <= index {
        counts.resize(index + 1, 0);
    }
    counts[index] = counts[index].saturating_add(1);
    counts[index]
}

#[cfg(test)]
mod tests;
