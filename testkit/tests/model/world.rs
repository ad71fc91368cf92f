//! The model with what the outside world remembers of it: writers, relays and operators without an engine.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use postrider_core::{
    DestinationName, ErrorKind, Event, Failure, Heartbeat, Lease, Leaves, Park, Receipt, RelayId, Seq,
    Settle, SettleParked, SettleQueued, Settled, Shard, Then, Token,
};
use postrider_testkit::model::{Model, Parked, TxId};

use crate::steps::{How, Step};

pub(crate) const SHARDS: u16 = 3;
const TERM: Duration = Duration::from_millis(500);

/// A model with what the outside world remembers of it.
pub(crate) struct World {
    pub(crate) model: Model,
    pub(crate) now: Duration,
    next_id: u32,
    open: BTreeMap<usize, TxId>,
    leases: [Vec<Lease>; 3],
    pub(crate) committed: BTreeSet<Seq>,
    /// Settled as duplicates or split into nothing: gone by right and without a trace.
    pub(crate) gone: BTreeSet<Seq>,
    pub(crate) tokens: Vec<(Option<RelayId>, Token)>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            model: Model::new(SHARDS),
            now: Duration::from_secs(1_000_000),
            next_id: 0,
            open: BTreeMap::new(),
            leases: Default::default(),
            committed: BTreeSet::new(),
            gone: BTreeSet::new(),
            tokens: vec![(None, Token(0)); usize::from(SHARDS)],
        }
    }

    pub(crate) fn take(&mut self, step: &Step) {
        match step {
            Step::Insert { key, priority, tx } => {
                let tx = *self.open.entry(*tx).or_insert_with(|| self.model.begin());
                self.next_id += 1;
                let event = Event::builder("Tested")
                    .id(format!("e{}", self.next_id))
                    .key(format!("k{key}"));
                let event = event.json("{}").priority(*priority).build().unwrap();
                self.model.insert(self.now, tx, event).unwrap();
            }
            Step::Finish { tx, commit } => self.finish(*tx, *commit),
            Step::Beat {
                relay,
                remembers,
                releases,
                claims,
            } => {
                let held: Vec<_> = self.leases[*relay]
                    .iter()
                    .map(|lease| (lease.shard, lease.token))
                    .collect();
                let beat = Heartbeat {
                    relay: relay_id(*relay),
                    term: TERM,
                    release: if *releases { held.clone() } else { Vec::new() },
                    held: if *remembers { held } else { Vec::new() },
                    claim: *claims,
                    window: 8,
                    suspects: Vec::new(),
                };
                self.leases[*relay] = self.model.heartbeat(self.now, &beat).leases;
            }
            Step::Settle { relay, row, how } => self.settle_queued(*relay, *row, *how),
            Step::SettleParked {
                relay,
                row,
                how,
                stale,
            } => self.settle_parked(*relay, *row, *how, *stale),
            Step::Redrive { row } => {
                if let Some(parked) = pick(self.model.parked(), *row).cloned() {
                    self.model.redrive(self.now, |other| same(other, &parked));
                }
            }
            Step::Discard { row } => {
                if let Some(parked) = pick(self.model.parked(), *row).cloned() {
                    self.model
                        .discard(self.now, "a test", |other| same(other, &parked));
                }
            }
            Step::Wait { millis } => self.now += Duration::from_millis(u64::from(*millis)),
        }
    }

    fn finish(&mut self, tx: usize, commit: bool) {
        let Some(tx) = self.open.remove(&tx) else {
            return;
        };
        let rows: Vec<Seq> = self
            .model
            .undecided()
            .filter(|row| row.tx == Some(tx))
            .map(|row| row.seq)
            .collect();
        if commit {
            assert!(self.model.commit(tx));
            self.committed.extend(rows);
        } else {
            assert!(self.model.rollback(tx));
        }
    }

    fn fence(&self, relay: usize) -> Vec<(Shard, Token)> {
        self.leases[relay]
            .iter()
            .map(|lease| (lease.shard, lease.token))
            .collect()
    }

    /// Whether a relay may write: what it remembers is what the database has.
    fn may_write(&self, relay: usize, shard: Shard) -> bool {
        let now = self
            .model
            .owners()
            .find(|(other, _)| *other == shard)
            .map(|(_, state)| state.token);
        self.leases[relay]
            .iter()
            .any(|lease| lease.shard == shard && Some(lease.token) == now)
    }

    fn settle_queued(&mut self, relay: usize, row: usize, how: How) {
        let Some(row) = pick(self.model.queued(), row).cloned() else {
            return;
        };
        let leaves = match how {
            How::Sent => Leaves::Decided {
                sent: vec![(name(0), Receipt::default())],
                parked: Vec::new(),
            },
            How::Duplicate => Leaves::Duplicate,
            How::Park {
                destination,
                dead,
                wait,
            } => Leaves::Decided {
                sent: Vec::new(),
                parked: vec![park(destination, dead, wait)],
            },
            How::Split => Leaves::Decided {
                sent: vec![(name(0), Receipt::default())],
                parked: vec![park(Some(1), false, 0)],
            },
        };
        let settle = Settle {
            fence: self.fence(relay),
            queued: vec![SettleQueued {
                shard: row.shard,
                seq: row.seq,
                event_id: row.event_id().clone(),
                key: row.key.clone(),
                leaves,
            }],
            parked: Vec::new(),
        };
        let wanted = if self.may_write(relay, row.shard) {
            Settled::Done
        } else {
            Settled::Fenced
        };
        assert_eq!(self.model.settle(self.now, &settle), [wanted]);
        if wanted == Settled::Done {
            if matches!(how, How::Duplicate) {
                self.gone.insert(row.seq);
            }
            assert_eq!(
                self.model.settle(self.now, &settle),
                [Settled::Gone],
                "a second copy finds nothing"
            );
        }
    }

    fn settle_parked(&mut self, relay: usize, row: usize, how: How, stale: bool) {
        let Some(parked) = pick(self.model.parked(), row).cloned() else {
            return;
        };
        let destination = parked.destination.clone();
        let then = match how {
            How::Sent if destination.is_some() => Then::Sent(Receipt::default()),
            How::Sent | How::Duplicate => Then::Duplicate,
            How::Park { dead, wait, .. } => Then::Again(Park {
                destination,
                ..park(None, dead, wait)
            }),
            How::Split => {
                let mut parks = vec![park(Some(0), false, 0), park(Some(1), false, 0)];
                parks.retain(|park| park.destination != destination);
                Then::Split(parks)
            }
        };
        let needs_version = matches!(then, Then::Again(_) | Then::Split(_));
        let settle = Settle {
            fence: self.fence(relay),
            queued: Vec::new(),
            parked: vec![SettleParked {
                shard: parked.row.shard,
                seq: parked.row.seq,
                destination: parked.destination.clone(),
                version: parked.version + u64::from(stale),
                then: then.clone(),
            }],
        };
        let wanted = match self.may_write(relay, parked.row.shard) {
            false => Settled::Fenced,
            true if stale && needs_version => Settled::Gone,
            true => Settled::Done,
        };
        assert_eq!(self.model.settle(self.now, &settle), [wanted]);
        if wanted == Settled::Done && matches!(then, Then::Duplicate) {
            self.gone.insert(parked.row.seq);
        }
        if wanted == Settled::Done && !stale {
            assert_eq!(
                self.model.settle(self.now, &settle),
                [Settled::Gone],
                "a second copy finds nothing"
            );
        }
    }
}

fn same(a: &Parked, b: &Parked) -> bool {
    (a.row.seq, &a.destination) == (b.row.seq, &b.destination)
}

fn pick<'a, T>(rows: impl Iterator<Item = &'a T>, n: usize) -> Option<&'a T> {
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then(|| rows[n % rows.len()])
}

fn relay_id(n: usize) -> RelayId {
    RelayId(format!("relay-{n}").into())
}

pub(crate) fn name(n: u8) -> DestinationName {
    DestinationName::new(format!("d{n}"))
}

fn park(destination: Option<u8>, dead: bool, wait: u16) -> Park {
    Park {
        destination: destination.map(name),
        dead,
        next_attempt_in: Duration::from_millis(u64::from(wait)),
        available_at: None,
        attempts: 1,
        failures: 1,
        maybe_sent: false,
        failure: Some(Failure::new(ErrorKind::Rejected, "not wanted")),
    }
}
