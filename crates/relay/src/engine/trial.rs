//! Trials: rows of shards whose owners keep ending are tried alone, so that one that ends the relay is known by it.
//!
//! One row of all these shards is on trial at a time, and the database knows which before it leaves. When the relay
//! ends, the next owner finds it there.

use postrider_core::{Seq, Shard, Suspect};

use super::item::{Item, State};
use super::lease::{Held, Leases};
use super::{Engine, Time};

/// Unclean ends of a shard in a row after which its rows are tried one at a time.
const CAREFUL_AFTER: u32 = Suspect::COUNTS_FROM;
/// Unclean ends in a row, the last three of them with the same row on trial, after which that row is found guilty.
const KILLER_AFTER: u32 = CAREFUL_AFTER + 3;
/// No row has this place: it clears the suspect of a shard.
const NOBODY: Seq = Seq(0);

impl Held {
    /// Whether its owners keep ending.
    pub(super) fn is_careful(&self) -> bool {
        self.unclean >= CAREFUL_AFTER
    }

    fn is_on_trial(&self) -> bool {
        self.trying.is_some_and(|(seq, _)| seq != NOBODY)
    }

    fn put_on_trial(&mut self, seq: Seq) {
        if self.trying.is_none_or(|(tried, _)| tried != seq) {
            self.trying = Some((seq, false));
        }
    }

    /// A suspect that waits for its turn stays one; whoever cannot leave now is not tried, and must not be suspected.
    fn acquit_unless(&mut self, lowest: Option<Seq>) {
        let suspected = self.suspect.is_some() && self.suspect != lowest;
        if suspected || self.is_on_trial() {
            self.suspect = None;
            self.trying = Some((NOBODY, false));
        }
    }
}

impl Leases {
    pub(super) fn is_careful(&self, shard: Shard) -> bool {
        self.held.get(&shard).is_some_and(Held::is_careful)
    }

    /// Whether a row has ended the relay every time it was tried alone.
    pub(super) fn is_killer(&self, shard: Shard, seq: Seq) -> bool {
        self.held
            .get(&shard)
            .is_some_and(|held| held.unclean >= KILLER_AFTER && held.suspect == Some(seq))
    }

    /// The shard whose row is tried alone: the one that is under way, else one with a suspect, else the first.
    fn next_on_trial(&self, careful: &[(Shard, Option<Seq>)]) -> Option<Shard> {
        let rank = |shard: Shard, lowest: Seq| {
            let held = self.held.get(&shard);
            let goes_on = held.is_some_and(|held| held.trying.is_some_and(|(seq, _)| seq == lowest));
            let suspected = held.is_some_and(|held| held.suspect == Some(lowest));
            (!goes_on, !suspected, shard)
        };
        let can_leave = careful
            .iter()
            .filter_map(|(shard, lowest)| lowest.map(|lowest| rank(*shard, lowest)));
        can_leave.min().map(|(_, _, shard)| shard)
    }

    /// A row that was tried alone was answered, whatever the answer: it does not end its relay. Told to the database,
    /// so that the next end of this relay is not held against the row.
    pub(super) fn survived(&mut self, shard: Shard, seq: Seq) {
        if let Some(held) = self
            .held
            .get_mut(&shard)
            .filter(|held| held.trying == Some((seq, true)))
        {
            held.suspect = None;
            held.trying = Some((NOBODY, false));
        }
    }
}

impl Engine {
    /// On shards whose owners keep ending, rows are tried alone: one of all these shards at a time, written down before
    /// it leaves. Whoever is on trial when the relay ends is suspected, so nobody is who is not really about to leave.
    pub(super) fn choose_suspects(&mut self, now: Time) {
        let careful: Vec<(Shard, Option<Seq>)> = self
            .leases
            .held
            .keys()
            .filter(|shard| self.leases.is_careful(**shard))
            .map(|shard| (*shard, self.lowest_to_leave(now, *shard)))
            .collect();
        let next = self.leases.next_on_trial(&careful);
        for (shard, lowest) in careful {
            let loaded = !self.rows.of_shard(shard).is_empty();
            if let Some(held) = self.leases.held.get_mut(&shard) {
                match lowest.filter(|_| next == Some(shard)) {
                    Some(seq) => held.put_on_trial(seq),
                    None if loaded => held.acquit_unless(lowest),
                    None => {}
                }
            }
        }
    }

    fn lowest_to_leave(&self, now: Time, shard: Shard) -> Option<Seq> {
        let items = self.rows.of_shard(shard);
        let items = items.iter().filter_map(|id| self.rows.item(*id));
        items
            .filter(|item| self.can_leave(now, item))
            .map(|item| item.seq)
            .min()
    }

    /// Whether a row is on its way, or at the front of a line to a destination that takes something. While the outbox
    /// is paused nothing starts.
    fn can_leave(&self, now: Time, item: &Item) -> bool {
        item.deliveries.iter().any(|one| match one.state {
            State::InFlight(_) => true,
            State::Pending if self.controls.paused => false,
            State::Pending => {
                let first = self
                    .rows
                    .line(one.line)
                    .and_then(|line| line.waiting.first_key_value());
                first.is_some_and(|(seq, _)| *seq == item.seq)
                    && !self.circuits[one.destination.0].is_shut(now)
            }
            _ => false,
        })
    }
}
