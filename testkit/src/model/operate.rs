//! What operators do beside running relays.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{DestinationName, Limits, OrderKey, Seq, Status};

use super::{Fate, Model, Parked, Place, Record, rows};

impl Model {
    /// Sends parked rows again: of those that match, the dead and the refused. One that stands behind another of its
    /// key waits for it, because reads decide that. Answers the rows touched.
    pub fn redrive(&mut self, now: Duration, mut matches: impl FnMut(&Parked) -> bool) -> Vec<Seq> {
        let mut touched = Vec::new();
        for parked in self.parked.values_mut() {
            if parked.can_redrive() && matches(parked) {
                parked.redrive(now);
                touched.push(parked.row.seq);
            }
        }
        touched
    }

    /// Throws parked rows away; they move into the history as discarded. Answers the rows touched.
    pub fn discard(
        &mut self,
        now: Duration,
        reason: &str,
        mut matches: impl FnMut(&Parked) -> bool,
    ) -> Vec<Seq> {
        let places: Vec<_> = self
            .parked
            .iter()
            .filter(|(_, parked)| matches(parked))
            .map(|(place, _)| place.clone())
            .collect();
        for place in &places {
            let parked = self.unpark(place);
            self.counters.discarded += 1;
            self.record(Record {
                tries: parked.tries(),
                row: parked.row,
                destination: parked.destination,
                fate: Fate::Discarded(reason.to_owned()),
                at: now,
            });
        }
        places.into_iter().map(|(seq, _)| seq).collect()
    }

    /// Gives scheduled rows another time. Answers the rows touched.
    pub fn move_to(
        &mut self,
        now: Duration,
        by: Duration,
        mut matches: impl FnMut(&Parked) -> bool,
    ) -> Vec<Seq> {
        let mut touched = Vec::new();
        for parked in self.parked.values_mut() {
            if parked.can_move(now) && matches(parked) {
                parked.version += 1;
                parked.next_attempt = now.saturating_add(by);
                let available_at = Some(rows::timestamp(parked.next_attempt));
                Arc::make_mut(&mut parked.row.event).available_at = available_at;
                touched.push(parked.row.seq);
            }
        }
        touched
    }

    /// Puts a parked row back as it was. No database offers this: it is what a planted bug does.
    pub fn put_parked(&mut self, parked: Parked) {
        let place = (parked.row.seq, parked.destination.clone());
        if !self.parked.contains_key(&place) {
            self.park(parked);
        }
    }

    /// Puts a parked row into the line of another key. No database offers this either.
    pub fn put_in_line(&mut self, place: &Place, key: OrderKey) {
        if self.parked.contains_key(place) {
            let mut parked = self.unpark(place);
            parked.row.key = key;
            self.park(parked);
        }
    }

    /// Pauses or resumes a destination, or everything.
    pub fn pause(&mut self, destination: Option<&DestinationName>, paused: bool) {
        let Some(destination) = destination else {
            self.controls.paused = paused;
            return;
        };
        let names = &mut self.controls.paused_destinations;
        names.retain(|name| name != destination);
        if paused {
            names.push(destination.clone());
            names.sort();
        }
    }

    /// Changes the limits of a destination; none: as configured.
    pub fn limit(&mut self, destination: DestinationName, limits: Option<Limits>) {
        match limits {
            Some(limits) => self.controls.limits.insert(destination, limits),
            None => self.controls.limits.remove(&destination),
        };
    }

    /// What people see of a parked row. A row that failed is shown as such wherever it stands; of the others, those
    /// behind another wait, those with a time ahead are scheduled, and the rest is held by its destination.
    pub fn status_of(&self, now: Duration, parked: &Parked) -> Status {
        if parked.dead {
            return Status::DeadLetter;
        }
        if parked.failure.is_some() {
            return Status::Retrying;
        }
        if self.paused_keys.contains(&parked.row.key) {
            return Status::Held;
        }
        if self.head_of(parked).is_some() {
            return Status::Waiting;
        }
        if parked.next_attempt > now {
            return Status::Scheduled;
        }
        Status::Held
    }

    /// The first of the line that a row stands in, where that is another.
    pub(super) fn head_of(&self, parked: &Parked) -> Option<&Parked> {
        let line = self.line_of(&parked.row)?;
        let first = |destination: &Option<DestinationName>| {
            let first = line.get(destination).and_then(|seqs| seqs.first());
            first.map(|seq| (*seq, destination.clone()))
        };
        let heads = [first(&None), first(&parked.destination)];
        let head = heads.into_iter().flatten().min()?;
        self.parked
            .get(&head)
            .filter(|head| head.row.seq < parked.row.seq)
    }
}
