//! The doorbell: a relay that found nothing sleeps until somebody commits, or a person does something.

use std::time::Duration;

use postrider_relay::engine::{Call, Fact};

use crate::world::{Next, World};

/// A bell that is armed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bell {
    life: u64,
    /// When its relay knows that it is.
    known: Duration,
}

impl World {
    /// The database hears of a relay that wants to sleep.
    pub(crate) fn arm(&mut self, slot: usize, life: u64, call: Call) {
        let back = self.latency();
        let armed = !self.db.down;
        if armed {
            let known = self.now + back;
            self.db.bells.insert(slot, Bell { life, known });
        }
        let fact = Fact::Armed(call, armed);
        self.schedule(back, Next::Fact { slot, life, fact });
    }

    /// Wakes whoever sleeps. An arming is answered before its ring is heard.
    pub(crate) fn ring(&mut self) {
        for (slot, Bell { life, known }) in std::mem::take(&mut self.db.bells) {
            let after = self.latency().max(known.saturating_sub(self.now)) + Duration::from_micros(1);
            let fact = Fact::Rang;
            self.schedule(after, Next::Fact { slot, life, fact });
        }
    }
}
