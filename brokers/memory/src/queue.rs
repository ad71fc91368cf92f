//! The messages themselves, and who has them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use postrider_core::{Incoming, Message, OrderKey, Verdict};
use tokio::sync::Notify;

use crate::script::Script;

/// What all handles of one broker share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Rung at every change that somebody may wait for.
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) script: Script,
    pub(crate) queue: Queue,
}

impl Shared {
    pub(crate) fn bounded(capacity: usize) -> Self {
        let queue = Queue {
            capacity: Some(capacity),
            ..Queue::default()
        };
        Self {
            state: Mutex::new(State {
                queue,
                ..State::default()
            }),
            changed: Notify::new(),
        }
    }

    /// A test that panics while it holds the lock must not make every other assertion panic too.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Messages in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// None: everything is kept, also what consumers are done with.
    capacity: Option<usize>,
    entries: BTreeMap<u64, Entry>,
    /// Entries that can be delivered.
    ready: BTreeSet<u64>,
    /// Deliveries that are not settled: the entry and the consumer, by tag.
    delivered: BTreeMap<u64, (u64, ConsumerId)>,
    /// Which consumer has unsettled messages of a key, and how many.
    holders: HashMap<OrderKey, (ConsumerId, usize)>,
    rejected: Vec<Message>,
    /// Messages taken since the last clearing.
    published: usize,
    next_entry: u64,
    next_tag: u64,
    next_consumer: u64,
}

#[derive(Debug)]
struct Entry {
    message: Message,
    deliveries: u32,
}

/// Tells the consumers of a queue apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConsumerId(u64);

impl Queue {
    pub(crate) fn is_full(&self) -> bool {
        self.capacity
            .is_some_and(|capacity| self.entries.len() >= capacity)
    }

    /// Takes a message and says which one it is, from 1.
    pub(crate) fn push(&mut self, message: Message) -> u64 {
        self.next_entry += 1;
        self.published += 1;
        let entry = Entry {
            message,
            deliveries: 0,
        };
        self.entries.insert(self.next_entry, entry);
        self.ready.insert(self.next_entry);
        self.next_entry
    }

    pub(crate) fn messages(&self) -> Vec<Message> {
        self.entries.values().map(|entry| entry.message.clone()).collect()
    }

    pub(crate) fn rejected(&self) -> Vec<Message> {
        self.rejected.clone()
    }

    pub(crate) fn published(&self) -> usize {
        self.published
    }

    /// Forgets all messages; what is out for delivery is forgotten too.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.ready.clear();
        self.delivered.clear();
        self.holders.clear();
        self.rejected.clear();
        self.published = 0;
    }

    pub(crate) fn consumer(&mut self) -> ConsumerId {
        self.next_consumer += 1;
        ConsumerId(self.next_consumer)
    }

    /// Delivers at most `max` messages, the oldest first. A key of which another consumer has something unsettled is
    /// passed over, so that several consumers keep each key in order.
    pub(crate) fn deliver(&mut self, consumer: ConsumerId, max: usize) -> Vec<Incoming> {
        let mut chosen = Vec::new();
        for &at in &self.ready {
            if chosen.len() == max {
                break;
            }
            let Some(entry) = self.entries.get_mut(&at) else {
                continue;
            };
            let key = &entry.message.order_key;
            let holder = self.holders.entry(key.clone()).or_insert((consumer, 0));
            if holder.0 != consumer {
                continue;
            }
            holder.1 += 1;
            self.next_tag += 1;
            self.delivered.insert(self.next_tag, (at, consumer));
            chosen.push((
                at,
                Incoming {
                    message: entry.message.clone(),
                    tag: self.next_tag,
                    redelivered: entry.deliveries,
                },
            ));
            entry.deliveries = entry.deliveries.saturating_add(1);
        }
        for (at, _) in &chosen {
            self.ready.remove(at);
        }
        chosen.into_iter().map(|(_, incoming)| incoming).collect()
    }

    /// Settles one delivery; a tag that is not this consumer's is ignored.
    pub(crate) fn settle(&mut self, consumer: ConsumerId, tag: u64, verdict: Verdict) {
        let at = match self.delivered.get(&tag) {
            Some(&(at, owner)) if owner == consumer => at,
            _ => return,
        };
        self.delivered.remove(&tag);
        let Some(entry) = self.entries.get(&at) else {
            return;
        };
        if let Some(holder) = self.holders.get_mut(&entry.message.order_key) {
            holder.1 = holder.1.saturating_sub(1);
            if holder.1 == 0 {
                self.holders.remove(&entry.message.order_key);
            }
        }
        match verdict {
            Verdict::Again => {
                // At its old place, so that its key stays in order.
                self.ready.insert(at);
                return;
            }
            Verdict::Reject => self.rejected.push(entry.message.clone()),
            Verdict::Done => {}
        }
        if self.capacity.is_some() {
            self.entries.remove(&at);
        }
    }

    /// Takes back everything that a consumer has not settled.
    pub(crate) fn release(&mut self, consumer: ConsumerId) {
        let tags: Vec<u64> = self
            .delivered
            .iter()
            .filter(|(_, (_, owner))| *owner == consumer)
            .map(|(tag, _)| *tag)
            .collect();
        for tag in tags {
            self.settle(consumer, tag, Verdict::Again);
        }
    }
}
