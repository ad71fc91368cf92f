//! Writing the decisions: one settle at a time, in the order that keeps the parked table honest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    Leaves, Seq, Settle, SettleParked, SettleQueued, Settled, Shard, StoreError, StoreErrorKind, Then,
};

use super::again::Again;
use super::item::{Delivery, Item, ItemId, Origin, State, Verdict};
use super::note::Note;
use super::places::Places;
use super::{Call, Command, Engine, Plant, Time};

/// Entries of one settle: large enough to share a transaction, small enough to answer in milliseconds.
const ENTRIES: usize = 2_048;
/// How long after one settle the next begins, unless this many are decided: each is a commit, beside those of the
/// producers, and a publish does not wait for it.
const PACE: Duration = Duration::from_millis(20);
const MANY: usize = 256;
/// Refusals of a whole settle before it is written in parts: by then it is no passing trouble.
const PATIENCE: u32 = 3;
/// Into how many parts a refused settle is divided. Finding one entry among many takes a refusal a step, and each may
/// take as long as the database waits for a lock.
const PARTS: usize = 8;
/// The longest pause between parts that are refused: a database that refuses everything is not asked without end.
const PART_PAUSE: Duration = Duration::from_millis(100);
/// How long an entry rests that the database refuses alone, so that the others are written meanwhile.
const REST: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Settling {
    under_way: Option<UnderWay>,
    retry_at: Option<Time>,
    /// When the next may begin.
    next_at: Time,
    /// Something is decided and waits for that.
    gathers: bool,
    again: Again,
    /// Entries of the next settle, while one among them is looked for that the database refuses; none: no limit but
    /// [`ENTRIES`].
    limit: Option<usize>,
}

#[derive(Debug)]
struct UnderWay {
    call: Option<Call>,
    settle: Arc<Settle>,
    /// The items, in the order of the settle's entries.
    items: Vec<ItemId>,
    /// From here on they are starts: not decided, but about to leave.
    starts_from: usize,
}

impl Settling {
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.is_none()
    }

    pub(super) fn wake_at(&self) -> Option<Time> {
        self.retry_at.or(self.gathers.then_some(self.next_at))
    }
}

impl Engine {
    /// Writes what is decided, or repeats a settle whose answer was lost.
    pub(super) fn write_settle(&mut self, now: Time, out: &mut Vec<Command>) {
        if self.settling.retry_at.is_some_and(|at| now < at) {
            return;
        }
        self.settling.retry_at = None;
        if self.settling.under_way.is_none() {
            // Nobody waits for what is decided, but what is to start waits to leave.
            let hurried = self.stop.is_some() || self.rows.decided_len() >= MANY || self.has_starts();
            self.settling.gathers = self.rows.decided_len() > 0 && now < self.settling.next_at && !hurried;
            if self.settling.gathers {
                return;
            }
            self.settling.under_way = self.collect(now);
        }
        let next = self.call();
        if let Some(under_way) = &mut self.settling.under_way
            && under_way.call.is_none()
        {
            under_way.call = Some(next);
            self.settling.next_at = now + PACE;
            out.push(Command::Settle(next, under_way.settle.clone()));
        }
    }

    /// Everything decided that may be written now, and every start.
    fn collect(&mut self, now: Time) -> Option<UnderWay> {
        if self.rows.decided_len() == 0 && !self.has_starts() {
            return None;
        }
        let limit = self.settling.limit.unwrap_or(ENTRIES);
        let mut chosen = BTreeSet::new();
        let mut places = Places::default();
        let (mut queued, mut parked) = (Vec::new(), Vec::new());
        for id in self.rows.decided() {
            let Some(item) = self.rows.item(id) else { continue };
            let rested = item.rests_until.map(|until| now >= until);
            // Who has rested goes alone: if it is refused again, nobody else is.
            let waits = rested == Some(false) || (rested == Some(true) && !chosen.is_empty());
            if item.settling || waits || !self.may_settle(item, &chosen) || !places.take(item) {
                continue;
            }
            chosen.insert(id);
            match item.origin {
                Origin::Queued => queued.push(id),
                Origin::Parked(_) => parked.push(id),
            }
            if chosen.len() >= limit || rested == Some(true) {
                break;
            }
        }
        let rests = |id: &ItemId| self.rows.item(*id).is_some_and(|item| item.rests_until.is_some());
        let starts = match chosen.iter().any(rests) {
            true => Vec::new(),
            false => self.choose_starts(now, &chosen, &places, limit),
        };
        if chosen.is_empty() && starts.is_empty() {
            return None;
        }
        let mut settle = Settle::default();
        let mut fence: BTreeMap<Shard, _> = BTreeMap::new();
        let items: Vec<ItemId> = queued.into_iter().chain(parked).chain(starts).collect();
        let starts_from = chosen.len();
        for id in &items {
            let Some(item) = self.rows.item_mut(*id) else {
                continue;
            };
            item.settling = true;
            if let Some(token) = self.leases.token(item.shard) {
                fence.insert(item.shard, token);
            }
            match &item.origin {
                Origin::Queued => settle.queued.push(SettleQueued {
                    shard: item.shard,
                    seq: item.seq,
                    event_id: item.event_id.clone(),
                    key: item.key.clone(),
                    leaves: leaves(item, self.router.destinations()),
                }),
                Origin::Parked(parked) => settle.parked.push(SettleParked {
                    shard: item.shard,
                    seq: item.seq,
                    destination: parked.destination.clone(),
                    version: parked.version,
                    then: then(item),
                }),
            }
        }
        settle.fence = fence.into_iter().collect();
        if self.planted(Plant::SettledForgotten) {
            for id in &items[..starts_from] {
                self.rows.remove(*id, None);
            }
        }
        Some(UnderWay {
            call: None,
            settle: Arc::new(settle),
            items,
            starts_from,
        })
    }

    /// No settle parks a row for a destination while an earlier row of its key and destination is still queued, unless
    /// it parks that one too. A row parked without a destination counts for every destination.
    fn may_settle(&self, item: &Item, chosen: &BTreeSet<ItemId>) -> bool {
        if !item.is_queued() || self.planted(Plant::EarlyPark) {
            return true;
        }
        if !item.parks() {
            return true;
        }
        let key = (item.shard, item.lane, item.key.clone());
        if item.verdict.is_some() {
            let earlier = self.rows.members_to(&key, item.seq.before());
            return earlier.iter().all(|id| chosen.contains(id));
        }
        if !self
            .rows
            .nowhere_before(&key, item.seq)
            .all(|id| chosen.contains(&id))
        {
            return false;
        }
        let parks = item
            .deliveries
            .iter()
            .filter(|one| matches!(one.state, State::Park(_)));
        parks
            .into_iter()
            .all(|one| self.follows_closely(item.seq, one, chosen))
    }

    /// Whether everything before a row in its line is published, or parked by this very settle. A confirmed row was
    /// sent in its turn, and a parked one was asked the same, so the nearest of either tells; a duplicate tells
    /// nothing, because it was decided when it arrived.
    fn follows_closely(&self, seq: Seq, delivery: &Delivery, chosen: &BTreeSet<ItemId>) -> bool {
        let Some(line) = self.rows.line(delivery.line) else {
            return true;
        };
        for id in line.unsettled.range(..seq).rev().map(|(_, id)| id) {
            let before = self
                .rows
                .item(*id)
                .and_then(|before| before.at(delivery.destination));
            match before.map(|before| &before.state) {
                Some(State::Pending | State::InFlight(_)) => return false,
                Some(State::Park(_)) => return chosen.contains(id),
                Some(State::Confirmed(_)) => return true,
                Some(State::Duplicate) | None => {}
            }
        }
        true
    }

    /// Repeats a settle later, or, once the database has refused it several times for what it is, in parts. Whether it
    /// was written after all does not matter: each entry may be repeated.
    fn settle_failed(&mut self, now: Time, failed: UnderWay, error: &StoreError, out: &mut Vec<Command>) {
        let random = self.random();
        let delay = self.settling.again.failed(random);
        self.note_store("settle", error, delay, out);
        let refused = matches!(error.kind(), StoreErrorKind::Other | StoreErrorKind::Busy);
        if refused && (self.settling.limit.is_some() || self.settling.again.failures() >= PATIENCE) {
            self.settling.retry_at = Some(now + delay.min(PART_PAUSE));
            return self.divide(now, &failed.items);
        }
        self.settling.retry_at = Some(now + delay);
        self.settling.under_way = Some(UnderWay { call: None, ..failed });
    }

    /// One of these entries is refused, or its row is locked: the next settle has a few of them, and an entry that is
    /// refused alone rests, so that the others are written.
    fn divide(&mut self, now: Time, items: &[ItemId]) {
        self.settling.limit = Some((items.len() / PARTS).max(1));
        for id in items {
            if let Some(item) = self.rows.item_mut(*id) {
                item.settling = false;
                item.rests_until = (items.len() == 1).then(|| now + REST);
            }
        }
    }

    /// The row stays in memory as it is, and so holds its key and the floor back: forgotten, it would be read and
    /// published again, and others of its key before it.
    fn kept(&mut self, now: Time, id: ItemId, out: &mut Vec<Command>) {
        let Some(item) = self.rows.item_mut(id) else {
            return;
        };
        item.settling = false;
        item.rests_until = Some(now + REST);
        let (event_id, seq) = (item.event_id.clone(), item.seq);
        out.push(Command::Note(Note::Kept {
            event_id,
            seq,
            retry_in: REST,
        }));
    }

    /// The answer to a settle.
    pub(super) fn on_settled(
        &mut self,
        now: Time,
        call: Call,
        settled: Result<Vec<Settled>, StoreError>,
        out: &mut Vec<Command>,
    ) {
        let Some(under_way) = self
            .settling
            .under_way
            .take_if(|under_way| under_way.call == Some(call))
        else {
            return;
        };
        let short = |answers: &Vec<Settled>| answers.len() < under_way.items.len();
        let settled = match settled {
            Ok(settled) if short(&settled) => Err(StoreError::new(
                StoreErrorKind::Other,
                "a settle was half answered",
            )),
            other => other,
        };
        let settled = match settled {
            Ok(settled) => settled,
            Err(error) => return self.settle_failed(now, under_way, &error, out),
        };
        if self.settling.again.succeeded() {
            out.push(Command::Note(Note::StoreBack { doing: "settle" }));
        }
        self.settling.limit = self
            .settling
            .limit
            .map(|limit| limit * 2)
            .filter(|limit| *limit < ENTRIES);
        let mut fenced = BTreeSet::new();
        let mut parked = 0;
        let mut freed = false;
        for (index, (id, what)) in under_way.items.iter().zip(settled).enumerate() {
            let Some(item) = self.rows.item(*id).filter(|item| item.settling) else {
                continue;
            };
            let shard = item.shard;
            match what {
                Settled::Fenced => {
                    fenced.insert(shard);
                }
                Settled::Kept => self.kept(now, *id, out),
                Settled::Done if index >= under_way.starts_from => {
                    self.leases.settled(shard);
                    self.rows.started(*id);
                }
                Settled::Gone if index >= under_way.starts_from => self.start_refused(now, *id),
                Settled::Done | Settled::Gone => {
                    parked += item.parked_rows();
                    if matches!(item.origin, Origin::Parked(_)) {
                        self.read_soon(now);
                    }
                    self.leases.settled(shard);
                    freed = true;
                    self.rows.remove(*id, self.reading.under_way());
                }
            }
        }
        if freed {
            self.read_on(now);
        }
        if parked > 0 {
            out.push(Command::Note(Note::Parked { count: parked }));
        }
        for shard in fenced {
            self.lose_shard(shard, false, out);
        }
    }
}

fn leaves(item: &mut Item, destinations: &[Arc<postrider_core::Destination>]) -> Leaves {
    if let Some(Verdict::Leaves(leaves)) = &item.verdict {
        return leaves.clone();
    }
    let (mut sent, mut parked) = (Vec::new(), Vec::new());
    for delivery in &item.deliveries {
        match &delivery.state {
            State::Confirmed(receipt) => {
                sent.push((destinations[delivery.destination.0].name.clone(), receipt.clone()));
            }
            State::Park(park) => parked.push(park.clone()),
            State::Duplicate | State::Pending | State::InFlight(_) => {}
        }
    }
    if sent.is_empty() && parked.is_empty() {
        Leaves::Duplicate
    } else {
        Leaves::Decided { sent, parked }
    }
}

fn then(item: &Item) -> Then {
    if let Some(Verdict::Then(then)) = &item.verdict {
        return then.clone();
    }
    if let Some(start) = item.start().filter(|_| !item.is_decided()) {
        return start;
    }
    match item.deliveries.first().map(|delivery| &delivery.state) {
        Some(State::Confirmed(receipt)) => Then::Sent(receipt.clone()),
        Some(State::Park(park)) => Then::Again(park.clone()),
        // Only what is decided comes here, so the others are duplicates.
        Some(State::Duplicate | State::Pending | State::InFlight(_)) | None => Then::Duplicate,
    }
}
