//! Settling: the one write that says what became of a batch.
//!
//! A settle that no correct engine sends (a row that leaves to nowhere, a row without a destination that was published)
//! would lose an event without a trace. A real store cannot tell; the model panics, so that a simulated run ends there.

use std::time::Duration;

use postrider_core::{
    DestinationName, Leaves, Park, Settle, SettleParked, SettleQueued, Settled, Shard, Then,
};

use super::{Fate, Model, Parked, Place, Record, Row, Tries};

impl Model {
    /// Writes what became of a batch; see `Store::settle`.
    ///
    /// # Panics
    ///
    /// Where a row that is routed anew shares the settle with another of its place: relays promise that they do not.
    pub fn settle(&mut self, now: Duration, settle: &Settle) -> Vec<Settled> {
        for anew in &settle.parked {
            let splits = matches!(anew.then, Then::Split(_));
            let here = settle.parked.iter().filter(|entry| entry.seq == anew.seq);
            assert!(!splits || here.count() == 1, "{anew:?} is not alone at its place");
        }
        let mut answers = Vec::with_capacity(settle.queued.len() + settle.parked.len());
        for entry in &settle.queued {
            answers.push(self.fenced(settle, entry.shard, |model| model.settle_queued(now, entry)));
        }
        for entry in &settle.parked {
            answers.push(self.fenced(settle, entry.shard, |model| model.settle_parked(now, entry)));
        }
        answers
    }

    /// Runs a write if the fence holds, and notes that the shard's owner got something done. A shard that the fence
    /// does not name has no right to be written.
    fn fenced(&mut self, settle: &Settle, shard: Shard, write: impl FnOnce(&mut Self) -> Settled) -> Settled {
        let index = usize::from(shard.0);
        let holds = self
            .shards
            .get(index)
            .is_some_and(|state| settle.fence.contains(&(shard, state.token)));
        if !holds {
            return Settled::Fenced;
        }
        let settled = write(self);
        if settled == Settled::Done {
            self.shards[index].unclean = 0;
            self.shards[index].suspect = None;
            self.shards[index].on_trial = false;
        }
        settled
    }

    fn settle_queued(&mut self, now: Duration, entry: &SettleQueued) -> Settled {
        let named = self
            .rows
            .get(&entry.seq)
            .is_some_and(|row| *row.event_id() == entry.event_id && row.shard == entry.shard);
        let Some(mut row) = named.then(|| self.take_queued(entry.seq)).flatten() else {
            return Settled::Gone;
        };
        match &entry.leaves {
            Leaves::Decided { sent, parked } => {
                assert!(
                    !sent.is_empty() || !parked.is_empty(),
                    "a settle sends {:?} nowhere: it would be lost",
                    entry.event_id
                );
                for (destination, receipt) in sent {
                    let fate = Fate::Sent(receipt.clone());
                    self.record_sent(now, row.clone(), destination.clone(), fate, Tries::default());
                }
                row.key = entry.key.clone();
                for park in parked {
                    self.park(Parked::new(now, row.clone(), park, 1));
                }
            }
            Leaves::Duplicate => self.counters.duplicates += 1,
            Leaves::Dropped => self.counters.dropped += 1,
        }
        Settled::Done
    }

    fn settle_parked(&mut self, now: Duration, entry: &SettleParked) -> Settled {
        let place = (entry.seq, entry.destination.clone());
        let Some(parked) = self
            .parked
            .get_mut(&place)
            .filter(|parked| parked.row.shard == entry.shard)
        else {
            return Settled::Gone;
        };
        let current = parked.version == entry.version;
        match &entry.then {
            // The row stayed for what was edited since: the settle was written before.
            Then::Sent(_)
                if parked.read_as(entry.version).is_some() && parked.sent_as >= Some(entry.version) =>
            {
                return Settled::Gone;
            }
            Then::Sent(receipt) => {
                let Some(destination) = entry.destination.clone() else {
                    panic!("a settle says that {:?} was published, but not where", entry.seq);
                };
                let (row, tries) = match parked.read_as(entry.version).cloned() {
                    // What was read was sent, and what the person wrote is still to be.
                    Some(event) => {
                        parked.version += 1;
                        parked.maybe_sent = true;
                        parked.sent_as = Some(entry.version);
                        let row = Row {
                            event,
                            ..parked.row.clone()
                        };
                        (row, parked.tries())
                    }
                    None => {
                        let parked = self.unpark(&place);
                        let tries = parked.tries();
                        (parked.row, tries)
                    }
                };
                self.record_sent(now, row, destination, Fate::Sent(receipt.clone()), tries);
            }
            Then::Duplicate if parked.read_as(entry.version).is_some() => return Settled::Gone,
            Then::Duplicate => {
                self.unpark(&place);
                self.counters.duplicates += 1;
            }
            Then::Again(_) | Then::Split(_) if !current => return Settled::Gone,
            Then::Again(park) => {
                assert_eq!(
                    park.destination, entry.destination,
                    "a row that stays keeps its destination; a new one is a split"
                );
                parked.write(now, park);
                parked.version += 1;
            }
            Then::Split(parks) => {
                assert!(
                    parks.iter().all(|park| park.destination != entry.destination),
                    "a row that is routed anew leaves its destination; one that stays is changed"
                );
                self.split(now, &place, parks);
            }
        }
        Settled::Done
    }

    /// Replaces a row. Where the event is parked for a destination already, that row stays: it has a history of
    /// attempts, and the event is owed there once; but what a person has changed goes along, unless somebody has
    /// changed the row that stays. Replaced by nothing, the event was dropped by its new route.
    fn split(&mut self, now: Duration, place: &Place, parks: &[Park]) {
        let old = self.unpark(place);
        self.lead_next(&old);
        for park in parks {
            let is_edited = !old.edits.is_empty();
            match self.parked.get_mut(&(old.row.seq, park.destination.clone())) {
                Some(there) if is_edited && there.edits.is_empty() => {
                    let before = std::mem::replace(&mut there.row.event, old.row.event.clone());
                    there.version += 1;
                    there.edits.push((there.version, before));
                }
                Some(_) => {}
                None => {
                    let mut parked = Parked::new(now, old.row.clone(), park, old.version + 1);
                    parked.before = old.failed_before().filter(|_| parked.failure.is_none());
                    let edit = is_edited.then(|| (parked.version, old.row.event.clone()));
                    parked.edits.extend(edit);
                    self.park(parked);
                }
            }
        }
        if parks.is_empty() {
            self.counters.dropped += 1;
        }
    }

    /// Whoever had the first of a key routed anew means those that wait behind it: each leads the next one.
    fn lead_next(&mut self, old: &Parked) {
        let line = self.line_of(&old.row).and_then(|line| line.get(&old.destination));
        let behind = line.into_iter().flat_map(|places| places.range(old.row.seq..));
        let behind: Vec<_> = behind.map(|seq| (*seq, old.destination.clone())).collect();
        let next = behind
            .iter()
            .find(|place| self.parked.get(place).is_some_and(|next| !next.dead));
        if let Some(next) = next
            .filter(|_| old.destination.is_some())
            .and_then(|place| self.parked.get_mut(place))
        {
            next.redriven = true;
            next.version += 1;
        }
    }

    pub(super) fn park(&mut self, parked: Parked) {
        let line = (parked.row.shard, parked.row.key.clone(), parked.row.lane);
        let place = (parked.row.seq, parked.destination.clone());
        self.lines
            .entry(line)
            .or_default()
            .entry(parked.destination.clone())
            .or_default()
            .insert(parked.row.seq);
        let other = self.parked.insert(place, parked);
        assert!(
            other.is_none(),
            "a settle parks one event twice for one destination"
        );
    }

    pub(super) fn unpark(&mut self, place: &Place) -> Parked {
        let parked = self
            .parked
            .remove(place)
            .expect("the caller has just seen this row");
        let key = (parked.row.shard, parked.row.key.clone(), parked.row.lane);
        if let Some(line) = self.lines.get_mut(&key) {
            if let Some(seqs) = line.get_mut(&parked.destination) {
                seqs.remove(&place.0);
                // Reads take an entry of a line to mean that something is parked there.
                if seqs.is_empty() {
                    line.remove(&parked.destination);
                }
            }
            if line.is_empty() {
                self.lines.remove(&key);
            }
        }
        parked
    }

    fn record_sent(
        &mut self,
        now: Duration,
        row: Row,
        destination: DestinationName,
        fate: Fate,
        tries: Tries,
    ) {
        self.counters.sent += u64::from(row.replay.is_none());
        self.record(Record {
            row,
            destination: Some(destination),
            fate,
            at: now,
            tries,
        });
    }

    pub(super) fn record(&mut self, record: Record) {
        let n = self.next_record;
        self.next_record += 1;
        self.history_by_id
            .entry(record.row.event_id().clone())
            .or_default()
            .insert(n);
        self.history.insert(n, record);
    }
}
