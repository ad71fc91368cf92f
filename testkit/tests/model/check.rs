//! What must hold after every step: the sentences of the contract, by looking at every row.

use std::collections::BTreeSet;

use postrider_core::{Blocked, DestinationName, Lane, ParkedRange, Range, Read, Seq, Shard};
use postrider_testkit::model::{Parked, Row};

use crate::world::{SHARDS, World, name};

impl World {
    /// Everything that must hold at any time.
    pub(crate) fn check(&mut self) {
        let queued: BTreeSet<Seq> = self.model.queued().map(|row| row.seq).collect();
        let parked: BTreeSet<Seq> = self.model.parked().map(|parked| parked.row.seq).collect();
        let history: BTreeSet<Seq> = self.model.history().map(|record| record.row.seq).collect();
        let left: BTreeSet<Seq> = parked.union(&history).copied().collect();
        assert!(
            queued.is_disjoint(&left),
            "a row is queued until it is decided, and never after"
        );
        for seq in &self.committed {
            assert!(
                queued.contains(seq) || left.contains(seq) || self.gone.contains(seq),
                "{seq:?} is lost"
            );
        }
        assert!(
            queued.union(&left).all(|seq| self.committed.contains(seq)),
            "a row of nobody"
        );
        let undecided = self
            .model
            .undecided()
            .map(|row| row.seq)
            .min()
            .unwrap_or(Seq::MAX);
        assert!(self.model.horizon() < undecided);
        for ((shard, state), known) in self.model.owners().zip(&mut self.tokens) {
            assert!(state.token >= known.1);
            assert!(
                state.owner == known.0 || state.token > known.1,
                "{shard:?} changed hands under one token"
            );
            *known = (state.owner.clone(), state.token);
        }
        for skip_dead in [vec![], vec![name(0)]] {
            self.check_read(&skip_dead);
        }
    }

    fn check_read(&self, skip_dead: &[DestinationName]) {
        let ranges = (0..SHARDS).flat_map(|shard| Lane::ALL.map(|lane| (Shard(shard), lane)));
        let read = Read {
            ranges: ranges
                .map(|(shard, lane)| Range {
                    shard,
                    lane,
                    floor: Seq(0),
                    skip: vec![],
                    limit: 1_000,
                })
                .collect(),
            max_bytes: usize::MAX,
            parked: ParkedRange {
                shards: (0..SHARDS).map(Shard).collect(),
                heads: 1_000,
                ..ParkedRange::default()
            },
            skip_dead: skip_dead.to_vec(),
        };
        let page = self.model.read(self.now, &read);
        let due: BTreeSet<_> = page
            .parked
            .iter()
            .map(|row| (row.row.seq, row.destination.clone()))
            .collect();
        let wanted = self
            .model
            .parked()
            .filter(|parked| self.is_due(parked, skip_dead));
        assert_eq!(
            due,
            wanted
                .map(|parked| (parked.row.seq, parked.destination.clone()))
                .collect()
        );
        assert_eq!(page.queued.len(), self.model.queued().count());
        for row in &page.queued {
            let stored = self
                .model
                .queued()
                .find(|stored| stored.seq == row.seq)
                .expect("read from nowhere");
            assert_eq!(row.blocked, self.blocked(stored, skip_dead), "{row:?}");
        }
    }

    /// The rule as it is written, by looking at every other row.
    fn is_due(&self, parked: &Parked, skip_dead: &[DestinationName]) -> bool {
        let ahead = |other: &Parked| {
            let in_line = other.destination == parked.destination || other.destination.is_none();
            one_key(&other.row, &parked.row)
                && other.row.seq < parked.row.seq
                && in_line
                && !passed(other, skip_dead)
        };
        !parked.dead && parked.next_attempt <= self.now && !self.model.parked().any(ahead)
    }

    fn blocked(&self, row: &Row, skip_dead: &[DestinationName]) -> Blocked {
        let standing = |other: &&Parked| one_key(&other.row, row) && !passed(other, skip_dead);
        let at: BTreeSet<_> = self
            .model
            .parked()
            .filter(standing)
            .map(|other| other.destination.clone())
            .collect();
        if at.contains(&None) {
            return Blocked::Everywhere;
        }
        let at: Vec<_> = at.into_iter().flatten().collect();
        if at.is_empty() {
            Blocked::Nowhere
        } else {
            Blocked::At(at)
        }
    }
}

fn passed(parked: &Parked, skip_dead: &[DestinationName]) -> bool {
    parked.dead
        && parked
            .destination
            .as_ref()
            .is_some_and(|name| skip_dead.contains(name))
}

fn one_key(a: &Row, b: &Row) -> bool {
    (&a.key, a.lane) == (&b.key, b.lane)
}
