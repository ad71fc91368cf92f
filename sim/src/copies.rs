//! What must hold for the copies of a replay: they are judged among themselves, and change nothing for the others.

use std::collections::{BTreeMap, BTreeSet};

use postrider_core::{DestinationName, EventId, JobId, Lane, Seq};
use postrider_testkit::model::Parked;

use crate::check::Arrival;
use crate::writers::{Writers, Written};

/// One copy: of which replay, of which event, for which destination.
pub(crate) type Copy = (JobId, EventId, DestinationName);

/// Copies keep order among those of one replay, key, lane and destination.
type Line = (JobId, String, Lane, DestinationName);

#[derive(Debug, Default)]
pub(crate) struct Copies {
    made: BTreeSet<Copy>,
    /// Arrived, and whether from a relay that had lost the right to send it.
    seen: BTreeMap<Copy, bool>,
    highest: BTreeMap<Line, Seq>,
    given_up: BTreeSet<Copy>,
}

impl Copies {
    /// A copy is in the table.
    pub(crate) fn made(&mut self, parked: &Parked) {
        self.made.extend(copy_of(parked));
    }

    /// A person threw a copy away, or took it back.
    pub(crate) fn given_up(&mut self, parked: &Parked) {
        self.given_up.extend(copy_of(parked));
    }

    /// A copy arrives. Gives what is wrong with that.
    pub(crate) fn arrived(
        &mut self,
        arrival: &Arrival,
        replay: &JobId,
        written: &Written,
        writers: &Writers,
        ordered: bool,
    ) -> Option<String> {
        let (event, destination) = (&arrival.event, &arrival.destination);
        let copy = (replay.clone(), event.clone(), destination.clone());
        if let Some(stray) = self.seen.get(&copy) {
            // An id that was written twice may have been sent twice, and is then copied twice.
            let excused = arrival.stray || *stray || writers.repeated.contains(event);
            return (!arrival.marked && !excused).then(|| {
                format!("marks: a copy of {event} arrived at {destination} again and does not say so")
            });
        }
        self.seen.insert(copy, arrival.stray);
        if arrival.stray || !ordered || writers.repeated.contains(event) {
            return None;
        }
        let line = (
            replay.clone(),
            written.key.clone(),
            written.lane,
            destination.clone(),
        );
        let highest = self.highest.entry(line).or_insert(written.seq);
        let passed = *highest > written.seq;
        *highest = written.seq.max(*highest);
        passed.then(|| format!("R1: a copy of {event} arrived at {destination} after that of a later event"))
    }

    pub(crate) fn was_made(&self, copy: &Copy) -> bool {
        self.made.contains(copy)
    }

    pub(crate) fn has_arrived(&self, copy: &Copy) -> bool {
        self.seen.contains_key(copy)
    }

    /// Copies that were made and neither arrived nor were given up.
    pub(crate) fn lost(&self) -> impl Iterator<Item = &Copy> {
        let left = self.made.iter().filter(|copy| !self.seen.contains_key(copy));
        left.filter(|copy| !self.given_up.contains(copy))
    }
}

fn copy_of(parked: &Parked) -> Option<Copy> {
    let replay = JobId(parked.row.replay.clone()?);
    Some((replay, parked.row.event.id.clone(), parked.destination.clone()?))
}
