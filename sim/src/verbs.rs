//! What people do with parked rows: send again, change, throw away, give another time.

use std::collections::BTreeMap;

use postrider_core::{Act, DestinationName, Edit, Filter, Payload, Seq, Verb};
use postrider_relay::engine::Plant;
use postrider_testkit::model::Parked;

use crate::faults::Fault;
use crate::world::World;

/// Where a parked row is.
type Place = (Seq, Option<DestinationName>);

impl World {
    /// Sends a share of everything again.
    pub(crate) fn redrive(&mut self, share: f64) {
        self.plant_past_heads();
        let (now, mut rng) = (self.now, self.rng.clone());
        let before = self.parked_now();
        self.db.model.redrive(now, |_| rng.chance(share));
        self.rng = rng;
        if self.note_changes(&before, true) {
            self.faults.count(Fault::Redrive);
        }
    }

    /// Throws a share of everything, or of the dead, away.
    pub(crate) fn discard(&mut self, share: f64, only_dead: bool) {
        let (now, mut rng) = (self.now, self.rng.clone());
        let before = self.parked_now();
        self.db.model.discard(now, "simulated", |parked| {
            (parked.dead || !only_dead) && rng.chance(share)
        });
        self.rng = rng;
        if self.note_changes(&before, false) {
            self.faults.count(Fault::Discard);
        }
    }

    /// Sends one event again, or a key, a group, a destination, or all.
    pub(crate) fn redrive_some(&mut self) {
        let Some(filter) = self.some_filter() else { return };
        self.plant_past_heads();
        self.act(Verb::Redrive, filter);
    }

    /// Throws one event away, or a group.
    pub(crate) fn discard_some(&mut self) {
        let Some(filter) = self.some_filter() else { return };
        let one = !filter.event_id.is_empty() || filter.error_group.is_some();
        if one {
            self.act(Verb::Discard("simulated".to_owned()), filter);
        }
    }

    fn act(&mut self, verb: Verb, filter: Filter) {
        let redrives = verb == Verb::Redrive;
        let act = Act {
            verb,
            filter,
            dry_run: false,
            actor: "simulated".to_owned(),
            limit: self.people.between(1, 60) as u32,
            from: None,
        };
        let before = self.parked_now();
        self.say(|| format!("operator: {act:?}"));
        self.db.model.act(self.now, &act, None);
        if self.note_changes(&before, redrives) {
            let fault = if redrives { Fault::Redrive } else { Fault::Discard };
            self.faults.count(fault);
        }
    }

    /// Changes the payload of an event that failed, and sends it again.
    pub(crate) fn edit(&mut self) {
        let failed: Vec<_> = self
            .db
            .model
            .parked()
            .filter(|parked| parked.can_redrive())
            .map(|parked| (parked.row.event.id.clone(), parked.destination.clone()))
            .collect();
        let Some((event_id, destination)) = self.people.pick(&failed).cloned() else {
            return;
        };
        let edit = Edit {
            event_id: event_id.clone(),
            destination: destination.filter(|_| self.people.chance(0.5)),
            payload: Payload::Text(format!("{{\"edited\":{}}}", self.id())),
            content_type: None,
            dry_run: false,
            actor: "simulated".to_owned(),
        };
        let before = self.parked_now();
        self.say(|| format!("operator edits: {edit:?}"));
        // A row that is no event stays none, whatever its payload.
        let Ok(chunk) = self.db.model.edit(self.now, &edit) else {
            return;
        };
        if chunk.touched > 0 {
            self.faults.count(Fault::Edited);
            // To the level-1 check it is another event under the same id now.
            self.writers.reused.insert(event_id);
        }
        self.note_changes(&before, true);
        self.check_originals(&before);
    }

    /// What the producer wrote stays, however often people change it.
    fn check_originals(&mut self, before: &BTreeMap<Place, Parked>) {
        let model = &self.db.model;
        for (place, parked) in before {
            let now = model.parked_row(place.0, place.1.as_ref());
            let first = model.original(place).map(|original| &original.payload);
            let edited = now.is_some_and(|now| now.row.event.payload != parked.row.event.payload);
            let known = self.check.originals.entry(place.clone());
            if edited {
                known.or_insert_with(|| parked.row.event.payload.clone());
            }
            if self.check.originals.get(place) != first {
                let id = &parked.row.event.id;
                self.check
                    .violation(format!("edit: the first payload of {id} was not kept"));
            }
        }
    }

    /// Gives scheduled events another time.
    pub(crate) fn move_scheduled(&mut self) {
        let by = self.people.millis(0, 4_000);
        let mut people = self.people.clone();
        let before = self.parked_now();
        let moved = self.db.model.move_to(self.now, by, |_| people.chance(0.7));
        self.people = people;
        for (place, parked) in &before {
            let after = self.db.model.parked_row(place.0, place.1.as_ref());
            let is_moved = after.is_some_and(|after| after.version != parked.version);
            if let Some(destination) = place.1.clone().filter(|_| is_moved) {
                let id = parked.row.event.id.clone();
                self.check.moved.insert((id, destination), self.now + by);
            }
        }
        if !moved.is_empty() {
            self.ring();
            self.faults.count(Fault::Moved);
            self.say(|| format!("operator moves {moved:?} by {by:?}"));
        }
    }

    /// Takes scheduled events back before their time.
    pub(crate) fn cancel_scheduled(&mut self) {
        let (now, mut people) = (self.now, self.people.clone());
        let before = self.parked_now();
        self.db.model.discard(now, "cancelled", |parked| {
            parked.can_move(now) && people.chance(0.3)
        });
        self.people = people;
        if self.note_changes(&before, false) {
            self.faults.count(Fault::ScheduledCancelled);
        }
    }

    /// The parked rows as they are, to see afterwards what a person's deed changed.
    pub(crate) fn parked_now(&self) -> BTreeMap<Place, Parked> {
        let parked = self.db.model.parked();
        parked
            .map(|one| ((one.row.seq, one.destination.clone()), one.clone()))
            .collect()
    }

    /// Tells the checker what a person's deed changed; false when it changed nothing.
    pub(crate) fn note_changes(&mut self, before: &BTreeMap<Place, Parked>, redrives: bool) -> bool {
        let mut any = false;
        for (place, parked) in before {
            let id = parked.row.event.id.clone();
            let after = self.db.model.parked_row(place.0, place.1.as_ref());
            match after.map(|after| after.version) {
                None => {
                    self.say(|| format!("operator discards {id} at {:?}", place.1));
                    self.check.discarded(parked.clone());
                }
                Some(version) if version != parked.version && redrives => {
                    self.say(|| format!("operator redrives {id} at {:?}", place.1));
                    self.check.redriven(&id, place.1.as_ref());
                }
                Some(_) => continue,
            }
            any = true;
        }
        self.ring();
        any
    }

    fn plant_past_heads(&mut self) {
        if self.plant == Some(Plant::RedrivePastHead) {
            let parked = self.db.model.parked();
            self.past_heads = parked.map(|one| (one.row.seq, one.destination.clone())).collect();
        }
    }

    /// What a person looks at: one event, what failed alike, a key, a destination, or everything.
    fn some_filter(&mut self) -> Option<Filter> {
        let failed: Vec<_> = self
            .db
            .model
            .parked()
            .filter(|parked| parked.can_redrive())
            .map(|parked| {
                let failure = parked.failure.as_ref();
                let group = failure.map(|failure| failure.group(parked.destination.as_ref()));
                let event = &parked.row.event;
                let key = event.key_text().into_owned();
                (event.id.clone(), group, key, parked.destination.clone())
            })
            .collect();
        let (id, group, key, destination) = self.people.pick(&failed).cloned()?;
        let mut filter = Filter::default();
        match self.people.below(5) {
            0 => filter.event_id = vec![id],
            1 => filter.error_group = group,
            2 => filter.key = vec![key],
            3 => filter.destination = destination,
            _ => {}
        }
        Some(filter)
    }
}
