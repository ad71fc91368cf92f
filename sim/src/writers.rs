//! The services: transactions that take turns on a key and overlap otherwise, some of which roll back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use postrider_core::{ErrorKind, Event, EventId, Failure, Lane, Payload, Timestamp};
use postrider_testkit::model::{NewRow, TxId};

use crate::faults::Fault;
use crate::plan::{Knob, Plan};
use crate::world::{Next, World};

/// What the checker knows of an event that was inserted.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) key: String,
    pub(crate) lane: postrider_core::Lane,
    pub(crate) kind: char,
    pub(crate) seq: postrider_core::Seq,
    pub(crate) inserted: Duration,
    pub(crate) committed: Option<Duration>,
    pub(crate) scheduled: bool,
    /// When a scheduled one is to leave.
    pub(crate) not_before: Option<Duration>,
    pub(crate) bad: bool,
    /// The address template of `second` finds no value.
    pub(crate) no_tenant: bool,
}

impl Written {
    /// Where it is owed by the first configuration.
    pub(crate) fn obligations(&self) -> &'static [&'static str] {
        match self.kind {
            'A' => &["first"],
            'B' => &["first", "second"],
            'C' => &["second"],
            'E' => &["third"],
            _ => &[],
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Writers {
    open: BTreeMap<usize, Open>,
    locked: BTreeSet<String>,
    pub(crate) events: BTreeMap<EventId, Written>,
    /// Events of a key, in the order they were inserted.
    pub(crate) by_key: BTreeMap<String, Vec<EventId>>,
    /// Ids that another event was inserted under.
    pub(crate) reused: BTreeSet<EventId>,
    /// Ids that were inserted again, with the same event or another.
    pub(crate) repeated: BTreeSet<EventId>,
    next: u64,
    killers: BTreeSet<String>,
}

#[derive(Debug)]
struct Open {
    tx: TxId,
    keys: Vec<String>,
    events: Vec<EventId>,
    rolls_back: bool,
}

impl Writers {
    pub(crate) fn new(_plan: &Plan) -> Self {
        Self::default()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether an event ends any process that tries to publish it.
    pub(crate) fn kills_process(&self, event: &str) -> bool {
        self.killers.contains(event)
    }
}

impl World {
    /// A writer begins a transaction, inserts, and will commit later.
    pub(crate) fn write(&mut self, writer: usize) {
        if self.calm || self.writers.next >= self.plan.events {
            return;
        }
        let number = self.rng.below(self.plan.keys);
        let key = match self.plan.key_each {
            true => format!("own{}", self.writers.next),
            false => format!("k{number}"),
        };
        if self.writers.locked.contains(&key) {
            // Another writer has the row lock: it is this one's turn later.
            let after = self.rng.millis(1, 50);
            self.schedule(after, Next::Write(writer));
            return;
        }
        let tx = self.db.model.begin();
        let mut events = Vec::new();
        for _ in 0..self.rng.between(1, 3) {
            if let Some(id) = self.insert(tx, &key) {
                events.push(id);
            }
        }
        self.writers.locked.insert(key.clone());
        let rolls_back = self.strikes(Knob::Rollback, Fault::Rollback);
        let late = self.strikes(Knob::LateCommit, Fault::LateCommit);
        let open = if late {
            self.rng.millis(5, 800)
        } else {
            self.rng.millis(0, 2)
        };
        self.writers.open.insert(
            writer,
            Open {
                tx,
                keys: vec![key],
                events,
                rolls_back,
            },
        );
        self.schedule(open, Next::Commit(writer));
    }

    fn insert(&mut self, tx: TxId, key: &str) -> Option<EventId> {
        if self.strikes(Knob::DuplicateId, Fault::DuplicateId) {
            self.insert_again(tx, true);
            return None;
        }
        if self.strikes(Knob::IdReused, Fault::IdReused) {
            self.insert_again(tx, false);
            return None;
        }
        self.writers.next += 1;
        let id = EventId::new(format!("e{}", self.writers.next));
        let mut kind = ['A', 'A', 'B', 'B', 'C', 'E', 'D'][self.rng.below(7)];
        if self.strikes(Knob::NoRoute, Fault::NoRoute) {
            kind = 'X';
        }
        let mut event = plain_event(&id, kind, key);
        let no_tenant = self.rng.chance(0.02);
        if !no_tenant {
            event.headers.insert("tenant".to_owned(), "t".to_owned());
        }
        if self.rng.chance(self.plan.rate(Knob::Lanes)) {
            event.priority = [1, -1][self.rng.below(2)];
        }
        let scheduled = self.strikes(Knob::Scheduled, Fault::Scheduled);
        let not_before = scheduled.then(|| self.now + Duration::from_secs(1) + self.rng.millis(100, 6_000));
        event.available_at = not_before.map(|at| Timestamp(at.as_micros() as i64));
        let bad = self.strikes(Knob::BadRow, Fault::BadRow);
        let failure = bad.then(|| Failure::new(ErrorKind::BadRow, "headers are not a JSON object"));
        if self.rng.chance(self.plan.rate(Knob::Rejected)) {
            let times = [1, 2, 5, 30][self.rng.below(4)];
            let broker = self.rng.below(2);
            self.brokers[broker].rejects.insert(id.to_string(), times);
        }
        if self.rng.chance(self.plan.rate(Knob::ConnectionKiller)) {
            let broker = self.rng.below(2);
            self.brokers[broker].killers.insert(id.to_string());
        }
        if self.rng.chance(self.plan.rate(Knob::ProcessKiller)) {
            self.writers.killers.insert(id.to_string());
        }
        let lane = event.lane();
        let row = NewRow {
            event,
            bad: failure,
            replay: None,
        };
        let seq = self.db.model.insert(self.now, tx, row).ok()?;
        let written = Written {
            key: key.to_owned(),
            lane,
            kind,
            seq,
            inserted: self.now,
            committed: None,
            scheduled,
            not_before,
            bad,
            no_tenant,
        };
        self.say(|| format!("insert {id} {written:?}"));
        self.writers.events.insert(id.clone(), written);
        self.writers
            .by_key
            .entry(key.to_owned())
            .or_default()
            .push(id.clone());
        Some(id)
    }

    /// A producer that repeats itself, with the same content or with another.
    fn insert_again(&mut self, tx: TxId, same: bool) {
        let ids: Vec<EventId> = self
            .writers
            .events
            .iter()
            .filter(|(_, one)| {
                one.committed.is_some() && !one.bad && !one.scheduled && one.lane == Lane::Normal
            })
            .map(|(id, _)| id.clone())
            .collect();
        let Some(id) = self.rng.pick(&ids).cloned() else {
            return;
        };
        let written = &self.writers.events[&id];
        let mut event = plain_event(&id, written.kind, &written.key);
        if !written.no_tenant {
            event.headers.insert("tenant".to_owned(), "t".to_owned());
        }
        if !same {
            event.payload = Payload::Text("\"other\"".to_owned());
            self.writers.reused.insert(id.clone());
        }
        self.writers.repeated.insert(id.clone());
        let inserted = self.db.model.insert(self.now, tx, event);
        self.say(|| format!("insert again {id} same {same}: {inserted:?}"));
    }

    /// The transaction of a writer ends, and the next begins a little later.
    pub(crate) fn commit(&mut self, writer: usize) {
        let Some(open) = self.writers.open.remove(&writer) else {
            return;
        };
        for key in &open.keys {
            self.writers.locked.remove(key);
        }
        if open.rolls_back {
            self.db.model.rollback(open.tx);
            self.say(|| format!("rollback {:?}", open.events));
        } else {
            self.db.model.commit(open.tx);
            for id in &open.events {
                if let Some(written) = self.writers.events.get_mut(id) {
                    written.committed = Some(self.now);
                }
            }
            self.say(|| format!("commit {:?}", open.events));
            self.ring();
        }
        let pace = [5, 50, 300, 1_000][self.rng.below(4)];
        let after = self.rng.millis(0, pace);
        self.schedule(after, Next::Write(writer));
    }
}

fn plain_event(id: &EventId, kind: char, key: &str) -> Event {
    let mut event = Event::builder("Simulated")
        .id(id.as_str())
        .aggregate(kind, key)
        .key(key)
        .json("{}")
        .build()
        .expect("the simulator's events are valid");
    event.created_at = Some(Timestamp(0));
    event
}
