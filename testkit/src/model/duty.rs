//! What one relay does for all, once a slot.

use std::time::Duration;

use postrider_core::{Claim, Duty, KnownDuty, PastDuty, RelayId, Timestamp};

use super::{Model, time};

/// A row of `outbox_duty`.
#[derive(Clone, Debug)]
pub(super) struct Held {
    slot: Timestamp,
    owner: RelayId,
    expires_at: Timestamp,
    finished_at: Option<Timestamp>,
}

impl Model {
    /// Claims or renews a duty; see `Upkeep::claim`.
    pub fn claim_duty(&mut self, now: Duration, duty: &Duty) -> Claim {
        let known = self.duties.get(&duty.name).map(|held| KnownDuty {
            slot: held.slot,
            owner: Some(&*held.owner.0),
            expires_at: held.expires_at,
            is_finished: held.finished_at.is_some(),
        });
        let claim = duty.decide(known, time(now));
        if claim == Claim::Yours {
            let held = Held {
                slot: duty.slot,
                owner: duty.holder.clone(),
                expires_at: time(now.saturating_add(duty.term)),
                finished_at: None,
            };
            self.duties.insert(duty.name.clone(), held);
        }
        claim
    }

    /// The duty's slot is done; says nothing for one who lost the claim meanwhile.
    pub fn finish_duty(&mut self, now: Duration, duty: &Duty) {
        if let Some(held) = self.duties.get_mut(&duty.name)
            && held.slot == duty.slot
            && held.owner == duty.holder
        {
            held.finished_at = Some(time(now));
        }
    }

    /// Duties that nobody is at, by the beginning of their names.
    pub fn past_duties(&self, now: Duration, prefix: &str) -> Vec<PastDuty> {
        let named = self.duties.iter().filter(|(name, _)| name.starts_with(prefix));
        let past = named.map(|(name, held)| PastDuty {
            name: name.clone(),
            at: held.ended_at(),
        });
        past.filter(|duty| duty.at <= time(now)).collect()
    }

    /// Forgets duties that are as they were seen; answers how many.
    pub fn forget_duties(&mut self, seen: &[PastDuty]) -> u64 {
        let before = self.duties.len();
        for PastDuty { name, at } in seen {
            if self.duties.get(name).is_some_and(|held| held.ended_at() == *at) {
                self.duties.remove(name);
            }
        }
        (before - self.duties.len()) as u64
    }
}

impl Held {
    fn ended_at(&self) -> Timestamp {
        self.finished_at.unwrap_or(self.expires_at)
    }
}
