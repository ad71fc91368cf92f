//! Finding the one event that takes the connection down with it.
//!
//! When a call is lost, everything in it is suspect. Suspects go in calls of their own, with nothing else in flight,
//! each lost call half as large as the one before, in turns with calls that carry no suspect: so the rest flows on, and
//! an event that is alone in flight each time the connection is lost, others passing between, is found guilty.

use std::collections::{BTreeMap, BTreeSet};

use postrider_core::{ErrorKind, Seq};

/// Losses alone after which an event is guilty.
const STRIKES: u32 = 3;
/// How many suspects are remembered; the rest start over, which costs time and never an event.
const MOST: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Suspects {
    seqs: BTreeSet<Seq>,
    /// The size of the next call of suspects.
    cap: usize,
    /// The next call is theirs.
    turn: bool,
    flying: bool,
    /// How often each was alone, and how many successes there had been at the last time.
    strikes: BTreeMap<Seq, (u32, u64)>,
}

impl Suspects {
    /// Whether a failure of this kind may be an event's own doing. A nack is not: the queue is full, or short of
    /// replicas.
    pub(super) fn blames(kind: ErrorKind) -> bool {
        matches!(kind, ErrorKind::ConnectionLost | ErrorKind::TimedOut)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seqs.is_empty()
    }

    /// How many events are remembered, as suspects or for what they did.
    pub(super) fn len(&self) -> usize {
        self.seqs.len() + self.strikes.len()
    }

    pub(super) fn contains(&self, seq: Seq) -> bool {
        self.seqs.contains(&seq)
    }

    /// A call of suspects is unanswered: nothing else may be in flight.
    pub(super) fn is_flying(&self) -> bool {
        self.flying
    }

    /// How many suspects may go now; none when it is not their turn.
    pub(super) fn room(&self) -> Option<usize> {
        (self.turn && !self.seqs.is_empty()).then_some(self.cap.max(1))
    }

    pub(super) fn give_turn(&mut self, turn: bool) {
        self.turn = turn;
    }

    pub(super) fn handed_over(&mut self, suspects: bool) {
        self.flying = suspects;
        self.turn = !suspects && !self.seqs.is_empty();
    }

    pub(super) fn landed(&mut self) {
        self.flying = false;
    }

    /// An event was in a lost call of so many.
    pub(super) fn lost(&mut self, seq: Seq, size: usize) {
        self.cap = (size / 2).max(1);
        self.seqs.insert(seq);
        if self.seqs.len() > MOST {
            self.seqs.pop_last();
        }
    }

    /// An event was alone when the connection was lost. True when it is found guilty.
    pub(super) fn strike(&mut self, seq: Seq, successes: u64) -> bool {
        let (strikes, at) = self.strikes.entry(seq).or_insert((0, u64::MAX));
        if *at != successes {
            *strikes += 1;
            *at = successes;
        }
        let guilty = *strikes >= STRIKES;
        if self.strikes.len() > MOST {
            self.strikes.pop_last();
        }
        guilty
    }

    /// An event is decided: confirmed, or parked.
    pub(super) fn clear(&mut self, seq: Seq) {
        self.strikes.remove(&seq);
        self.seqs.remove(&seq);
    }

    /// Keeps only those that are still there: rows leave with their shard, or by an operator, without a word from here.
    pub(super) fn keep(&mut self, there: impl Fn(Seq) -> bool) {
        self.seqs.retain(|seq| there(*seq));
    }

    /// A call of suspects was confirmed: larger ones may follow.
    pub(super) fn relax(&mut self) {
        self.cap = self.cap.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_guilty_after_three_losses_alone_with_successes_between() {
        let mut suspects = Suspects::default();
        assert!(!suspects.strike(Seq(7), 1));
        assert!(
            !suspects.strike(Seq(7), 1),
            "nothing passed between: the destination may be down"
        );
        assert!(!suspects.strike(Seq(7), 2));
        assert!(suspects.strike(Seq(7), 3));
    }

    #[test]
    fn suspects_and_the_rest_take_turns() {
        let mut suspects = Suspects::default();
        assert_eq!(suspects.room(), None);
        for seq in 1..=10 {
            suspects.lost(Seq(seq), 10);
        }
        suspects.give_turn(true);
        assert_eq!(suspects.room(), Some(5));
        suspects.handed_over(true);
        assert!(suspects.is_flying());
        suspects.landed();
        assert_eq!(suspects.room(), None, "now the rest");
        suspects.handed_over(false);
        assert_eq!(suspects.room(), Some(5));
    }
}
