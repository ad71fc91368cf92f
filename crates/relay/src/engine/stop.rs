//! Stopping and giving up shards: answer what is under way, settle, release.

use std::time::Duration;

use postrider_core::Park;

use super::item::{ItemId, State};
use super::note::Note;
use super::{Call, Command, Engine, Time};

/// After the deadline, so long remains to write down what is known and to give the shards up.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Stop {
    deadline: Time,
    /// The deadline has passed and what was unanswered was dropped.
    dropped: bool,
}

impl Stop {
    pub(super) fn next_deadline(&self) -> Time {
        if self.dropped {
            self.deadline + GRACE
        } else {
            self.deadline
        }
    }
}

impl Engine {
    pub(super) fn on_stop(&mut self, now: Time, drain_for: Duration) {
        let deadline = now + drain_for;
        self.stop.get_or_insert(Stop {
            deadline,
            dropped: false,
        });
        for held in self.leases.held.values_mut() {
            held.draining = true;
        }
    }

    /// At the deadline what is unanswered is dropped; what is known is still written and given up.
    pub(super) fn cut_short(&mut self, now: Time, out: &mut Vec<Command>) {
        let due = self
            .stop
            .as_mut()
            .filter(|stop| !stop.dropped && now >= stop.deadline);
        if let Some(stop) = due {
            stop.dropped = true;
            let calls: Vec<Call> = self.flights.keys().copied().collect();
            self.abandon(calls, out);
        }
    }

    /// Ends when every shard is given up and the database knows, or when the time is over.
    pub(super) fn finish(&mut self, now: Time, out: &mut Vec<Command>) {
        let Some(stop) = &self.stop else { return };
        let released = self.leases.held.is_empty() && self.leases.signed_off;
        let over = stop.dropped && now >= stop.next_deadline();
        if !released && !over {
            return;
        }
        for shard in self.leases.held.keys().copied().collect::<Vec<_>>() {
            out.push(Command::Note(Note::LeaseLost {
                shard,
                released: false,
            }));
        }
        self.finished = true;
        out.push(Command::Disarm);
        out.push(Command::Finished);
    }

    /// Rows that went to one destination and not yet to another are parked for the rest, together with the earlier
    /// rows of their keys: the next owner repeats nothing and overtakes nothing. The same goes for rows that may have
    /// been sent, because the next owner could not mark them, and for rows that are to be parked anyway, because they
    /// may not be while an earlier row of their key is queued.
    pub(super) fn park_half_sent(&mut self, items: &[ItemId]) {
        let mut parks = Vec::new();
        for id in items {
            let Some(item) = self.rows.item(*id) else { continue };
            if !item.is_queued() && !item.is_decided() {
                self.put_back(*id);
                continue;
            }
            if !item.is_queued()
                || item.settling
                || !(item.is_half_sent() || item.is_unsure() || item.parks())
            {
                continue;
            }
            parks.extend(
                self.rows
                    .members_to(&(item.shard, item.lane, item.key.clone()), item.seq),
            );
        }
        for id in parks {
            self.park_pending(id);
        }
    }

    fn park_pending(&mut self, id: ItemId) {
        let Some(item) = self.rows.item(id) else { return };
        let pending: Vec<(usize, Park)> = item
            .deliveries
            .iter()
            .enumerate()
            .filter(|(_, one)| matches!(one.state, State::Pending))
            .map(|(index, one)| {
                let name = self.router.destination(one.destination).name.clone();
                (index, Park::waiting(name, one.maybe_sent))
            })
            .collect();
        for (index, park) in pending {
            self.rows.set_state(id, index, State::Park(park), true);
        }
    }

    /// Drops calls. What they carried may have been sent, so it goes again marked.
    pub(super) fn abandon(&mut self, calls: Vec<Call>, out: &mut Vec<Command>) {
        if calls.is_empty() {
            return;
        }
        for call in &calls {
            let Some(flight) = self.flights.remove(call) else {
                continue;
            };
            self.circuits[flight.destination.0].landed(flight.entries.len());
            self.circuits[flight.destination.0].inconclusive();
            for entry in flight.entries {
                self.land(entry, *call, true);
            }
        }
        out.push(Command::Abandon(calls));
    }
}
