//! What one relay does for all, once a slot.

use std::time::Duration;

use postrider_core::{Claim, Duty, RelayId, Timestamp};

use super::{Model, rows};

/// A row of `outbox_duty`.
#[derive(Clone, Debug)]
pub(super) struct Held {
    slot: Timestamp,
    owner: RelayId,
    expires: Duration,
    finished: bool,
}

impl Model {
    /// Claims or renews a duty; see `Upkeep::claim`.
    pub fn claim_duty(&mut self, now: Duration, duty: &Duty) -> Claim {
        let early = rows::until(now, Some(duty.slot));
        if !early.is_zero() {
            return Claim::Early(early);
        }
        if let Some(held) = self.duties.get(&duty.name) {
            if held.slot > duty.slot || (held.slot == duty.slot && held.finished) {
                return Claim::Done;
            }
            if !held.finished && held.owner != duty.holder && held.expires > now {
                return Claim::Held;
            }
        }
        let held = Held {
            slot: duty.slot,
            owner: duty.holder.clone(),
            expires: now.saturating_add(duty.term),
            finished: false,
        };
        self.duties.insert(duty.name.clone(), held);
        Claim::Yours
    }

    /// The duty's slot is done; says nothing for one who lost the claim meanwhile.
    pub fn finish_duty(&mut self, duty: &Duty) {
        if let Some(held) = self.duties.get_mut(&duty.name)
            && held.slot == duty.slot
            && held.owner == duty.holder
        {
            held.finished = true;
        }
    }

    /// Forgets duties by the beginning of their names; answers how many.
    pub fn forget_duties(&mut self, prefix: &str, but: &[String]) -> u64 {
        let before = self.duties.len();
        self.duties
            .retain(|name, _| !name.starts_with(prefix) || but.contains(name));
        (before - self.duties.len()) as u64
    }
}
