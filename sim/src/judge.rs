//! What must hold in the end, when the storm is over and everything should have drained.

use crate::world::World;

impl World {
    /// The storm is over and everything should have drained.
    pub(crate) fn judge(&mut self) {
        let model = &self.db.model;
        if !model.is_empty() {
            let queued: Vec<_> = model
                .queued()
                .take(3)
                .map(|row| row.event.id.to_string())
                .collect();
            let parked: Vec<_> = model
                .parked()
                .take(3)
                .map(|row| {
                    (
                        row.row.event.id.to_string(),
                        row.destination.clone(),
                        row.dead,
                        row.failure.clone(),
                    )
                })
                .collect();
            let text = format!(
                "V: not drained {:?} after the calm: queued {queued:?}, parked {parked:?}",
                self.now
            );
            self.check.violation(text);
            return;
        }
        let mut lost = Vec::new();
        for (id, written) in &self.writers.events {
            if written.committed.is_none() || written.bad || written.kind == 'X' {
                continue;
            }
            for destination in written.obligations() {
                let arrived = |name: &str| self.check.arrivals.contains_key(&(id.clone(), name.into()));
                let discarded = self.check.discards.iter().any(|(event, at)| {
                    event == id
                        && at
                            .as_ref()
                            .is_none_or(|at| at.as_str() == *destination || written.kind == 'E')
                });
                let moved = written.kind == 'E' && arrived("first");
                if !arrived(destination) && !discarded && !moved {
                    lost.push(format!("L: {id} never arrived at {destination}"));
                }
            }
        }
        // After a change of routes a copy may be sent elsewhere.
        let reconfigured = self.check.reconfigured;
        let copies = self.check.copies.lost().filter(|_| !reconfigured);
        lost.extend(copies.map(|copy| format!("R3: the copy {copy:?} never arrived")));
        lost.into_iter().for_each(|text| self.check.violation(text));
        if self.check.duplicates > self.check.allowed {
            let (got, allowed) = (self.check.duplicates, self.check.allowed);
            self.check
                .violation(format!("repeats: {got} arrived, faults explain {allowed}"));
        }
    }
}
