//! Handing over: which deliveries leave next, and in which call.

use std::collections::BTreeSet;

use postrider_core::{DestinationId, Lane, Seq};

use super::circuit::Room;
use super::item::{Item, ItemId, State};
use super::line::LineId;
use super::pace::Haste;
use super::{Call, Command, Engine, Outgoing, Plant, Time};

/// How often each lane is served in a round: the high one most, the low one never not at all.
const ROUND: [Lane; 7] = [
    Lane::High,
    Lane::Normal,
    Lane::High,
    Lane::Low,
    Lane::High,
    Lane::Normal,
    Lane::High,
];
/// A call carries at most this many payload bytes, unless a single event is larger.
const CALL_BYTES: usize = 4 << 20;

/// A publish call that is unanswered.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) destination: DestinationId,
    pub(super) entries: Vec<Entry>,
    pub(super) started: Time,
    /// Whether nothing else was in flight to the destination all the while.
    pub(super) alone: bool,
}

/// One delivery of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) item: ItemId,
    pub(super) index: usize,
    pub(super) line: LineId,
}

impl Engine {
    /// Hands over whatever may leave now.
    pub(super) fn send(&mut self, now: Time, out: &mut Vec<Command>) {
        if self.stop.is_some() || self.controls.paused || !self.leases.is_valid(now) {
            return;
        }
        for index in 0..self.circuits.len() {
            let destination = DestinationId(index);
            let mut passed = 0;
            // Suspects and the rest may pass the turn to each other once; when both have, there is nothing to send.
            while passed < 2 && self.rows.has_ready(destination) {
                let before = out.len();
                if !self.send_one(now, destination, out) {
                    break;
                }
                passed = if out.len() > before { 0 } else { passed + 1 };
            }
        }
    }

    /// One call to one destination; false when there is no room or nothing to send.
    fn send_one(&mut self, now: Time, destination: DestinationId, out: &mut Vec<Command>) -> bool {
        let ordered = self.sinks[destination.0].ordered_batches;
        let haste = match self.rows.has_ready_in(destination, Lane::High) {
            true => Haste::Now,
            false => self.reading.haste(now),
        };
        let room = self.circuits[destination.0].room(now, self.settings.batch_size, haste);
        let call = self.call();
        let (mut entries, mut outgoing) = (Vec::new(), Vec::new());
        match room {
            Room::None => return false,
            Room::Probe => {
                for line in self.rows.ready_lines(destination) {
                    self.drop_stale(now, line);
                }
                if let Some(line) = self.choose_probe(destination) {
                    self.take(line, 1, call, &mut entries, &mut outgoing);
                }
            }
            Room::Batch(size) | Room::Suspects(size) | Room::Urgent(size) => {
                let only_beside_high = matches!(room, Room::Urgent(_));
                let limits = (size, ordered, only_beside_high);
                self.fill(now, destination, limits, call, &mut entries, &mut outgoing);
            }
        }
        if entries.is_empty() {
            return self.pass_turn(destination, room);
        }
        let circuit = &mut self.circuits[destination.0];
        let alone = circuit.calls == 0;
        circuit.handed_over(entries.len(), room);
        if !alone {
            for flight in self
                .flights
                .values_mut()
                .filter(|flight| flight.destination == destination)
            {
                flight.alone = false;
            }
        }
        if self.planted(Plant::SettleBeforeConfirm) {
            for entry in &entries {
                self.rows.set_state(
                    entry.item,
                    entry.index,
                    State::Confirmed(Default::default()),
                    false,
                );
            }
        }
        self.flights.insert(
            call,
            Flight {
                destination,
                entries,
                started: now,
                alone,
            },
        );
        out.push(Command::Publish(call, destination, outgoing));
        true
    }

    /// Whoever has the turn and nothing to send gives it up: suspects to the rest, the rest to suspects that are ready.
    /// True when the other side should be asked.
    fn pass_turn(&mut self, destination: DestinationId, room: Room) -> bool {
        let ready = |line: LineId| self.is_suspect(destination, line) && self.line_may_send(line);
        let turn = match room {
            Room::Suspects(_) => {
                self.forget_suspects(destination);
                false
            }
            Room::Batch(_) => self.rows.ready_lines(destination).into_iter().any(ready),
            Room::Urgent(_) | Room::Probe | Room::None => return false,
        };
        self.circuits[destination.0].suspects.give_turn(turn);
        turn || matches!(room, Room::Suspects(_))
    }

    /// Suspects that are not in memory any more would keep their turn for ever, and with it everything else.
    fn forget_suspects(&mut self, destination: DestinationId) {
        let there: BTreeSet<Seq> = self.rows.undecided_at(destination).collect();
        self.circuits[destination.0]
            .suspects
            .keep(|seq| there.contains(&seq));
    }

    /// Whether the head of a line was in a call that was lost.
    fn is_suspect(&self, destination: DestinationId, line: LineId) -> bool {
        let suspects = &self.circuits[destination.0].suspects;
        let head = self
            .rows
            .line(line)
            .and_then(|line| line.waiting.first_key_value());
        !suspects.is_empty() && head.is_some_and(|(seq, _)| suspects.contains(*seq))
    }

    /// Takes from the lanes in turn, where the last call left off: calls that carry a single event serve the low lane
    /// too. What passes the pace for the sake of high events takes along only as many others as stand between them.
    fn fill(
        &mut self,
        now: Time,
        destination: DestinationId,
        (size, ordered, only_beside_high): (usize, bool, bool),
        call: Call,
        entries: &mut Vec<Entry>,
        outgoing: &mut Vec<Outgoing>,
    ) {
        let (mut empty, mut bytes) = (0, 0);
        // Half a batch for one key keeps a hot key fast and leaves room for the others.
        let per_line = if ordered { (size / 2).max(1) } else { 1 };
        let mut shut = Vec::new();
        let suspects = self.circuits[destination.0].suspects.room().is_some();
        while entries.len() < size && empty < ROUND.len() && bytes < CALL_BYTES {
            if only_beside_high && !self.rows.has_ready_in(destination, Lane::High) {
                break;
            }
            let turn = &mut self.circuits[destination.0].turn;
            let lane = ROUND[*turn];
            *turn = (*turn + 1) % ROUND.len();
            match self.rows.pop_ready(destination, lane) {
                None => empty += 1,
                // Passed over, and behind it in its lane others may stand: the lane is not empty.
                Some(line) if !self.may_send(now, line) || self.is_suspect(destination, line) != suspects => {
                    empty = 0;
                    shut.push(line);
                }
                Some(line) => {
                    empty = 0;
                    let careful = self
                        .rows
                        .line(line)
                        .is_some_and(|line| self.leases.is_careful(line.key.0));
                    let take = if careful || suspects {
                        1
                    } else {
                        per_line.min(size - entries.len())
                    };
                    bytes += self.take(line, take, call, entries, outgoing);
                }
            }
        }
        for line in shut {
            self.rows.make_ready(line);
        }
    }

    /// Probes rotate over rendered addresses first, then over keys, and take heads only.
    fn choose_probe(&mut self, destination: DestinationId) -> Option<LineId> {
        let circuit = &self.circuits[destination.0];
        let candidates = self.rows.ready_lines(destination);
        let best = candidates
            .into_iter()
            .filter(|line| self.line_may_send(*line))
            .filter_map(|id| {
                let line = self.rows.line(id)?;
                let head = self.rows.item(*line.waiting.first_key_value()?.1)?;
                let address = &head.at(destination)?.address;
                let suspect = circuit.suspects.contains(head.seq);
                Some((
                    (suspect, circuit.probed(address), line.probed, head.seq),
                    id,
                    address.clone(),
                ))
            })
            .min_by(|a, b| a.0.cmp(&b.0));
        let (_, line, address) = best?;
        let number = self.circuits[destination.0].probe(&address);
        self.rows.line_mut(line)?.probed = number;
        Some(line)
    }

    /// Takes up to `most` deliveries from the front of a line into a call; gives their bytes.
    fn take(
        &mut self,
        line_id: LineId,
        most: usize,
        call: Call,
        entries: &mut Vec<Entry>,
        outgoing: &mut Vec<Outgoing>,
    ) -> usize {
        let Some(line) = self.rows.line(line_id) else {
            return 0;
        };
        let is_started = |id: &ItemId| self.rows.item(*id).is_some_and(Item::is_started);
        let waiting = line.waiting.values().copied();
        let mut chosen: Vec<ItemId> = waiting.take_while(is_started).take(most).collect();
        if self.planted(Plant::ProbeFollowers) && most == 1 {
            chosen = line.waiting.values().next_back().copied().into_iter().collect();
        }
        let mut bytes = 0;
        for id in chosen {
            let Some(item) = self.rows.item(id) else { continue };
            let Some(index) = item.deliveries.iter().position(|one| one.line == line_id) else {
                continue;
            };
            let (Some(event), delivery) = (item.event.clone(), &item.deliveries[index]) else {
                continue;
            };
            bytes += item.bytes;
            outgoing.push(Outgoing {
                event,
                order_key: item.key.clone(),
                address: delivery.address.clone(),
                message_key: delivery.message_key.clone(),
                maybe_sent: delivery.maybe_sent,
                replay: item.replay.clone(),
                shard: item.shard,
            });
            entries.push(Entry {
                item: id,
                index,
                line: line_id,
            });
            self.rows.set_state(id, index, State::InFlight(call), false);
        }
        let overtake = self.planted(Plant::FollowersOvertake);
        if let Some(line) = self.rows.line_mut(line_id) {
            line.call = (!overtake).then_some(call);
        }
        self.rows.make_ready(line_id);
        bytes
    }
}
