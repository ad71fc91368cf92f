//! What is held and not settled: lines of keys, who may run now, and who waits until when.
//!
//! No clock and no I/O: times are given by the caller.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use postrider_core::OrderKey;

/// Names something that is held, in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(u64);

/// Everything that is held, in its lines.
#[derive(Debug)]
pub(crate) struct Desk<T> {
    capacity: usize,
    held: BTreeMap<Slot, Held<T>>,
    lines: HashMap<OrderKey, Line>,
    /// Those that may run now: each is the first of its line, of which nothing runs.
    ready: BTreeSet<Slot>,
    /// Those that would be ready if it were not too early.
    waiting: BTreeSet<(Duration, Slot)>,
    running: usize,
    next: u64,
}

#[derive(Debug)]
struct Held<T> {
    key: Option<OrderKey>,
    /// None while it runs.
    item: Option<T>,
    /// It runs in no company: it may be the one that makes others fail.
    alone: bool,
    until: Option<Duration>,
    /// Its delivery is void: when it has run, it is gone.
    forgotten: bool,
}

#[derive(Debug, Default)]
struct Line {
    slots: VecDeque<Slot>,
    running: usize,
}

impl<T> Desk<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            held: BTreeMap::new(),
            lines: HashMap::new(),
            ready: BTreeSet::new(),
            waiting: BTreeSet::new(),
            running: 0,
            next: 0,
        }
    }

    /// How many more may be put down.
    pub(crate) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.held.len())
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// How many of them do not run.
    pub(crate) fn resting(&self) -> usize {
        self.held.len() - self.running
    }

    /// Puts one down at the end of its line. One without a key waits for nobody.
    pub(crate) fn put(&mut self, key: Option<OrderKey>, item: T, alone: bool) -> Slot {
        let slot = Slot(self.next);
        self.next += 1;
        if let Some(key) = &key {
            self.lines.entry(key.clone()).or_default().slots.push_back(slot);
        }
        let held = Held {
            key: key.clone(),
            item: Some(item),
            alone,
            until: None,
            forgotten: false,
        };
        self.held.insert(slot, held);
        self.look_at(slot, key.as_ref());
        slot
    }

    /// Takes the next to run together: at most `max`, the oldest first, and of one key in the order of arrival. A key
    /// of which something runs gives nothing more until it is given back or done.
    pub(crate) fn take(&mut self, max: usize) -> Vec<(Slot, T)> {
        let mut taken = Vec::new();
        while let Some(&head) = self.ready.first() {
            let alone = self.held.get(&head).is_some_and(|held| held.alone);
            if taken.len() >= max || (alone && !taken.is_empty()) {
                break;
            }
            self.ready.remove(&head);
            self.take_line(head, max, &mut taken);
            if alone {
                break;
            }
        }
        taken
    }

    /// It is settled, or nobody waits for it any more.
    pub(crate) fn done(&mut self, slot: Slot) {
        self.end_of_run(slot);
        self.remove(slot);
    }

    /// It ran and takes its place in its line again: from now on without company if it is to run alone, and not before
    /// a time if there is one. False when it was forgotten: it is gone.
    pub(crate) fn back(&mut self, slot: Slot, item: T, alone: bool, until: Option<Duration>) -> bool {
        self.end_of_run(slot);
        let Some(held) = self.held.get_mut(&slot) else {
            return false;
        };
        if held.forgotten {
            self.remove(slot);
            return false;
        }
        held.item = Some(item);
        held.alone |= alone;
        held.until = until;
        let key = held.key.clone();
        self.look_at(slot, key.as_ref());
        true
    }

    /// Has those run whose time has come.
    pub(crate) fn tick(&mut self, now: Duration) {
        while let Some(&(until, slot)) = self.waiting.first() {
            if until > now {
                break;
            }
            self.waiting.pop_first();
            if let Some(held) = self.held.get_mut(&slot) {
                held.until = None;
                self.ready.insert(slot);
            }
        }
    }

    /// When the next one is to run that waits now.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.waiting.first().map(|(until, _)| *until)
    }

    /// Whether there is no room and nothing that could run before a time comes.
    pub(crate) fn is_stuck(&self) -> bool {
        self.room() == 0 && self.running == 0 && self.ready.is_empty()
    }

    /// Drops what does not run; what runs is dropped when it comes back.
    pub(crate) fn forget(&mut self) {
        self.held.retain(|_, held| {
            held.forgotten = true;
            held.item.is_none()
        });
        self.ready.clear();
        self.waiting.clear();
        let held = &self.held;
        self.lines.retain(|_, line| {
            line.slots.retain(|slot| held.contains_key(slot));
            !line.slots.is_empty()
        });
    }

    /// Takes the first of a line and those that follow it directly.
    fn take_line(&mut self, head: Slot, max: usize, taken: &mut Vec<(Slot, T)>) {
        let key = self.held.get(&head).and_then(|held| held.key.clone());
        let mut line = key.and_then(|key| self.lines.get_mut(&key));
        let mut at = 0;
        loop {
            let slot = line
                .as_ref()
                .map_or(Some(head), |line| line.slots.get(at).copied());
            let Some((slot, held)) = slot.and_then(|slot| Some((slot, self.held.get_mut(&slot)?))) else {
                break;
            };
            if at > 0 && (held.alone || held.until.is_some() || taken.len() >= max) {
                break;
            }
            let Some(item) = held.item.take() else { break };
            let alone = held.alone;
            taken.push((slot, item));
            self.running += 1;
            at += 1;
            match &mut line {
                Some(line) => line.running += 1,
                None => break,
            }
            if alone {
                break;
            }
        }
    }

    fn end_of_run(&mut self, slot: Slot) {
        let Some(held) = self.held.get(&slot).filter(|held| held.item.is_none()) else {
            return;
        };
        self.running -= 1;
        let line = held.key.as_ref().and_then(|key| self.lines.get_mut(key));
        if let Some(line) = line {
            line.running -= 1;
        }
    }

    fn remove(&mut self, slot: Slot) {
        let Some(held) = self.held.remove(&slot) else {
            return;
        };
        let Some(key) = held.key else { return };
        let Some(line) = self.lines.get_mut(&key) else {
            return;
        };
        match line.slots.front() {
            Some(front) if *front == slot => {
                line.slots.pop_front();
            }
            _ => line.slots.retain(|other| *other != slot),
        }
        match line.slots.front().copied() {
            Some(front) => self.look_at(front, Some(&key)),
            None => {
                self.lines.remove(&key);
            }
        }
    }

    /// Makes the first of this line ready, or has it wait, unless something of the line runs.
    fn look_at(&mut self, slot: Slot, key: Option<&OrderKey>) {
        let first = match key.and_then(|key| self.lines.get(key)) {
            Some(line) if line.running > 0 => return,
            Some(line) => line.slots.front().copied().unwrap_or(slot),
            None => slot,
        };
        match self.held.get(&first) {
            Some(Held { item: None, .. }) | None => {}
            Some(Held {
                until: Some(until), ..
            }) => {
                self.waiting.insert((*until, first));
            }
            Some(_) => {
                self.ready.insert(first);
            }
        }
    }
}

#[cfg(test)]
mod tests;
