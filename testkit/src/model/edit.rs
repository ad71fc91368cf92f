//! A payload that a person changes.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{Chunk, Edit, Event, InvalidEvent, Original};

use super::audit::Deed;
use super::{Model, Parked, Place, time};

impl Model {
    /// Changes the payload of dead and refused rows and sends them again; see `Console::edit`.
    pub fn edit(&mut self, now: Duration, edit: &Edit) -> Result<Chunk, InvalidEvent> {
        let is_meant = |parked: &&Parked| {
            *parked.row.event_id() == edit.event_id
                && (edit.destination.is_none() || edit.destination == parked.destination)
        };
        let meant: Vec<_> = self.parked.values().filter(is_meant).cloned().collect();
        let mut chunk = Chunk::default();
        let (works, refused): (Vec<_>, Vec<_>) = meant.into_iter().partition(Parked::can_redrive);
        for parked in &works {
            changed(&parked.row.event, edit).validate()?;
        }
        for parked in &refused {
            let status = self.status_of(now, parked);
            chunk.refused.push((edit.event_id.clone(), status));
        }
        chunk.touched = works.len() as u64;
        if chunk == Chunk::default() {
            let records = self.with_id(now, &edit.event_id).into_iter();
            chunk.refused = records
                .flat_map(|record| record.refused(&edit.filter(), time(now)))
                .collect();
        }
        if edit.dry_run {
            return Ok(chunk);
        }
        let hash = |parked: &Parked| parked.row.event.payload.hash();
        let before: Vec<String> = works.iter().map(hash).collect();
        for parked in works {
            self.change(now, &parked, edit);
        }
        let deed = Deed {
            touched: chunk.touched,
            event_id: Some(edit.event_id.clone()),
            ..Deed::of(&edit.actor, "edit", edit.detail(&before))
        };
        self.note(now, deed);
        Ok(chunk)
    }

    /// What a parked row had before people changed it.
    pub fn original(&self, place: &Place) -> Option<&Original> {
        self.originals.get(place)
    }

    fn change(&mut self, now: Duration, old: &Parked, edit: &Edit) {
        let place = (old.row.seq, old.destination.clone());
        let event = &old.row.event;
        // The first one stays: it is what the producer wrote.
        self.originals.entry(place.clone()).or_insert_with(|| Original {
            payload: event.payload.clone(),
            content_type: event.content_type.clone(),
            edited_at: time(now),
            actor: edit.actor.clone(),
        });
        if let Some(parked) = self.parked.get_mut(&place) {
            let before = std::mem::replace(&mut parked.row.event, Arc::new(changed(event, edit)));
            parked.redrive(now);
            parked.edits.push((parked.version, before));
        }
    }
}

fn changed(event: &Event, edit: &Edit) -> Event {
    Event {
        payload: edit.payload.clone(),
        content_type: edit.content_type_after(event.content_type.as_deref(), &event.payload),
        ..event.clone()
    }
}
