//! How much room there is for rows: each lane has its own, and what waits for a destination that is slow leaves some to
//! the others.

use postrider_core::{DestinationId, Lane};

use super::pace::Haste;
use super::rows::lane_index;
use super::{Engine, Time};

/// Due heads in memory, at most.
const HEADS: usize = 256;

impl Engine {
    /// How many queued rows of a lane may be in memory. Each lane has room of its own, so that a backlog in one never
    /// keeps the others from being read.
    pub(super) fn lane_cap(&self, lane: Lane) -> usize {
        let share = [2, 1, 4][lane_index(lane)];
        (self.settings.window / share).max(1)
    }

    pub(super) fn free_in(&self, lane: Lane) -> usize {
        self.lane_cap(lane).saturating_sub(self.rows.in_lane(lane))
    }

    /// Whether a lane has room for a good part of what fits in. A read of a few rows costs the database nearly as much
    /// as one of many; and while something urgent may come, which waits for the read under way to end, the other lanes
    /// are read half as full.
    pub(super) fn is_worth_reading(&self, now: Time, lane: Lane) -> bool {
        let part = match (self.reading.haste(now), lane) {
            (Haste::None, _) | (_, Lane::High) => 8,
            _ => 2,
        };
        self.free_in(lane) >= (self.lane_cap(lane) / part).max(1)
    }

    /// How many heads there is room for. What waits for a destination that can take no more leaves room for the
    /// others'.
    pub(super) fn free_heads(&self, crowded: &[bool]) -> usize {
        let waiting = |index| self.rows.pending_at(DestinationId(index)).parked;
        let held_up: usize = (0..crowded.len())
            .filter(|index| crowded[*index])
            .map(waiting)
            .sum();
        let taken = self.rows.parked_len().saturating_sub(held_up);
        HEADS.min(self.settings.window).saturating_sub(taken)
    }

    /// Whether a destination that can take no more, or only so many in a second, has enough in memory already: more of
    /// its parked rows would crowd out those of others.
    pub(super) fn is_crowded(&self, index: usize) -> bool {
        let others = self.circuits.len() - 1;
        let enough = HEADS.min(self.settings.window) / 2;
        let waiting = self.rows.pending_at(DestinationId(index)).parked;
        others > 0 && waiting > enough && self.circuits[index].is_slow()
    }
}
