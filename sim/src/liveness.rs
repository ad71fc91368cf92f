//! After the last fault has ended publishing goes on by itself, within five seconds and the lease of whoever died.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{DestinationName, Seq, Shard};
use postrider_testkit::model::Parked;

use crate::operators::Deed;
use crate::world::{Next, World};

/// How soon something arrives at every destination for which something waits.
const SOON: Duration = Duration::from_secs(5);

/// What could leave at once when the last fault ended: its place, and where it goes.
pub(crate) type Waiting = BTreeSet<(Seq, DestinationName)>;

/// How a relay got on with a database in which reads from below a place fail.
#[derive(Debug)]
pub(crate) struct ReadsWell {
    shards: BTreeSet<Shard>,
    failed: u32,
    failed_at: Duration,
}

impl World {
    /// Remembers what waits, and looks again when its time is over.
    pub(crate) fn expect_progress(&mut self) {
        let queued = self.queued_heads();
        let parked = self.db.model.parked().filter(|one| self.is_free(one));
        let parked = parked.filter_map(|one| Some((one.row.seq, one.destination.clone()?)));
        self.waiting = queued.into_iter().chain(parked).collect();
        self.arrived_since.clear();
        let settings = &self.plan.settings;
        let most = SOON + settings.lease + settings.initial_delay;
        self.schedule(self.heals_in() + most, Next::Trouble(Deed::Progress));
    }

    /// When the last fault that has begun is over: a process that is frozen wakes, a confirm that is late comes.
    fn heals_in(&self) -> Duration {
        let thaws = self.relays.iter().filter_map(|relay| relay.frozen_until).max();
        let heals = thaws.max(self.last_answer());
        heals.unwrap_or(self.now).saturating_sub(self.now)
    }

    /// Something that waited all the time must not be the only thing that its destination heard of.
    pub(crate) fn check_progress(&mut self) {
        let model = &self.db.model;
        let waits = |seq: Seq, to: &DestinationName| {
            model.parked_row(seq, Some(to)).is_some_and(|row| !row.dead)
                || model.queued().any(|row| row.seq == seq)
        };
        let stuck = self
            .waiting
            .iter()
            .find(|(seq, to)| !self.arrived_since.contains(to) && waits(*seq, to));
        if let Some((seq, to)) = stuck {
            let text = format!("V: {seq:?} waits, and nothing has arrived at {to} since all faults ended");
            self.check.violation(text);
        }
    }

    /// The first queued row of every key that nothing stands before.
    fn queued_heads(&self) -> Vec<(Seq, DestinationName)> {
        let mut seen = BTreeSet::new();
        let mut heads = Vec::new();
        for row in self.db.model.queued() {
            let first = seen.insert((row.key.clone(), row.lane));
            let id = row.event_id();
            let Some(written) = self.writers.events.get(id) else {
                continue;
            };
            let known = !written.bad && !written.no_tenant && !written.scheduled && written.kind != 'E';
            let alone = !self.writers.repeated.contains(id);
            let parked = self.db.model.parked().any(|one| one.row.key == row.key);
            if first && known && alone && !parked {
                let to = written.obligations().iter();
                heads.extend(to.map(|name| (row.seq, DestinationName::new(*name))));
            }
        }
        heads
    }

    /// Whether a parked row is due and nothing stands before it.
    fn is_free(&self, row: &Parked) -> bool {
        let before = |one: &Parked| {
            one.row.seq < row.row.seq
                && one.row.key == row.row.key
                && one.row.lane == row.row.lane
                && (one.destination == row.destination || one.destination.is_none())
        };
        let gone = row
            .destination
            .as_ref()
            .is_some_and(|name| name.as_str() == "third");
        let repeated = self.writers.repeated.contains(row.row.event_id());
        !row.dead && !gone && !repeated && row.next_attempt <= self.now && !self.db.model.parked().any(before)
    }

    /// Whether a read fails because it would have to go through what is dead and still there.
    pub(crate) fn is_stale(&mut self, life: u64, read: &postrider_core::Read) -> bool {
        let Some(from) = self.db.stale_below else {
            return false;
        };
        let shards: BTreeSet<Shard> = read.parked.shards.iter().copied().collect();
        let stale = read.ranges.iter().any(|range| range.floor < from);
        match self.db.reads_well.get_mut(&life) {
            Some(well) if stale && well.shards == shards => {
                // A sweep whose time has come again, after a freeze for one, may fail again.
                let anew = self.now.saturating_sub(well.failed_at) >= self.plan.sweep_every;
                well.failed = if anew { 1 } else { well.failed + 1 };
                well.failed_at = self.now;
                if well.failed > 1 {
                    let text = format!("V: r{life} reads from the beginning again and again");
                    self.check.violation(text);
                }
            }
            Some(well) if well.shards == shards => well.failed = 0,
            _ => {}
        }
        let whole = read.ranges.len() == shards.len() * postrider_core::Lane::ALL.len();
        if !stale && whole && !shards.is_empty() {
            let well = ReadsWell {
                shards,
                failed: 0,
                failed_at: Duration::ZERO,
            };
            self.db.reads_well.insert(life, well);
        }
        stale
    }

    /// Somebody holds a snapshot: what is deleted stays in the way of whoever begins below.
    pub(crate) fn begin_stale(&mut self) {
        self.db.stale_below = Some(self.db.model.horizon());
        self.db.reads_well.clear();
        let long = self.rng.millis(1_000, 8_000);
        self.schedule(long, Next::Trouble(Deed::StaleEnds));
    }
}
