//! The database between the relays and the model: it is slow, fails, loses answers, and does what it reported failed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Blocked, DestinationName, Heartbeat, Lane, OrderKey, Page, ParkedRow, Read, SentBefore, Seq, Settle,
    Settled, StoreError, StoreErrorKind, Then,
};
use postrider_relay::engine::{Call as Id, Fact, Plant};
use postrider_testkit::model::Model;

use crate::bell::Bell;
use crate::faults::Fault;
use crate::liveness::ReadsWell;
use crate::plan::Knob;
use crate::world::{Next, World};

pub(crate) struct Database {
    pub(crate) model: Model,
    pub(crate) down: bool,
    /// Reads from below this place fail.
    pub(crate) stale_below: Option<Seq>,
    /// Relays that have read everything from above it, by life.
    pub(crate) reads_well: BTreeMap<u64, ReadsWell>,
    /// Who sleeps, by slot.
    pub(crate) bells: BTreeMap<usize, Bell>,
}

impl Database {
    pub(crate) fn new(shards: u16) -> Self {
        Self {
            model: Model::new(shards),
            down: false,
            stale_below: None,
            reads_well: BTreeMap::new(),
            bells: BTreeMap::new(),
        }
    }
}

/// A call on its way.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Beat(Id, Heartbeat),
    Read(Id, Read),
    Settle(Id, Arc<Settle>),
}

impl World {
    /// A call reaches the database; its answer goes back, or does not.
    pub(crate) fn call_database(&mut self, slot: usize, life: u64, call: Call) {
        let back = self.latency();
        let failed = StoreError::new(StoreErrorKind::Unreachable, "simulated");
        if self.db.down || self.strikes(Knob::DatabaseError, Fault::DatabaseError) {
            let fact = refuse(call, failed);
            self.schedule(back, Next::Fact { slot, life, fact });
            return;
        }
        if let Call::Read(id, read) = &call
            && self.is_stale(life, read)
        {
            self.faults.count(Fault::StaleRead);
            let error = StoreError::new(StoreErrorKind::Busy, "the statement took too long");
            let fact = Fact::Read(*id, Err(error));
            let back = back + self.rng.millis(50, 300);
            self.schedule(back, Next::Fact { slot, life, fact });
            return;
        }
        let writes = !matches!(call, Call::Read(..));
        if writes && self.strikes(Knob::AppliedLate, Fault::DatabaseAppliedLate) {
            let after = self.rng.millis(0, 4_000);
            self.schedule(after, Next::Late(call.clone()));
            self.schedule(
                back,
                Next::Fact {
                    slot,
                    life,
                    fact: refuse(call, failed),
                },
            );
            return;
        }
        let lost = self.strikes(Knob::AnswerLost, Fault::DatabaseAnswerLost);
        let fact = self.apply(&call);
        if let Fact::Read(_, Ok(page)) = &fact {
            self.give(slot, page);
        }
        if matches!(fact, Fact::Stood(..)) {
            self.relays[slot].told.says_at = self.now;
        }
        let fact = if lost { refuse(call, failed) } else { fact };
        self.schedule(back, Next::Fact { slot, life, fact });
    }

    /// A write that was reported lost happens after all.
    pub(crate) fn apply_late(&mut self, call: &Call) {
        // A heartbeat of a connection that was given up is rolled back with it; a settle may have been on its way.
        if matches!(call, Call::Settle(..)) && !self.db.down {
            self.apply(call);
        }
    }

    fn apply(&mut self, call: &Call) -> Fact {
        match call {
            Call::Beat(id, beat) => {
                let standing = self.db.model.heartbeat(self.now, beat);
                self.say(|| format!("db beat {:?} -> {:?}", beat, standing.leases));
                Fact::Stood(*id, Ok(standing))
            }
            Call::Read(id, read) => {
                let mut page = self.db.model.read(self.now, read);
                self.check_beside(read, &page);
                self.plant_in_page(read, &mut page);
                self.say(|| describe(read, &page));
                Fact::Read(*id, Ok(page))
            }
            Call::Settle(id, settle) => Fact::Settled(*id, Ok(self.settle(settle))),
        }
    }

    fn settle(&mut self, settle: &Settle) -> Vec<Settled> {
        let mut written = settle.clone();
        if self.plant == Some(Plant::NoFence) {
            let tokens: Vec<_> = self
                .db
                .model
                .owners()
                .map(|(shard, state)| (shard, state.token))
                .collect();
            written.fence = tokens;
        }
        let fenced: Vec<_> = {
            let tokens: Vec<_> = self
                .db
                .model
                .owners()
                .map(|(shard, state)| (shard, state.token))
                .collect();
            settle
                .fence
                .iter()
                .filter(|fence| !tokens.contains(fence))
                .map(|(shard, _)| *shard)
                .collect()
        };
        let answers = self.db.model.settle(self.now, &written);
        self.say(|| format!("db settle {settle:?} -> {answers:?}"));
        let shards = settle
            .queued
            .iter()
            .map(|one| one.shard)
            .chain(settle.parked.iter().map(|one| one.shard));
        for (shard, answer) in shards.zip(&answers) {
            if *answer == Settled::Done && fenced.contains(&shard) {
                self.check.violation(format!(
                    "fence: a settle under an old token changed shard {}",
                    shard.0
                ));
            }
        }
        if self.plant == Some(Plant::InsertedAgain) {
            let queued = settle.queued.len();
            for (entry, answer) in settle.parked.iter().zip(answers.iter().skip(queued)) {
                if *answer == Settled::Gone
                    && matches!(entry.then, Then::Again(_))
                    && let Some(row) = self.check.discarded_row(entry.seq, entry.destination.as_ref())
                {
                    self.db.model.put_parked(row);
                }
            }
        }
        self.check
            .settled(self.now, &self.db.model, settle, &answers, self.plan.skip);
        answers
    }

    /// The planted bugs that live in what a read says.
    fn plant_in_page(&mut self, read: &Read, page: &mut Page) {
        match self.plant {
            Some(Plant::LevelOneById) => {
                let all = [DestinationName::new("first"), DestinationName::new("second")];
                let rows = page
                    .queued
                    .iter_mut()
                    .chain(page.parked.iter_mut().map(|parked| &mut parked.row));
                for row in rows.filter(|row| !row.sent_before.is_empty()) {
                    let same_content = row.sent_before.iter().all(|sent| sent.same_content);
                    row.sent_before = all
                        .iter()
                        .map(|name| SentBefore {
                            destination: name.clone(),
                            same_content,
                        })
                        .collect();
                }
            }
            Some(Plant::NoDestinationBlocksNobody) => {
                for row in page
                    .queued
                    .iter_mut()
                    .filter(|row| row.blocked == Blocked::Everywhere)
                {
                    row.blocked = Blocked::Nowhere;
                }
            }
            Some(Plant::ReplayUnordered) => {
                let copies = page.parked.iter_mut().map(|parked| &mut parked.row);
                for row in copies.filter(|row| row.replay.is_some()) {
                    row.key = OrderKey::alone(row.seq);
                }
            }
            Some(Plant::PauseOneLane) => {
                let paused: Vec<_> = self.db.model.paused_keys().cloned().collect();
                let lanes = page.queued.iter_mut().filter(|row| row.lane != Lane::Normal);
                for row in lanes.filter(|row| paused.contains(&row.key)) {
                    row.blocked = Blocked::Nowhere;
                }
            }
            Some(Plant::PauseKeyIgnored) => {
                let paused: Vec<_> = self.db.model.paused_keys().cloned().collect();
                for row in page.queued.iter_mut().filter(|row| paused.contains(&row.key)) {
                    row.blocked = Blocked::Nowhere;
                }
            }
            Some(Plant::EditIgnored) => self.undo_edits(page),
            Some(Plant::RedriveNewestFirst) => newest_redriven(page),
            Some(Plant::RedrivePastHead) => self.add_redriven(read, page),
            _ => {}
        }
    }

    /// What people changed is given as the producer wrote it.
    fn undo_edits(&self, page: &mut Page) {
        for parked in &mut page.parked {
            let original = self
                .db
                .model
                .original(&(parked.row.seq, parked.destination.clone()));
            if let (Some(original), Ok(event)) = (original, &mut parked.row.event) {
                Arc::make_mut(event).payload = original.payload.clone();
            }
        }
    }

    /// Rows that an operator sent again, although another of their key stands before them.
    fn add_redriven(&self, read: &Read, page: &mut Page) {
        for parked in self.db.model.parked() {
            let place = (parked.row.seq, parked.destination.clone());
            let known = parked.destination.is_some()
                && !read.parked.busy.contains(&place)
                && read.parked.shards.contains(&parked.row.shard)
                && !page
                    .parked
                    .iter()
                    .any(|row| row.row.seq == place.0 && row.destination == place.1);
            if self.past_heads.contains(&place) && !parked.dead && known {
                page.parked.push(ParkedRow {
                    row: self.db.model.parked_row_answer(self.now, parked),
                    destination: parked.destination.clone(),
                    version: parked.version,
                    attempts: parked.attempts,
                    failures: parked.failures,
                    failed_ago: None,
                    failing_for: None,
                    maybe_sent: parked.maybe_sent,
                    redriven: true,
                });
            }
        }
    }

    pub(crate) fn database_down(&mut self, down: bool) {
        self.db.down = down;
        self.say(|| format!("database {}", if down { "down" } else { "up" }));
        if down {
            // A doorbell whose connection is lost wakes its relay.
            self.ring();
            self.faults.count(Fault::DatabaseDown);
            let back = self.rng.millis(100, 6_000);
            self.schedule(back, Next::Trouble(crate::operators::Deed::DatabaseUp));
        }
    }
}

fn refuse(call: Call, error: StoreError) -> Fact {
    match call {
        Call::Beat(id, _) => Fact::Stood(id, Err(error)),
        Call::Read(id, _) => Fact::Read(id, Err(error)),
        Call::Settle(id, _) => Fact::Settled(id, Err(error)),
    }
}

/// Of a line in which something was redriven only the last row is given.
fn newest_redriven(page: &mut Page) {
    let line = |row: &ParkedRow| (row.row.key.clone(), row.row.lane, row.destination.clone());
    let redriven = page.parked.iter().filter(|row| row.redriven);
    let mut newest: BTreeMap<_, _> = redriven.map(|row| (line(row), row.row.seq)).collect();
    for row in &page.parked {
        if let Some(newest) = newest.get_mut(&line(row)) {
            *newest = row.row.seq.max(*newest);
        }
    }
    page.parked
        .retain(|row| newest.get(&line(row)).is_none_or(|newest| *newest == row.row.seq));
}

fn describe(read: &Read, page: &Page) -> String {
    let queued: Vec<_> = page
        .queued
        .iter()
        .map(|row| (row.seq.0, row.event_id.as_str(), &row.blocked))
        .collect();
    let parked: Vec<_> = page
        .parked
        .iter()
        .map(|row| (row.row.seq.0, row.destination.as_ref()))
        .collect();
    let floors: Vec<_> = read
        .ranges
        .iter()
        .map(|one| (one.shard.0, one.lane.sign(), one.floor.0, one.limit))
        .collect();
    let (busy, not_for) = (&read.parked.busy, &read.parked.not_for);
    format!(
        "db read {floors:?} busy {busy:?} not for {not_for:?}: horizon {} queued {queued:?} parked {parked:?}",
        page.horizon.0
    )
}

/// How long a call takes to reach the database.
pub(crate) fn way(world: &mut World) -> Duration {
    world.latency()
}
