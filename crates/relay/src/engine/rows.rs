//! The books of everything in memory: items by place, and the lines in which their deliveries wait for each other.

use std::collections::{BTreeMap, BTreeSet};

use postrider_core::{DestinationId, DestinationName, Lane, Leaves, Seq, Shard};

use super::Call;
use super::item::{Item, ItemId, Origin, State, Verdict};
use super::line::{Key, KeyRef, Line, LineId};
use super::load::Load;
use super::ready::Ready;
use super::slab::Slab;

/// All rows in memory.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) items: Slab<Item>,
    by_seq: BTreeMap<(Shard, Seq), ItemId>,
    parked: BTreeMap<(Shard, Seq, Option<DestinationName>), ItemId>,
    pub(super) keys: BTreeMap<KeyRef, Key>,
    pub(super) lines: Slab<Line>,
    pub(super) ready: Ready,
    /// Lines and keys of which an earlier read must not be trusted.
    pub(super) void_lines: BTreeSet<LineId>,
    pub(super) void_keys: BTreeSet<KeyRef>,
    /// Items whose every delivery is decided, in order.
    decided: BTreeSet<(Seq, ItemId)>,
    /// Parked items that are to be handed over and whose table does not say so yet, in order.
    pub(super) starts: BTreeSet<(Seq, ItemId)>,
    /// How many of those there are for each destination.
    unstarted: Vec<usize>,
    bytes: usize,
    in_lane: [usize; 3],
    pending_at: Vec<Pending>,
}

/// Deliveries that wait to be handed over to a destination.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pending {
    queued: [usize; 3],
    pub(super) parked: usize,
}

impl Pending {
    /// Rows of `outbox` in a lane.
    pub(super) fn queued(&self, lane: Lane) -> usize {
        self.queued[lane_index(lane)]
    }

    fn of(&mut self, queued: bool, lane: Lane) -> &mut usize {
        match queued {
            true => &mut self.queued[lane_index(lane)],
            false => &mut self.parked,
        }
    }
}

impl Rows {
    pub(super) fn new(destinations: usize) -> Self {
        Self {
            ready: Ready::of(destinations),
            pending_at: vec![Pending::default(); destinations],
            unstarted: vec![0; destinations],
            ..Self::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.len() == 0
    }

    /// The sizes of these books.
    pub(super) fn load(&self) -> Load {
        Load {
            queued: self.by_seq.len(),
            parked: self.parked.len(),
            bytes: self.bytes,
            decided: self.decided.len(),
            starts: self.starts.len(),
            keys: self.keys.len(),
            lines: self.lines.len(),
            ready: self.ready.len(),
            void: self.void_lines.len() + self.void_keys.len(),
            ..Load::default()
        }
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

    pub(super) fn pending_at(&self, destination: DestinationId) -> Pending {
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

    /// The places of rows that are still to be handed over to a destination, or answered by it.
    pub(super) fn undecided_at(&self, destination: DestinationId) -> impl Iterator<Item = Seq> + '_ {
        let undecided = move |item: &Item| {
            let delivery = item.at(destination);
            delivery.is_some_and(|one| matches!(one.state, State::Pending | State::InFlight(_)))
        };
        let items = self.items.ids().filter_map(|id| self.items.get(id));
        items.filter(move |item| undecided(item)).map(|item| item.seq)
    }

    pub(super) fn decided(&self) -> impl Iterator<Item = ItemId> + '_ {
        self.decided.iter().map(|(_, id)| *id)
    }

    pub(super) fn decided_len(&self) -> usize {
        self.decided.len()
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
        let nowhere = match &item.verdict {
            Some(Verdict::Leaves(Leaves::Decided { parked, .. })) => !parked.is_empty(),
            _ => false,
        };
        let decided = item.is_decided();
        let started = item.is_started();
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
        } else if !started {
            self.starts.insert((seq, id));
            self.count_unstarted(id, true);
        }
        id
    }

    /// Keeps the number of rows whose start is to be written.
    fn count_unstarted(&mut self, id: ItemId, more: bool) {
        let Some(item) = self.items.get(id) else { return };
        for delivery in &item.deliveries {
            let unstarted = &mut self.unstarted[delivery.destination.0];
            *unstarted = if more { *unstarted + 1 } else { *unstarted - 1 };
        }
    }

    /// A row's start is written, or it leaves without one.
    pub(super) fn strike_start(&mut self, id: ItemId) {
        let seq = self.items.get(id).map(|item| item.seq);
        if seq.is_some_and(|seq| self.starts.remove(&(seq, id))) {
            self.count_unstarted(id, false);
        }
    }

    /// Parked rows for a destination that wait for their start.
    pub(super) fn unstarted_at(&self, destination: DestinationId) -> usize {
        self.unstarted[destination.0]
    }

    fn join(&mut self, id: ItemId, index: usize, seq: Seq, queued: bool) {
        let Some(item) = self.items.get(id) else { return };
        let (delivery, lane) = (&item.deliveries[index], item.lane);
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
            *self.pending_at[destination.0].of(queued, lane) += 1;
        }
        self.make_ready(line_id);
    }

    /// Changes where a delivery stands and keeps its line's books.
    pub(super) fn set_state(&mut self, id: ItemId, index: usize, state: State, holds: bool) {
        let Some(item) = self.items.get_mut(id) else {
            return;
        };
        let (seq, lane, queued) = (item.seq, item.lane, item.is_queued());
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
        let pending_at = self.pending_at[destination.0].of(queued, lane);
        *pending_at = (*pending_at + usize::from(is_pending)).saturating_sub(usize::from(was_pending));
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

    /// Forgets a row. `void_to` names the last read whose word about what this row blocks must not be trusted.
    pub(super) fn remove(&mut self, id: ItemId, void_to: Option<Call>) -> Option<Item> {
        self.strike_start(id);
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
                    if entry.parking.remove(&item.seq) && void_to.is_some() {
                        entry.void_to = entry.void_to.max(void_to);
                        self.void_keys.insert(key.clone());
                    }
                }
            }
            Origin::Parked(parked) => {
                self.parked
                    .remove(&(item.shard, item.seq, parked.destination.clone()));
            }
        }
        for delivery in &item.deliveries {
            if matches!(delivery.state, State::Pending) {
                *self.pending_at[delivery.destination.0].of(item.is_queued(), item.lane) -= 1;
            }
            if let Some(line) = self.lines.get_mut(delivery.line) {
                line.members -= 1;
                line.waiting.remove(&item.seq);
                line.unsettled.remove(&item.seq);
                if line.parking.remove(&item.seq) && void_to.is_some() {
                    line.void_to = line.void_to.max(void_to);
                    self.void_lines.insert(delivery.line);
                }
            }
            self.make_ready(delivery.line);
            self.tidy_line(delivery.line);
        }
        self.tidy_key(&key);
        Some(item)
    }
}

pub(super) fn lane_index(lane: Lane) -> usize {
    match lane {
        Lane::High => 0,
        Lane::Normal => 1,
        Lane::Low => 2,
    }
}
