//! Lines by example, and then whatever happens to them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn key(name: &str) -> Option<OrderKey> {
    Some(OrderKey::new(name))
}

fn desk(items: &[(&str, u32)]) -> Desk<u32> {
    let mut desk = Desk::new(100);
    for (name, item) in items {
        desk.put(key(name), *item, false);
    }
    desk
}

fn items(taken: &[(Slot, u32)]) -> Vec<u32> {
    taken.iter().map(|(_, item)| *item).collect()
}

#[test]
fn keys_run_together_and_each_in_its_order() {
    let mut desk = desk(&[("a", 1), ("b", 2), ("a", 3), ("c", 4)]);
    let first = desk.take(3);
    assert_eq!(items(&first), [1, 3, 2]);
    assert_eq!(items(&desk.take(3)), [4]);
    desk.put(key("a"), 5, false);
    assert!(desk.take(3).is_empty(), "something of its key runs");
    desk.done(first[0].0);
    assert!(desk.take(3).is_empty(), "something of its key still runs");
    desk.done(first[1].0);
    assert_eq!(items(&desk.take(3)), [5]);
}

#[test]
fn one_that_waits_holds_back_its_key_and_no_other() {
    let mut desk = desk(&[("a", 1), ("a", 2), ("b", 3)]);
    let taken = desk.take(1);
    desk.back(taken[0].0, 1, true, Some(SECOND));
    assert_eq!(items(&desk.take(9)), [3]);
    assert_eq!(desk.due(), Some(SECOND));
    desk.tick(SECOND / 2);
    assert!(desk.take(9).is_empty());
    desk.tick(SECOND);
    assert_eq!(items(&desk.take(9)), [1], "alone, and before its follower");
    assert_eq!(desk.due(), None);
}

#[test]
fn without_a_key_nobody_waits() {
    let mut desk = Desk::new(3);
    desk.put(None, 1, false);
    desk.put(None, 2, false);
    let taken = desk.take(1);
    assert_eq!(items(&taken), [1]);
    assert_eq!(items(&desk.take(1)), [2]);
    assert_eq!((desk.room(), desk.len(), desk.resting()), (1, 2, 0));
}

#[test]
fn what_is_forgotten_while_it_runs_does_not_come_back() {
    let mut desk = desk(&[("a", 1), ("a", 2), ("b", 3)]);
    let taken = desk.take(1);
    desk.forget();
    // The same events come again from another connection, while the first copy still runs.
    desk.put(key("a"), 11, false);
    assert!(desk.take(9).is_empty());
    desk.back(taken[0].0, 1, false, None);
    assert_eq!(items(&desk.take(9)), [11]);
    assert_eq!(desk.len(), 1);
}

#[test]
fn it_is_stuck_when_everything_waits_for_a_time() {
    let mut desk = Desk::new(2);
    desk.put(key("a"), 1, false);
    desk.put(key("a"), 2, false);
    let taken = desk.take(1);
    assert!(!desk.is_stuck(), "one runs");
    desk.back(taken[0].0, 1, true, Some(SECOND));
    assert!(desk.is_stuck());
    desk.tick(SECOND);
    assert!(!desk.is_stuck());
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Put(Option<u8>, bool),
    Take(usize),
    /// Everything of one batch is done.
    Done(usize),
    /// Nothing of it is: each is to run alone.
    Singly(usize),
    /// The first of it waits, the others come back.
    Wait(usize, u64),
    Tick(u64),
    Forget,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (proptest::option::weighted(0.8, 0..4u8), proptest::bool::weighted(0.1))
            .prop_map(|(key, alone)| Op::Put(key, alone)),
        4 => (1..5usize).prop_map(Op::Take),
        3 => (0..4usize).prop_map(Op::Done),
        1 => (0..4usize).prop_map(Op::Singly),
        1 => (0..4usize, 0..20u64).prop_map(|(at, by)| Op::Wait(at, by)),
        2 => (0..20u64).prop_map(Op::Tick),
        1 => Just(Op::Forget),
    ]
}

/// What was put down, as an outsider remembers it.
#[derive(Default)]
struct Seen {
    keys: BTreeMap<u32, Option<u8>>,
    alone: BTreeSet<u32>,
    until: BTreeMap<u32, u64>,
    forgotten: BTreeSet<u32>,
    done: Vec<u32>,
}

struct Play {
    desk: Desk<u32>,
    seen: Seen,
    batches: Vec<Vec<(Slot, u32)>>,
    now: u64,
    next: u32,
}

impl Play {
    fn step(&mut self, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Put(..) if self.desk.room() == 0 => {}
            Op::Put(key, alone) => {
                self.next += 1;
                self.seen.keys.insert(self.next, key);
                if alone {
                    self.seen.alone.insert(self.next);
                }
                let key = key.map(|key| OrderKey::new(format!("{key}")));
                self.desk.put(key, self.next, alone);
            }
            Op::Take(max) => {
                let batch = self.desk.take(max);
                self.check(&batch, max)?;
                if !batch.is_empty() {
                    self.batches.push(batch);
                }
            }
            Op::Done(at) if at < self.batches.len() => {
                for (slot, item) in self.batches.remove(at) {
                    self.seen.done.push(item);
                    self.desk.done(slot);
                }
            }
            Op::Singly(at) if at < self.batches.len() => {
                for (slot, item) in self.batches.remove(at) {
                    self.seen.alone.insert(item);
                    self.desk.back(slot, item, true, None);
                }
            }
            Op::Wait(at, by) if at < self.batches.len() => {
                for (n, (slot, item)) in self.batches.remove(at).into_iter().enumerate() {
                    let until = (n == 0).then_some(self.now + by);
                    self.seen.until.extend(until.map(|until| (item, until)));
                    let alone = self.seen.alone.contains(&item);
                    self.desk
                        .back(slot, item, alone, until.map(Duration::from_millis));
                }
            }
            Op::Tick(by) => {
                self.now += by;
                self.desk.tick(Duration::from_millis(self.now));
            }
            Op::Forget => {
                self.desk.forget();
                self.seen.forgotten = self.seen.keys.keys().copied().collect();
            }
            Op::Done(_) | Op::Singly(_) | Op::Wait(..) => {}
        }
        let running: usize = self.batches.iter().map(Vec::len).sum();
        prop_assert_eq!(self.desk.resting(), self.desk.len() - running);
        Ok(())
    }

    fn check(&self, batch: &[(Slot, u32)], max: usize) -> Result<(), TestCaseError> {
        prop_assert!(batch.len() <= max);
        let seen = &self.seen;
        for (at, (_, item)) in batch.iter().enumerate() {
            prop_assert!(!seen.done.contains(item) && !seen.forgotten.contains(item));
            prop_assert!(batch.len() == 1 || !seen.alone.contains(item));
            prop_assert!(seen.until.get(item).is_none_or(|until| *until <= self.now));
            let Some(key) = seen.keys[item] else { continue };
            let running = self.batches.iter().flatten();
            for (_, other) in running {
                prop_assert_ne!(seen.keys[other], Some(key), "two batches hold one key");
            }
            let before = seen.keys.range(..item).filter(|(_, other)| **other == Some(key));
            for (earlier, _) in before {
                let settled = seen.done.contains(earlier) || seen.forgotten.contains(earlier);
                let with_it = batch[..at].iter().any(|(_, other)| other == earlier);
                prop_assert!(settled || with_it, "{} passed {}", item, earlier);
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn no_key_is_out_of_order_and_nothing_is_left_behind(ops in proptest::collection::vec(op(), 0..120)) {
        let mut play = Play {
            desk: Desk::new(8),
            seen: Seen::default(),
            batches: Vec::new(),
            now: 0,
            next: 0,
        };
        for op in ops {
            play.step(op)?;
        }
        // Whatever happened, everything that was not forgotten comes to its end.
        for _ in 0..20 {
            play.step(Op::Tick(20))?;
            play.step(Op::Take(4))?;
            while !play.batches.is_empty() {
                play.step(Op::Done(0))?;
            }
        }
        prop_assert_eq!(play.desk.len(), 0);
        for item in play.seen.keys.keys() {
            prop_assert!(play.seen.done.contains(item) || play.seen.forgotten.contains(item));
        }
        prop_assert!(play.desk.lines.is_empty() && play.desk.due().is_none());
    }
}
