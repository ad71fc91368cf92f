//! The queues of lines that can hand something over, one for each destination and lane: first come, first served, and a
//! line that has nothing left leaves from wherever it stands.

use std::collections::BTreeMap;

use postrider_core::{DestinationId, Lane};

use super::line::LineId;
use super::rows::lane_index;

/// Where a line stands in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

#[derive(Debug, Default)]
pub(super) struct Ready {
    queues: Vec<[BTreeMap<Ticket, LineId>; 3]>,
    given: u64,
}

impl Ready {
    pub(super) fn of(destinations: usize) -> Self {
        Self {
            queues: (0..destinations).map(|_| Default::default()).collect(),
            given: 0,
        }
    }

    pub(super) fn push(&mut self, queue: (DestinationId, Lane), line: LineId) -> Ticket {
        self.given += 1;
        let ticket = Ticket(self.given);
        self.queue(queue).insert(ticket, line);
        ticket
    }

    pub(super) fn remove(&mut self, queue: (DestinationId, Lane), ticket: Ticket) {
        self.queue(queue).remove(&ticket);
    }

    pub(super) fn pop(&mut self, queue: (DestinationId, Lane)) -> Option<LineId> {
        self.queue(queue).pop_first().map(|(_, line)| line)
    }

    pub(super) fn is_empty(&self, destination: DestinationId) -> bool {
        self.queues[destination.0].iter().all(BTreeMap::is_empty)
    }

    pub(super) fn has(&self, (destination, lane): (DestinationId, Lane)) -> bool {
        !self.queues[destination.0][lane_index(lane)].is_empty()
    }

    /// How many lines stand in all queues.
    pub(super) fn len(&self) -> usize {
        self.queues.iter().flatten().map(BTreeMap::len).sum()
    }

    pub(super) fn all(&self, destination: DestinationId) -> impl Iterator<Item = LineId> + '_ {
        self.queues[destination.0]
            .iter()
            .flat_map(|queue| queue.values().copied())
    }

    fn queue(&mut self, (destination, lane): (DestinationId, Lane)) -> &mut BTreeMap<Ticket, LineId> {
        &mut self.queues[destination.0][lane_index(lane)]
    }
}
