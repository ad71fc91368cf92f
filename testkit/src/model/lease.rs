//! Ownership of shards.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{Controls, Heartbeat, Lease, RelayId, Seq, Shard, Standing, Suspect, Token};

use super::Model;

/// A row of `outbox_shard`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardState {
    /// Who owns it; valid only while the owner's own row is.
    pub owner: Option<RelayId>,
    /// Raised at every change of owner.
    pub token: Token,
    /// Owners in a row that ended without a release and without a settle.
    pub unclean: u32,
    /// What the last such owner may have sent.
    pub maybe_sent: u32,
    /// What was last tried alone.
    pub suspect: Option<Seq>,
    /// Whether the present owner is trying it: only then is its end held against the row.
    pub on_trial: bool,
}

/// A row of `outbox_relay`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayState {
    /// Until when it counts as alive, by the database's clock.
    pub expires: Duration,
    /// What it may have handed to a broker without a settle.
    pub window: u32,
    /// Whether it takes shards.
    pub claims: bool,
}

impl Model {
    /// Registers or renews a relay, releases and claims shards; see `Store::heartbeat`.
    pub fn heartbeat(&mut self, now: Duration, beat: &Heartbeat) -> Standing {
        self.relays.insert(
            beat.relay.clone(),
            RelayState {
                expires: now.saturating_add(beat.term),
                window: beat.window,
                claims: beat.claim,
            },
        );
        let released = self.release(beat);
        self.reconcile(beat);
        self.note_suspects(beat);
        let share = if beat.claim { self.fair_share(now) } else { 0 };
        if beat.claim {
            self.claim(now, beat, share, &released);
        }
        self.forget_relays(now);
        Standing {
            leases: self.leases_of(&beat.relay),
            share,
            shards: self.options.shards,
            controls: Controls {
                paused_keys: self.paused_keys.iter().take(Controls::KEYS).cloned().collect(),
                ..self.controls.clone()
            },
        }
    }

    /// Shards divided by live relays, rounded up. A relay that is stopping does not count: what it gave up would find
    /// no taker until its row expires.
    fn fair_share(&self, now: Duration) -> u16 {
        let live = self
            .relays
            .values()
            .filter(|relay| relay.claims && relay.expires > now)
            .count();
        let live = u16::try_from(live).unwrap_or(u16::MAX).max(1);
        self.options.shards.div_ceil(live)
    }

    /// Gives up what the relay asks to give up. Giving up is a change of owner too, so the token moves, and what the
    /// relay sends after it is fenced.
    fn release(&mut self, beat: &Heartbeat) -> BTreeSet<Shard> {
        let mut released = BTreeSet::new();
        for (shard, token) in &beat.release {
            let Some(state) = self.shards.get_mut(usize::from(shard.0)) else {
                continue;
            };
            if state.owner.as_ref() == Some(&beat.relay) && state.token == *token {
                *state = ShardState {
                    token: Token(token.0 + 1),
                    ..ShardState::default()
                };
                released.insert(*shard);
            }
        }
        released
    }

    /// Compares what the database gave with what the relay remembers. A difference means that an answer was lost: the
    /// shard is claimed anew, or let go by a relay that is stopping. The counts stay, because the relay never saw them.
    fn reconcile(&mut self, beat: &Heartbeat) {
        for (shard, state) in (0..).map(Shard).zip(&mut self.shards) {
            let owned = state.owner.as_ref() == Some(&beat.relay);
            if owned && !beat.held.contains(&(shard, state.token)) {
                state.token = Token(state.token.0 + 1);
                state.on_trial = false;
                if !beat.claim {
                    state.owner = None;
                }
            }
        }
    }

    /// Writes down what is about to be tried alone, for shards that the relay knows to be its own.
    fn note_suspects(&mut self, beat: &Heartbeat) {
        for suspect in &beat.suspects {
            let Some(state) = self.shards.get_mut(usize::from(suspect.shard.0)) else {
                continue;
            };
            if state.owner.as_ref() == Some(&beat.relay) && beat.held.contains(&(suspect.shard, state.token))
            {
                if state.suspect != Some(suspect.seq) {
                    state.unclean = state.unclean.min(Suspect::COUNTS_FROM);
                }
                state.suspect = Some(suspect.seq);
                state.on_trial = suspect.seq != Seq(0);
            }
        }
    }

    /// Claims free shards up to the share, lowest first; not those given up in this very call, which are meant for
    /// others.
    fn claim(&mut self, now: Duration, beat: &Heartbeat, share: u16, released: &BTreeSet<Shard>) {
        let mut owned = self
            .shards
            .iter()
            .filter(|state| state.owner.as_ref() == Some(&beat.relay))
            .count();
        for (shard, state) in (0..).map(Shard).zip(&mut self.shards) {
            if owned >= usize::from(share) {
                break;
            }
            let expired = match &state.owner {
                Some(owner) if *owner == beat.relay => continue,
                Some(owner) => match self.relays.get(owner) {
                    Some(relay) if relay.expires > now => continue,
                    Some(relay) => Some(relay.window),
                    None => Some(0),
                },
                None if released.contains(&shard) => continue,
                None => None,
            };
            if let Some(window) = expired {
                // Of a shard that needs care only the ends count at which its suspect was on trial.
                if state.unclean < Suspect::COUNTS_FROM || state.on_trial {
                    state.unclean += 1;
                }
                state.maybe_sent = state.maybe_sent.max(window);
            }
            state.on_trial = false;
            state.token = Token(state.token.0 + 1);
            state.owner = Some(beat.relay.clone());
            owned += 1;
        }
    }

    /// Drops the rows of relays that are expired or stopping and own nothing. An owner's row stays: its window is
    /// needed at the takeover.
    fn forget_relays(&mut self, now: Duration) {
        let owners: BTreeSet<&RelayId> = self
            .shards
            .iter()
            .filter_map(|state| state.owner.as_ref())
            .collect();
        self.relays
            .retain(|id, relay| owners.contains(id) || (relay.claims && relay.expires > now));
    }

    fn leases_of(&self, relay: &RelayId) -> Vec<Lease> {
        self.owners()
            .filter(|(_, state)| state.owner.as_ref() == Some(relay))
            .map(|(shard, state)| Lease {
                shard,
                token: state.token,
                maybe_sent: state.maybe_sent,
                unclean: state.unclean,
                suspect: state.suspect,
            })
            .collect()
    }
}
