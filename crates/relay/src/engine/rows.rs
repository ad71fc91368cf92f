//! The rows in memory: items, and the lines in which their deliveries wait for each other.
//!
//! An item is a row; it owes one delivery to each of its destinations. A line is the deliveries of one key, lane and
//! destination: they leave one call at a time, the lowest `seq` first. A key ties the lines of one key together.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use postrider_core::{
    Address, DestinationId, DestinationName, Event, EventId, Lane, Leaves, OrderKey, Park, Receipt, Seq,
    Shard, Then,
};

use super::slab::Slab;
use super::{Call, Time};

pub(super) type ItemId = usize;
pub(super) type LineId = usize;

/// A row in memory.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) seq: Seq,
    pub(super) shard: Shard,
    pub(super) lane: Lane,
    pub(super) key: OrderKey,
    pub(super) event_id: EventId,
    pub(super) event: Option<Arc<Event>>,
    pub(super) replay: Option<Arc<str>>,
    pub(super) bytes: usize,
    pub(super) origin: Origin,
    pub(super) deliveries: Vec<Delivery>,
    /// The decision about the row as a whole, where it has no deliveries.
    pub(super) verdict: Option<Verdict>,
    pub(super) settling: bool,
}

/// Which table the row is in.
#[derive(Debug)]
pub(super) enum Origin {
    Queued,
    Parked(Parked),
}

/// What the parked table says of a row.
#[derive(Clone, Debug)]
pub(super) struct Parked {
    pub(super) destination: Option<DestinationName>,
    pub(super) version: u64,
    pub(super) attempts: u32,
    pub(super) failures: u32,
    pub(super) failed_at: Option<Time>,
    pub(super) maybe_sent: bool,
}

/// A decision about a row without deliveries.
#[derive(Debug)]
pub(super) enum Verdict {
    Leaves(Leaves),
    Then(Then),
}

/// An event owed to one destination.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) destination: DestinationId,
    pub(super) address: Address,
    pub(super) message_key: String,
    pub(super) line: LineId,
    pub(super) maybe_sent: bool,
    pub(super) state: State,
}

/// Where a delivery stands.
#[derive(Debug)]
pub(super) enum State {
    Pending,
    InFlight(Call),
    Confirmed(Receipt),
    Duplicate,
    Park(Park),
}

impl Item {
    pub(super) fn is_queued(&self) -> bool {
        matches!(self.origin, Origin::Queued)
    }

    pub(super) fn is_decided(&self) -> bool {
        self.deliveries
            .iter()
            .all(|one| !matches!(one.state, State::Pending | State::InFlight(_)))
    }

    pub(super) fn is_in_flight(&self) -> bool {
        self.deliveries
            .iter()
            .any(|one| matches!(one.state, State::InFlight(_)))
    }

    /// Sent to some destination, and still owed to another.
    pub(super) fn is_half_sent(&self) -> bool {
        self.deliveries
            .iter()
            .any(|one| matches!(one.state, State::Confirmed(_)))
            && self
                .deliveries
                .iter()
                .any(|one| matches!(one.state, State::Pending))
    }

    /// Still owed to a destination that may have it.
    pub(super) fn is_unsure(&self) -> bool {
        let owed = |one: &Delivery| matches!(one.state, State::Pending | State::Park(_));
        self.deliveries.iter().any(|one| one.maybe_sent && owed(one))
    }

    /// Decided, and to be parked for at least one destination or for none.
    pub(super) fn parks(&self) -> bool {
        let nowhere = matches!(&self.verdict, Some(Verdict::Leaves(Leaves::Decided { .. })));
        nowhere
            || (self.is_decided()
                && self
                    .deliveries
                    .iter()
                    .any(|one| matches!(one.state, State::Park(_))))
    }

    pub(super) fn at(&self, destination: DestinationId) -> Option<&Delivery> {
        self.deliveries.iter().find(|one| one.destination == destination)
    }
}

type KeyRef = (Shard, Lane, OrderKey);

/// The queued rows of one key and lane.
#[derive(Debug, Default)]
struct Key {
    members: BTreeMap<Seq, ItemId>,
    lines: BTreeMap<DestinationId, LineId>,
    /// Rows of the key about to be parked without a destination: they block it everywhere.
    parking: BTreeSet<Seq>,
    /// What reads up to this number said of the key is void.
    void_to: Option<Call>,
}

/// The deliveries of one key, lane and destination.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) key: KeyRef,
    pub(super) destination: DestinationId,
    /// Deliveries to be handed over, in order.
    pub(super) waiting: BTreeMap<Seq, ItemId>,
    /// Queued rows that are not settled yet, decided or not.
    pub(super) unsettled: BTreeMap<Seq, ItemId>,
    /// Of those, the ones about to be parked here that hold back what comes after them.
    pub(super) parking: BTreeSet<Seq>,
    /// The call that is unanswered.
    pub(super) call: Option<Call>,
    /// What reads up to this number said of the line is void.
    pub(super) void_to: Option<Call>,
    /// When it was probed last, as a count.
    pub(super) probed: u64,
    /// Deliveries in memory that name this line; it must outlive them.
    members: usize,
    queued_ready: bool,
}

/// All rows in memory.
#[derive(Debug, Default)]
pub(super) struct Rows {
    items: Slab<Item>,
    by_seq: BTreeMap<(Shard, Seq), ItemId>,
    parked: BTreeMap<(Shard, Seq, Option<DestinationName>), ItemId>,
    keys: BTreeMap<KeyRef, Key>,
    lines: Slab<Line>,
    ready: Vec<[VecDeque<LineId>; 3]>,
    /// Items whose every delivery is decided, in order.
    decided: BTreeSet<(Seq, ItemId)>,
    bytes: usize,
    in_lane: [usize; 3],
    pending_at: Vec<usize>,
}

impl Rows {
    pub(super) fn new(destinations: usize) -> Self {
        Self {
            ready: (0..destinations).map(|_| Default::default()).collect(),
            pending_at: vec![0; destinations],
            ..Self::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Queued rows of a lane in memory.
    pub(super) fn in_lane(&self, lane: Lane) -> usize {
        self.in_lane[lane_index(lane)]
    }

    pub(super) fn parked_len(&self) -> usize {
        self.parked.len()
    }

    /// Queued deliveries that wait to be handed over to a destination.
    pub(super) fn pending_at(&self, destination: DestinationId) -> usize {
        self.pending_at[destination.0]
    }

    pub(super) fn item(&self, id: ItemId) -> Option<&Item> {
        self.items.get(id)
    }

    pub(super) fn item_mut(&mut self, id: ItemId) -> Option<&mut Item> {
        self.items.get_mut(id)
    }

    pub(super) fn line(&self, id: LineId) -> Option<&Line> {
        self.lines.get(id)
    }

    pub(super) fn line_mut(&mut self, id: LineId) -> Option<&mut Line> {
        self.lines.get_mut(id)
    }

    pub(super) fn has_queued(&self, shard: Shard, seq: Seq) -> bool {
        self.by_seq.contains_key(&(shard, seq))
    }

    pub(super) fn has_parked(&self, shard: Shard, seq: Seq, destination: &Option<DestinationName>) -> bool {
        self.parked.contains_key(&(shard, seq, destination.clone()))
    }

    /// Queued rows of a shard and lane above a floor: what a read leaves out.
    pub(super) fn above(&self, shard: Shard, lane: Lane, floor: Seq) -> Vec<Seq> {
        let from = (shard, Seq(floor.0.saturating_add(1)));
        let of_lane = |id: &ItemId| self.items.get(*id).is_some_and(|item| item.lane == lane);
        self.by_seq
            .range(from..=(shard, Seq::MAX))
            .filter(|(_, id)| of_lane(id))
            .map(|((_, seq), _)| *seq)
            .collect()
    }

    pub(super) fn parked_refs(&self) -> Vec<(Seq, Option<DestinationName>)> {
        self.parked
            .keys()
            .map(|(_, seq, destination)| (*seq, destination.clone()))
            .collect()
    }

    pub(super) fn of_shard(&self, shard: Shard) -> Vec<ItemId> {
        self.items
            .ids()
            .filter(|id| self.items.get(*id).is_some_and(|item| item.shard == shard))
            .collect()
    }

    pub(super) fn decided(&self) -> impl Iterator<Item = ItemId> + '_ {
        self.decided.iter().map(|(_, id)| *id)
    }

    pub(super) fn has_decided(&self) -> bool {
        !self.decided.is_empty()
    }

    /// The line of a key at a destination, made when it is not there.
    pub(super) fn line_of(&mut self, key: &KeyRef, destination: DestinationId) -> LineId {
        let entry = self.keys.entry(key.clone()).or_default();
        if let Some(line) = entry.lines.get(&destination) {
            return *line;
        }
        let line = self.lines.insert(Line {
            key: key.clone(),
            destination,
            waiting: BTreeMap::new(),
            unsettled: BTreeMap::new(),
            parking: BTreeSet::new(),
            call: None,
            void_to: None,
            probed: 0,
            members: 0,
            queued_ready: false,
        });
        entry.lines.insert(destination, line);
        line
    }

    /// Whether what a read said about a key at a destination cannot be trusted.
    pub(super) fn is_void(&self, key: &KeyRef, destination: DestinationId) -> bool {
        let Some(key) = self.keys.get(key) else {
            return false;
        };
        let line = key.lines.get(&destination).and_then(|line| self.lines.get(*line));
        !key.parking.is_empty()
            || key.void_to.is_some()
            || line.is_some_and(|line| !line.parking.is_empty() || line.void_to.is_some())
    }

    /// Takes a row in. Its deliveries join their lines; pending ones wait there.
    pub(super) fn insert(&mut self, item: Item) -> ItemId {
        let (seq, shard, bytes, queued) = (item.seq, item.shard, item.bytes, item.is_queued());
        let key: KeyRef = (shard, item.lane, item.key.clone());
        let lane = lane_index(item.lane);
        let parked_ref = match &item.origin {
            Origin::Queued => None,
            Origin::Parked(parked) => Some((shard, seq, parked.destination.clone())),
        };
        let nowhere = matches!(&item.verdict, Some(Verdict::Leaves(Leaves::Decided { parked, .. })) if !parked.is_empty());
        let decided = item.is_decided();
        let id = self.items.insert(item);
        self.bytes += bytes;
        match parked_ref {
            Some(parked) => {
                self.parked.insert(parked, id);
            }
            None => {
                self.by_seq.insert((shard, seq), id);
                self.in_lane[lane] += 1;
                let entry = self.keys.entry(key).or_default();
                entry.members.insert(seq, id);
                if nowhere {
                    entry.parking.insert(seq);
                }
            }
        }
        for index in 0..self.items.get(id).map_or(0, |item| item.deliveries.len()) {
            self.join(id, index, seq, queued);
        }
        if decided {
            self.decided.insert((seq, id));
        }
        id
    }

    fn join(&mut self, id: ItemId, index: usize, seq: Seq, queued: bool) {
        let Some(delivery) = self.items.get(id).map(|item| &item.deliveries[index]) else {
            return;
        };
        let (line_id, destination) = (delivery.line, delivery.destination);
        let pending = matches!(delivery.state, State::Pending);
        let Some(line) = self.lines.get_mut(line_id) else {
            return;
        };
        line.members += 1;
        if queued {
            line.unsettled.insert(seq, id);
        }
        if pending {
            line.waiting.insert(seq, id);
            self.pending_at[destination.0] += usize::from(queued);
        }
        self.make_ready(line_id);
    }

    /// Puts a line in the queue of its destination when it has something to hand over and nothing unanswered.
    pub(super) fn make_ready(&mut self, id: LineId) {
        let Some(line) = self.lines.get_mut(id) else {
            return;
        };
        if !line.queued_ready && line.call.is_none() && !line.waiting.is_empty() {
            line.queued_ready = true;
            self.ready[line.destination.0][lane_index(line.key.1)].push_back(id);
        }
    }

    pub(super) fn has_ready(&self, destination: DestinationId) -> bool {
        self.ready[destination.0].iter().any(|queue| !queue.is_empty())
    }

    /// Takes the next line of a lane that can hand something over.
    pub(super) fn pop_ready(&mut self, destination: DestinationId, lane: Lane) -> Option<LineId> {
        while let Some(id) = self.ready[destination.0][lane_index(lane)].pop_front() {
            let Some(line) = self.lines.get_mut(id) else {
                continue;
            };
            if !line.queued_ready || line.destination != destination || line.key.1 != lane {
                continue;
            }
            line.queued_ready = false;
            if line.call.is_none() && !line.waiting.is_empty() {
                return Some(id);
            }
        }
        None
    }

    /// Every line that could hand something over, for choosing a probe.
    pub(super) fn ready_lines(&self, destination: DestinationId) -> Vec<LineId> {
        let all = self.ready[destination.0].iter().flatten().copied();
        all.filter(|id| {
            self.lines.get(*id).is_some_and(|line| {
                line.destination == destination && line.call.is_none() && !line.waiting.is_empty()
            })
        })
        .collect()
    }

    /// Changes where a delivery stands and keeps its line's books.
    pub(super) fn set_state(&mut self, id: ItemId, index: usize, state: State, holds: bool) {
        let Some(item) = self.items.get_mut(id) else {
            return;
        };
        let (seq, queued) = (item.seq, item.is_queued());
        let delivery = &mut item.deliveries[index];
        let (line_id, destination) = (delivery.line, delivery.destination);
        let was_pending = matches!(delivery.state, State::Pending);
        let is_pending = matches!(state, State::Pending);
        let parks = matches!(state, State::Park(_)) && queued && holds;
        delivery.state = state;
        let decided = item.is_decided();
        if let Some(line) = self.lines.get_mut(line_id) {
            if is_pending {
                line.waiting.insert(seq, id);
            } else {
                line.waiting.remove(&seq);
            }
            if parks {
                line.parking.insert(seq);
            }
        }
        if queued {
            let pending_at = &mut self.pending_at[destination.0];
            *pending_at = (*pending_at + usize::from(is_pending)).saturating_sub(usize::from(was_pending));
        }
        if decided {
            self.decided.insert((seq, id));
        } else {
            self.decided.remove(&(seq, id));
        }
        self.make_ready(line_id);
    }

    /// Marks a row that came in as already decided to be parked: what comes after it in its line is held back.
    pub(super) fn mark_parking(&mut self, id: ItemId, index: usize) {
        let Some(item) = self.items.get(id) else { return };
        let (seq, line) = (item.seq, item.deliveries[index].line);
        if let Some(line) = self.lines.get_mut(line) {
            line.parking.insert(seq);
        }
    }

    /// The queued deliveries that wait in a line behind a row, lowest first.
    pub(super) fn waiting_queued(&self, line: LineId) -> Vec<ItemId> {
        let Some(line) = self.lines.get(line) else {
            return Vec::new();
        };
        line.waiting
            .values()
            .copied()
            .filter(|id| self.items.get(*id).is_some_and(Item::is_queued))
            .collect()
    }

    /// The parked rows that wait in a line.
    pub(super) fn waiting_parked(&self, line: LineId) -> Vec<ItemId> {
        let Some(line) = self.lines.get(line) else {
            return Vec::new();
        };
        line.waiting
            .values()
            .copied()
            .filter(|id| self.items.get(*id).is_some_and(|item| !item.is_queued()))
            .collect()
    }

    /// All lines of a key.
    pub(super) fn lines_of(&self, key: &KeyRef) -> Vec<LineId> {
        self.keys
            .get(key)
            .map(|key| key.lines.values().copied().collect())
            .unwrap_or_default()
    }

    /// Rows of a key below a place that are about to be parked without a destination.
    pub(super) fn nowhere_before(&self, key: &KeyRef, seq: Seq) -> impl Iterator<Item = ItemId> + '_ {
        let key = self.keys.get(key);
        key.into_iter().flat_map(move |key| {
            key.parking
                .range(..seq)
                .filter_map(|seq| key.members.get(seq).copied())
        })
    }

    /// The queued rows of a key at or below a place.
    pub(super) fn members_to(&self, key: &KeyRef, seq: Seq) -> Vec<ItemId> {
        let Some(key) = self.keys.get(key) else {
            return Vec::new();
        };
        key.members.range(..=seq).map(|(_, id)| *id).collect()
    }

    /// Forgets a row. `void_to` names the last read whose word about what this row blocks must not be trusted.
    pub(super) fn remove(&mut self, id: ItemId, void_to: Option<Call>) -> Option<Item> {
        let item = self.items.remove(id)?;
        self.decided.remove(&(item.seq, id));
        self.bytes -= item.bytes;
        let key: KeyRef = (item.shard, item.lane, item.key.clone());
        match &item.origin {
            Origin::Queued => {
                self.by_seq.remove(&(item.shard, item.seq));
                self.in_lane[lane_index(item.lane)] -= 1;
                if let Some(entry) = self.keys.get_mut(&key) {
                    entry.members.remove(&item.seq);
                    if entry.parking.remove(&item.seq) {
                        entry.void_to = entry.void_to.max(void_to);
                    }
                }
            }
            Origin::Parked(parked) => {
                self.parked
                    .remove(&(item.shard, item.seq, parked.destination.clone()));
            }
        }
        for delivery in &item.deliveries {
            if matches!(delivery.state, State::Pending) && item.is_queued() {
                self.pending_at[delivery.destination.0] -= 1;
            }
            if let Some(line) = self.lines.get_mut(delivery.line) {
                line.members -= 1;
                line.waiting.remove(&item.seq);
                line.unsettled.remove(&item.seq);
                if line.parking.remove(&item.seq) {
                    line.void_to = line.void_to.max(void_to);
                }
            }
            self.tidy_line(delivery.line);
        }
        self.tidy_key(&key);
        Some(item)
    }

    /// A read was answered: what was void because of it is void no longer.
    pub(super) fn trust_again(&mut self, read: Call) {
        let over = |void_to: &mut Option<Call>| {
            if void_to.is_some_and(|to| to <= read) {
                *void_to = None;
            }
        };
        let lines: Vec<LineId> = self.lines.ids().collect();
        for id in lines {
            if let Some(line) = self.lines.get_mut(id) {
                if line.void_to.is_none() {
                    continue;
                }
                over(&mut line.void_to);
                self.tidy_line(id);
            }
        }
        self.keys.values_mut().for_each(|key| over(&mut key.void_to));
        self.keys.retain(|_, key| !key.is_idle());
    }

    /// Drops a line that has nothing left to remember. One with an unanswered call stays: its key is busy.
    pub(super) fn tidy_line(&mut self, id: LineId) {
        let Some(line) = self.lines.get(id) else { return };
        let idle = line.members == 0 && line.call.is_none() && line.void_to.is_none();
        if !idle {
            return;
        }
        if let Some(line) = self.lines.remove(id) {
            if let Some(key) = self.keys.get_mut(&line.key) {
                key.lines.remove(&line.destination);
            }
            self.tidy_key(&line.key);
        }
    }

    fn tidy_key(&mut self, key: &KeyRef) {
        if self.keys.get(key).is_some_and(Key::is_idle) {
            self.keys.remove(key);
        }
    }
}

impl Key {
    fn is_idle(&self) -> bool {
        self.members.is_empty() && self.lines.is_empty() && self.parking.is_empty() && self.void_to.is_none()
    }
}

pub(super) fn lane_index(lane: Lane) -> usize {
    match lane {
        Lane::High => 0,
        Lane::Normal => 1,
        Lane::Low => 2,
    }
}
