//! The right to shards: claimed and renewed by heartbeats, given up when drained, lost when the database says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use postrider_core::{
    DestinationId, Heartbeat, Lane, Lease, Seq, Shard, Standing, StoreError, Suspect, Token,
};

use super::again::Again;
use super::item::State;
use super::note::Note;
use super::poll::Bell;
use super::rows::lane_index;
use super::{Call, Command, Engine, Plant, Time};

/// Rows of other transactions may come to stand among those that a dead relay had in hand, and parked rows are in hand
/// too: so many more than the window are marked. A mark too many costs nothing.
const SPARE: usize = 64;
/// How often a relay that does not hold every shard asks for more.
const HUNGRY: Duration = Duration::from_millis(500);
/// The same for one that has its share and sleeps: what others give up rings, so that only what the dead leave behind
/// is found by asking. A third of the lease if that is shorter.
const CONTENT: Duration = Duration::from_secs(3);
/// How long a relay without a shard waits before it says so: one that joins others gets its share sooner.
const STANDING_BY_AFTER: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Held {
    pub(super) token: Token,
    pub(super) draining: bool,
    pub(super) unclean: u32,
    pub(super) suspect: Option<Seq>,
    /// The row written to the shard before it is tried, and whether the database has it.
    pub(super) trying: Option<(Seq, bool)>,
    maybe_sent: [u32; 3],
}

impl Held {
    /// Whether rows that its last owner may have published are still to come.
    fn is_unsure(&self) -> bool {
        self.maybe_sent.iter().any(|left| *left > 0)
    }
}

#[derive(Debug, Default)]
pub(super) struct Leases {
    pub(super) held: BTreeMap<Shard, Held>,
    valid_until: Option<Time>,
    expired: bool,
    beat: Option<Beat>,
    next_beat: Time,
    /// When the last heartbeat was sent, and whether the next one waits for longer because the relay sleeps.
    last_beat: Time,
    content: bool,
    /// After a failed heartbeat nothing is urgent enough to ask again at once.
    failed_until: Option<Time>,
    again: Again,
    /// Since when the database has answered and given nothing, and whether that was said.
    without: Option<(Time, bool)>,
    share: Option<usize>,
    shards: usize,
    release: Vec<(Shard, Token)>,
    released: BTreeSet<Shard>,
    /// Set once the shards are given up for good and the database knows.
    pub(super) signed_off: bool,
}

#[derive(Debug)]
struct Beat {
    call: Call,
    sent: Time,
    suspects: Vec<Suspect>,
    release: Vec<(Shard, Token)>,
    /// What was given up before this heartbeat it sees, what is given up after it rings.
    asleep: bool,
    last: bool,
}

impl Leases {
    /// Shards that are held, being given up, or remembered as given up; the largest of the three.
    pub(super) fn known(&self) -> usize {
        self.held.len().max(self.release.len()).max(self.released.len())
    }

    /// Whether every shard of the outbox is held here.
    pub(super) fn has_all(&self) -> bool {
        self.held.len() >= self.shards
    }

    pub(super) fn is_valid(&self, now: Time) -> bool {
        self.valid_until.is_some_and(|until| now < until)
    }

    pub(super) fn wake_at(&self) -> Option<Time> {
        let deadline = self.valid_until.filter(|_| !self.expired);
        let beat = self.beat.is_none().then_some(self.next_beat);
        match (deadline, beat) {
            (Some(deadline), Some(beat)) => Some(deadline.min(beat)),
            (deadline, beat) => deadline.or(beat),
        }
    }

    pub(super) fn token(&self, shard: Shard) -> Option<Token> {
        self.held.get(&shard).map(|held| held.token)
    }

    /// Whether rows of a shard are handed over: it is not being given up, and a shard that needs care hands over only
    /// the row that the database knows to be tried.
    pub(super) fn may_send(&self, shard: Shard, seq: Seq) -> bool {
        self.held
            .get(&shard)
            .is_some_and(|held| !held.draining && (!held.is_careful() || held.trying == Some((seq, true))))
    }

    /// Something was settled: whatever ended the owners before, it was not this shard's head.
    pub(super) fn settled(&mut self, shard: Shard) {
        if let Some(held) = self.held.get_mut(&shard) {
            held.unclean = 0;
            held.suspect = None;
            held.trying = None;
        }
    }

    /// Whether the next row of a shard and lane may have been published by its last owner.
    pub(super) fn take_maybe_sent(&mut self, shard: Shard, lane: Lane) -> bool {
        self.held
            .get_mut(&shard)
            .is_some_and(|held| take(&mut held.maybe_sent[lane_index(lane)]))
    }

    /// A lane was read to its end: whatever the last owner had in hand is in memory now.
    pub(super) fn read_to_end(&mut self, shard: Shard, lane: Lane) {
        if let Some(held) = self.held.get_mut(&shard) {
            held.maybe_sent[lane_index(lane)] = 0;
        }
    }
}

fn take(left: &mut u32) -> bool {
    let some = *left > 0;
    *left = left.saturating_sub(1);
    some
}

impl Engine {
    /// The answer to a heartbeat.
    pub(super) fn on_stood(
        &mut self,
        now: Time,
        call: Call,
        standing: Result<Standing, StoreError>,
        out: &mut Vec<Command>,
    ) {
        let Some(beat) = self.leases.beat.take_if(|beat| beat.call == call) else {
            return;
        };
        let standing = match standing {
            Ok(standing) => standing,
            Err(error) => {
                let random = self.random();
                let delay = self.leases.again.failed(random);
                self.leases.next_beat = now + delay;
                self.leases.failed_until = Some(now + delay);
                // What was to be given up is given up with the next one; what was to be written is written then.
                self.leases.release.extend(beat.release);
                self.note_store("heartbeat", &error, delay, out);
                return;
            }
        };
        if self.leases.again.succeeded() {
            out.push(Command::Note(Note::StoreBack { doing: "heartbeat" }));
        }
        self.leases.valid_until = Some(beat.sent + self.settings.lease);
        if self.planted(Plant::ClientClock) {
            self.leases.valid_until = Some(now + self.settings.lease * 3 / 2);
        }
        self.leases.expired = false;
        self.leases.share = Some(usize::from(standing.share));
        self.leases.shards = usize::from(standing.shards);
        self.leases.next_beat = beat.sent + self.settings.lease / 3;
        self.leases.signed_off = beat.last;
        let router = Arc::clone(&self.router);
        for (index, destination) in router.destinations().iter().enumerate() {
            let paused = standing.controls.paused_destinations.contains(&destination.name);
            let paused = paused && !self.planted(Plant::PauseIgnored);
            if paused && !self.circuits[index].paused {
                self.forget_started(DestinationId(index));
            }
            self.circuits[index].paused = paused;
            let obeyed = !self.planted(Plant::LimitIgnored);
            let limits = standing.controls.limits.get(&destination.name);
            self.circuits[index].set_limits(limits.filter(|_| obeyed));
        }
        let resumed = self.controls.paused && !standing.controls.paused;
        self.hold_keys(&standing.controls.paused_keys);
        self.controls = standing.controls.clone();
        if resumed {
            self.read_soon(now);
        }
        self.take_leases(now, standing.leases, &beat, out);
        self.say_if_standing_by(now, out);
    }

    fn say_if_standing_by(&mut self, now: Time, out: &mut Vec<Command>) {
        if !self.leases.held.is_empty() || self.stop.is_some() {
            self.leases.without = None;
            return;
        }
        let (since, said) = self.leases.without.get_or_insert((now, false));
        if !*said && now - *since >= STANDING_BY_AFTER {
            *said = true;
            out.push(Command::Note(Note::StandingBy));
        }
    }

    fn take_leases(&mut self, now: Time, leases: Vec<Lease>, beat: &Beat, out: &mut Vec<Command>) {
        let given: BTreeMap<Shard, Token> = leases.iter().map(|lease| (lease.shard, lease.token)).collect();
        let lost: Vec<Shard> = self
            .leases
            .held
            .iter()
            .filter(|(shard, held)| given.get(shard) != Some(&held.token))
            .map(|(shard, _)| *shard)
            .collect();
        if !lost.is_empty() {
            self.read_soon(now);
        }
        for shard in lost {
            self.lose_shard(shard, false, out);
        }
        for lease in leases {
            if self.planted(Plant::ShardForgotten) && self.leases.released.contains(&lease.shard) {
                continue;
            }
            let giving_up = self.leases.release.contains(&(lease.shard, lease.token));
            if giving_up {
                // Drained while this heartbeat was under way: the next one gives it up.
                continue;
            }
            match self.leases.held.get_mut(&lease.shard) {
                Some(held) => held.unclean = held.unclean.min(lease.unclean),
                None => self.win_shard(now, lease, out),
            }
        }
        for suspect in &beat.suspects {
            if let Some(held) = self.leases.held.get_mut(&suspect.shard)
                && held.trying == Some((suspect.seq, false))
            {
                held.trying = Some((suspect.seq, true));
            }
        }
        let share = self.leases.share.unwrap_or(usize::MAX);
        let over = self.leases.held.len().saturating_sub(share);
        // A shard whose last owner's repeats are not all marked yet is served until they are: its next owner could not
        // tell them.
        for held in self
            .leases
            .held
            .values_mut()
            .rev()
            .filter(|held| !held.is_unsure())
            .take(over)
        {
            held.draining = true;
        }
        // Others hold shards, and may give them up at any time: whoever is left must not find out a third of a lease
        // later.
        let hungry = self.leases.held.len() < share;
        self.leases.content = beat.asleep && !hungry;
        if hungry || !self.leases.has_all() {
            let pause = if self.leases.content { CONTENT } else { HUNGRY };
            self.leases.next_beat = self.leases.next_beat.min(now + pause);
        }
    }

    /// A relay that wakes hears no ring: from here on it asks as often as one that is awake.
    fn beat_sooner_if_awake(&mut self) {
        if self.leases.content && self.reading.bell != Bell::Asleep {
            self.leases.content = false;
            if !self.leases.has_all() {
                let soon = self.leases.last_beat + HUNGRY;
                self.leases.next_beat = self.leases.next_beat.min(soon);
            }
        }
    }

    fn win_shard(&mut self, now: Time, lease: Lease, out: &mut Vec<Command>) {
        let maybe = if self.planted(Plant::TakeoverUnmarked) {
            0
        } else {
            lease.maybe_sent
        };
        out.push(Command::Note(Note::LeaseWon {
            shard: lease.shard,
            unclean: lease.unclean > 0 || maybe > 0,
        }));
        self.leases.released.remove(&lease.shard);
        self.leases.held.insert(
            lease.shard,
            Held {
                token: lease.token,
                draining: self.stop.is_some(),
                unclean: lease.unclean,
                suspect: lease.suspect,
                trying: None,
                maybe_sent: [maybe; 3],
            },
        );
        if !self.planted(Plant::FloorPastForgotten) {
            self.reading.forget_shard(lease.shard);
        }
        // The doorbell was armed without this shard.
        self.disarm(out);
        self.read_soon(now);
    }

    /// A shard is another's, or given up: everything of it is forgotten, and calls that carry its events are dropped.
    pub(super) fn lose_shard(&mut self, shard: Shard, released: bool, out: &mut Vec<Command>) {
        if self.leases.held.remove(&shard).is_none() {
            return;
        }
        out.push(Command::Note(Note::LeaseLost { shard, released }));
        // The doorbell was armed with this shard, which its new owner can then not sleep on.
        self.disarm(out);
        let carries = |call: &Call| {
            self.flights[call].entries.iter().any(|entry| {
                let item = self.rows.item(entry.item);
                item.is_some_and(|item| {
                    item.shard == shard
                        && matches!(item.deliveries[entry.index].state, State::InFlight(c) if c == *call)
                })
            })
        };
        let calls: Vec<Call> = self.flights.keys().copied().filter(carries).collect();
        self.abandon(calls, out);
        for id in self.rows.of_shard(shard) {
            self.rows.remove(id, None);
        }
    }

    /// The deadline of the leases has passed: nothing more is handed over, and what has not left is dropped. The rows
    /// stay in memory, because nobody else may have taken the shards when the database answers again.
    pub(super) fn expire(&mut self, now: Time, out: &mut Vec<Command>) {
        if self.leases.expired || self.leases.valid_until.is_none() || self.leases.is_valid(now) {
            return;
        }
        self.leases.expired = true;
        let calls: Vec<Call> = self.flights.keys().copied().collect();
        self.abandon(calls, out);
    }

    /// Sends a heartbeat when one is due.
    pub(super) fn beat(&mut self, now: Time, out: &mut Vec<Command>) {
        let resting = self.leases.failed_until.is_some_and(|until| now < until);
        if self.leases.beat.is_some() || self.leases.signed_off || resting {
            return;
        }
        self.leases.failed_until = None;
        self.beat_sooner_if_awake();
        self.choose_suspects(now);
        let unwritten = |held: &Held| matches!(held.trying, Some((_, false)));
        let urgent = !self.leases.release.is_empty() || self.leases.held.values().any(unwritten);
        let stopping = self.stop.is_some();
        let last = stopping && self.leases.held.is_empty();
        if now < self.leases.next_beat && !urgent && !last {
            return;
        }
        let call = self.call();
        let suspects: Vec<Suspect> = self
            .leases
            .held
            .iter()
            .filter_map(|(shard, held)| {
                let (seq, written) = held.trying?;
                (!written).then_some(Suspect { shard: *shard, seq })
            })
            .collect();
        let release = std::mem::take(&mut self.leases.release);
        self.leases.next_beat = now + self.settings.lease / 3;
        self.leases.last_beat = now;
        self.leases.beat = Some(Beat {
            call,
            sent: now,
            suspects: suspects.clone(),
            release: release.clone(),
            asleep: self.reading.bell == Bell::Asleep,
            last,
        });
        let held = self
            .leases
            .held
            .iter()
            .map(|(shard, held)| (*shard, held.token))
            .collect();
        let window = u32::try_from(self.settings.window * 2 + SPARE).unwrap_or(u32::MAX);
        out.push(Command::Beat(
            call,
            Heartbeat {
                relay: self.identity.relay.clone(),
                term: self.settings.lease,
                held,
                release,
                claim: !stopping,
                window,
                suspects,
            },
        ));
    }

    /// Gives up shards that are drained: nothing handed to a client is unanswered, nothing decided is unsettled.
    pub(super) fn drain_shards(&mut self, now: Time, out: &mut Vec<Command>) {
        let draining: Vec<Shard> = self
            .leases
            .held
            .iter()
            .filter(|(_, held)| held.draining)
            .map(|(shard, _)| *shard)
            .collect();
        for shard in draining {
            let items = self.rows.of_shard(shard);
            if items
                .iter()
                .any(|id| self.rows.item(*id).is_some_and(|item| item.is_in_flight()))
            {
                continue;
            }
            if !self.planted(Plant::HalfSentReleased) {
                self.park_half_sent(&items);
            }
            if items.iter().any(|id| {
                self.rows
                    .item(*id)
                    .is_some_and(|item| item.is_decided() || item.settling)
            }) {
                continue;
            }
            for id in items {
                self.rows.remove(id, None);
            }
            if let Some(held) = self.leases.held.remove(&shard) {
                // A stopping relay does not release a shard of which it is unsure. It lets go of it by signing off
                // without it, and the database keeps for the next owner what it knows of the last but one.
                if !held.is_unsure() {
                    self.leases.release.push((shard, held.token));
                }
                self.leases.released.insert(shard);
                // The doorbell was armed with this shard; the next read arms it without.
                self.disarm(out);
                self.read_soon(now);
                out.push(Command::Note(Note::LeaseLost {
                    shard,
                    released: true,
                }));
            }
        }
    }
}
