//! Verbs on parked rows, in steps.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{Act, Chunk, EventId, EventRecord, Filter, Job, Seq, Status, Verb};

use super::audit::Deed;
use super::record::record_of;
use super::{Model, Parked, Place, cursor, time};

/// Which rows a step may take.
pub(super) struct Stride<'a> {
    pub(super) verb: &'a Verb,
    pub(super) filter: &'a Filter,
    /// The job that it is a step of.
    pub(super) job: Option<&'a Job>,
    /// Behind this place.
    pub(super) from: Option<Place>,
    /// At or before this one.
    pub(super) bound: Seq,
    pub(super) limit: u32,
}

/// What a step takes.
#[derive(Default)]
pub(super) struct Chosen {
    pub(super) places: BTreeSet<Place>,
    pub(super) refused: Vec<(EventId, Status)>,
    /// The last row that was looked at.
    pub(super) last: Option<Place>,
    /// Whether there are more.
    pub(super) more: bool,
}

impl Model {
    /// One step of a verb whose cursor is the caller's; see `Console::act`.
    pub fn act(&mut self, now: Duration, act: &Act, from: Option<Place>) -> Chunk {
        let mut chosen = self.choose(
            now,
            Stride {
                verb: &act.verb,
                filter: &act.filter,
                job: None,
                from,
                bound: Seq::MAX,
                limit: act.limit,
            },
        );
        let touched = chosen
            .places
            .iter()
            .map(|place| self.parked[place].row.event_id());
        let told = touched.chain(chosen.refused.iter().map(|(id, _)| id));
        let told: BTreeSet<EventId> = told.cloned().collect();
        for id in act.unheard(&told, &BTreeSet::new()) {
            let records = self.with_id(now, id);
            chosen
                .refused
                .extend(act.heard(&records, !chosen.more, time(now)));
        }
        let touched = chosen.places.len() as u64;
        if !act.dry_run {
            self.apply(now, &act.verb, &chosen.places);
            self.note(
                now,
                Deed {
                    touched,
                    event_id: act.filter.only_id().cloned(),
                    ..Deed::of(&act.actor, act.verb.as_str(), act.detail())
                },
            );
        }
        Chunk {
            touched,
            refused: chosen.refused,
            next: chosen.last.filter(|_| chosen.more).as_ref().map(cursor),
        }
    }

    /// The next rows that a verb is about, in the order of their places: what is left undone by a caller that dies is
    /// the end of every key.
    pub(super) fn choose(&self, now: Duration, stride: Stride<'_>) -> Chosen {
        let mut chosen = Chosen::default();
        for (place, parked) in &self.parked {
            let in_reach = stride.from.as_ref().is_none_or(|from| place > from) && place.0 <= stride.bound;
            let route = self.parked_route(now, parked);
            let record = record_of(&parked.row);
            let is_meant = match stride.job {
                Some(job) => job.means(&record, &route),
                None => stride.filter.matches(&record, &route, time(now)),
            };
            if !in_reach || !is_meant {
                continue;
            }
            if chosen.places.len() + chosen.refused.len() >= stride.limit.max(1) as usize {
                chosen.more = true;
                break;
            }
            if stride.verb.suits(route.status, parked.row.key.is_alone()) {
                chosen.places.insert(place.clone());
            } else {
                chosen.refused.push((parked.row.event_id().clone(), route.status));
            }
            chosen.last = Some(place.clone());
        }
        chosen
    }

    pub(super) fn apply(&mut self, now: Duration, verb: &Verb, places: &BTreeSet<Place>) {
        let is_chosen = |parked: &Parked| places.contains(&(parked.row.seq, parked.destination.clone()));
        match verb {
            Verb::Redrive => self.redrive(now, is_chosen),
            Verb::Discard(reason) => self.discard(now, reason, is_chosen),
            Verb::Move(by) => self.move_to(now, *by, is_chosen),
        };
    }

    /// Every record that has the id.
    pub(super) fn with_id(&self, now: Duration, id: &EventId) -> Vec<EventRecord> {
        let records = self.records(now).into_values();
        records.filter(|record| record.event_id == *id).collect()
    }
}
