//! A row arrives: it becomes an item with one delivery per destination, each pending, or decided at once.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{
    Address, Blocked, DeadLetter, Delivery as RoutedDelivery, DestinationId, DestinationName, ErrorKind,
    Failure, Leaves, OrderKey, Park, ParkedRow, QueuedRow, Routed, Shard, Then,
};

use super::item::{Delivery, Item, Origin, Parked, State, Verdict};
use super::line::LineId;
use super::note::Note;
use super::{Command, Engine, Plant, Time};

/// An event that may leave within this time is not worth parking for.
const SOON: Duration = Duration::from_secs(1);

impl Engine {
    /// A row of `outbox`.
    pub(super) fn arrive_queued(&mut self, now: Time, mut row: QueuedRow, out: &mut Vec<Command>) {
        let scheduled = row.due_in > SOON;
        if scheduled {
            // It stands outside the order of its key: it waits for nobody and makes nobody wait.
            row.key = OrderKey::alone(row.seq);
            row.blocked = Blocked::Nowhere;
        }
        let maybe_sent = self.leases.take_maybe_sent(row.shard, row.lane);
        let key = (row.shard, row.lane, row.key.clone());
        let mut item = Item {
            seq: row.seq,
            shard: row.shard,
            lane: row.lane,
            key: row.key.clone(),
            event_id: row.event_id.clone(),
            event: None,
            replay: row.replay.clone(),
            bytes: row.event.as_ref().map_or(256, |event| event.size()),
            origin: Origin::Queued,
            deliveries: Vec::new(),
            verdict: None,
            settling: false,
            read_at: now,
            rests_until: None,
        };
        let routed = match (&row.event, self.leases.is_killer(row.shard, row.seq)) {
            (Ok(_), true) => Routed::Nowhere(killer()),
            (Ok(event), false) => {
                item.event = Some(event.clone());
                self.router.route(&self.identity.outbox, event)
            }
            (Err(failure), _) => Routed::Nowhere(failure.clone()),
        };
        match routed {
            Routed::Dropped => {
                out.push(Command::Note(Note::Dropped {
                    event_id: item.event_id.clone(),
                }));
                item.verdict = Some(Verdict::Leaves(Leaves::Dropped));
            }
            Routed::Nowhere(failure) => {
                self.note_dead(&item, None, &failure, out);
                let parked = vec![Park {
                    maybe_sent,
                    ..Park::dead(None, failure)
                }];
                item.verdict = Some(Verdict::Leaves(Leaves::Decided {
                    sent: Vec::new(),
                    parked,
                }));
            }
            Routed::To(deliveries) => {
                for routed in deliveries {
                    let delivery = self.queued_delivery(&row, &item, routed, scheduled, maybe_sent, out);
                    item.deliveries.push(delivery);
                }
            }
        }
        let nowhere = matches!(&item.verdict, Some(Verdict::Leaves(Leaves::Decided { .. })));
        let id = self.rows.insert(item);
        if nowhere {
            for line in self.rows.lines_of(&key) {
                self.park_waiting(line);
            }
        }
        self.hold_followers(id);
    }

    fn queued_delivery(
        &mut self,
        row: &QueuedRow,
        item: &Item,
        routed: RoutedDelivery,
        scheduled: bool,
        maybe_sent: bool,
        out: &mut Vec<Command>,
    ) -> Delivery {
        let destination = routed.destination;
        let name = self.router.destination(destination).name.clone();
        let key = (row.shard, row.lane, row.key.clone());
        let line = self.rows.line_of(&key, destination);
        let void = self.rows.is_void(&key, destination) && !self.planted(Plant::FlagsTrusted);
        let before = row.sent_before.iter().find(|sent| sent.destination == name);
        let state = match (before.map(|sent| sent.same_content), &routed.rendered) {
            (Some(true), _) => {
                let event_id = item.event_id.clone();
                out.push(Command::Note(Note::Duplicate {
                    event_id,
                    destination: name.clone(),
                }));
                State::Duplicate
            }
            (Some(false), _) => self.dead(item, &name, maybe_sent, id_reused(), out),
            (None, Err(failure)) => self.dead(item, &name, maybe_sent, failure.clone(), out),
            (None, Ok(_)) if scheduled => State::Park(match self.planted(Plant::ScheduledEarly) {
                true => Park {
                    next_attempt_in: row.due_in / 2,
                    ..Park::waiting(name.clone(), maybe_sent)
                },
                false => Park {
                    available_at: item.event.as_ref().and_then(|event| event.available_at),
                    ..Park::waiting(name.clone(), maybe_sent)
                },
            }),
            (None, Ok(_)) if void || is_blocked(&row.blocked, &name) => {
                State::Park(Park::waiting(name.clone(), maybe_sent))
            }
            (None, Ok(_)) => State::Pending,
        };
        let (address, message_key) = routed
            .rendered
            .unwrap_or_else(|_| (Address::default(), String::new()));
        Delivery {
            destination,
            address,
            message_key,
            line,
            maybe_sent,
            state,
        }
    }

    /// A delivery that can never be made as it is. An earlier owner of the shard may have made it with another
    /// configuration, and whoever redrives it must be told.
    fn dead(
        &self,
        item: &Item,
        name: &DestinationName,
        maybe_sent: bool,
        failure: Failure,
        out: &mut Vec<Command>,
    ) -> State {
        self.note_dead(item, Some(name.clone()), &failure, out);
        State::Park(Park {
            maybe_sent,
            ..Park::dead(Some(name.clone()), failure)
        })
    }

    /// Deliveries that came in as parked hold back what comes after them.
    fn hold_followers(&mut self, id: usize) {
        let Some(item) = self.rows.item(id) else { return };
        let holding: Vec<(usize, LineId)> = item
            .deliveries
            .iter()
            .enumerate()
            .filter(|(_, one)| self.holds(one.destination, &one.state))
            .map(|(index, one)| (index, one.line))
            .collect();
        for (index, line) in holding {
            self.rows.mark_parking(id, index);
            self.park_waiting(line);
        }
    }

    /// Whether a parked delivery stands in the way of its key: every one does, except the dead under `skip`.
    pub(super) fn holds(&self, destination: DestinationId, state: &State) -> bool {
        let skip = self.router.destination(destination).dead_letter == DeadLetter::Skip;
        matches!(state, State::Park(park) if !(park.dead && skip))
    }

    /// Everything queued that waits in a line is parked behind the row that was.
    pub(super) fn park_waiting(&mut self, line: LineId) {
        if self.planted(Plant::FlagsTrusted) {
            return;
        }
        for id in self.rows.waiting_queued(line) {
            let Some(item) = self.rows.item(id) else { continue };
            let Some(index) = item.deliveries.iter().position(|one| one.line == line) else {
                continue;
            };
            let delivery = &item.deliveries[index];
            let name = self.router.destination(delivery.destination).name.clone();
            let park = Park::waiting(name, delivery.maybe_sent);
            self.rows.set_state(id, index, State::Park(park), true);
        }
    }

    /// The due parked rows of a read: heads, each with those that wait behind it.
    pub(super) fn arrive_parked_lines(
        &mut self,
        now: Time,
        rows: Vec<ParkedRow>,
        shards: &[Shard],
        out: &mut Vec<Command>,
    ) {
        let mut held = BTreeSet::new();
        let mut seen = BTreeSet::new();
        for parked in rows {
            let (shard, seq) = (parked.row.shard, parked.row.seq);
            if !shards.contains(&shard) || self.rows.has_parked(shard, seq, &parked.destination) {
                continue;
            }
            let line = (
                shard,
                parked.row.lane,
                parked.row.key.clone(),
                parked.destination.clone(),
            );
            // The same id twice in a line: whether the second was published before is known only after the first was.
            let again = !seen.insert((parked.row.event_id.clone(), parked.destination.clone()));
            // The settle that parked it is written and not yet answered: memory still knows it as queued.
            if again || self.rows.has_queued(shard, seq) {
                held.insert(line.clone());
            }
            if !held.contains(&line) && !self.arrive_parked(now, parked, out) {
                held.insert(line);
            }
        }
    }

    /// A row of `outbox_parked` that is due. False when it stays in the way of those behind it.
    fn arrive_parked(&mut self, now: Time, parked: ParkedRow, out: &mut Vec<Command>) -> bool {
        let maybe_sent = parked.maybe_sent && !self.planted(Plant::StartForgotten);
        let ParkedRow {
            row,
            destination,
            version,
            attempts,
            failures,
            failed_ago,
            redriven,
            ..
        } = parked;
        let known = destination.as_ref().and_then(|name| self.router.by_name(name));
        let mut item = Item {
            seq: row.seq,
            shard: row.shard,
            lane: row.lane,
            key: row.key.clone(),
            event_id: row.event_id.clone(),
            event: row.event.as_ref().ok().cloned(),
            replay: row.replay.clone(),
            bytes: row.event.as_ref().map_or(256, |event| event.size()),
            origin: Origin::Parked(Parked {
                destination: destination.clone(),
                version,
                attempts,
                failures,
                failed_at: failed_ago.map(|ago| Time(now.0.saturating_sub(ago))),
                maybe_sent: parked.maybe_sent || self.planted(Plant::StartUnwritten),
            }),
            deliveries: Vec::new(),
            verdict: None,
            settling: false,
            read_at: now,
            rests_until: None,
        };
        let then = match (&row.event, known) {
            (Err(failure), _) => Some(self.still_dead(&item, destination.as_ref(), failure.clone(), out)),
            (Ok(_), _) if self.leases.is_killer(row.shard, row.seq) => {
                Some(self.still_dead(&item, destination.as_ref(), killer(), out))
            }
            (Ok(_), None) if destination.is_some() && !redriven => {
                Some(self.still_dead(&item, destination.as_ref(), route_gone(), out))
            }
            (Ok(_), None) if row.replay.is_some() => {
                Some(self.still_dead(&item, destination.as_ref(), nowhere_else(), out))
            }
            (Ok(_), None) => Some(self.route_again(&item, row.due_in > Duration::ZERO, out)),
            (Ok(_), Some(id)) => self.parked_delivery(&row, &mut item, id, redriven, maybe_sent, out),
        };
        let skip = known.is_some_and(|id| self.router.destination(id).dead_letter == DeadLetter::Skip);
        let passes = match &then {
            None | Some(Then::Sent(_) | Then::Duplicate) => true,
            Some(Then::Again(park)) => park.dead && skip,
            Some(Then::Split(_)) => false,
        };
        item.verdict = then.map(Verdict::Then);
        self.rows.insert(item);
        passes
    }

    /// The delivery of a parked row; or what becomes of it without one.
    fn parked_delivery(
        &mut self,
        row: &QueuedRow,
        item: &mut Item,
        id: DestinationId,
        redriven: bool,
        maybe_sent: bool,
        out: &mut Vec<Command>,
    ) -> Option<Then> {
        let name = self.router.destination(id).name.clone();
        let event = item.event.clone()?;
        match row
            .sent_before
            .iter()
            .find(|sent| sent.destination == name)
            .map(|sent| sent.same_content)
        {
            Some(true) => {
                let event_id = item.event_id.clone();
                out.push(Command::Note(Note::Duplicate {
                    event_id,
                    destination: name,
                }));
                return Some(Then::Duplicate);
            }
            // An operator who redrives a reused id has looked at it and wants it sent.
            Some(false) if !redriven => return Some(self.still_dead(item, Some(&name), id_reused(), out)),
            _ => {}
        }
        match self.router.deliver(id, &event).rendered {
            Err(failure) => Some(self.still_dead(item, Some(&name), failure, out)),
            Ok((address, message_key)) => {
                let line = self.rows.line_of(&(row.shard, row.lane, row.key.clone()), id);
                let state = State::Pending;
                item.deliveries.push(Delivery {
                    destination: id,
                    address,
                    message_key,
                    line,
                    maybe_sent,
                    state,
                });
                None
            }
        }
    }

    fn still_dead(
        &self,
        item: &Item,
        destination: Option<&DestinationName>,
        failure: Failure,
        out: &mut Vec<Command>,
    ) -> Then {
        self.note_dead(item, destination.cloned(), &failure, out);
        let Origin::Parked(parked) = &item.origin else {
            return Then::Again(Park::dead(destination.cloned(), failure));
        };
        Then::Again(Park {
            attempts: parked.attempts,
            failures: parked.failures.saturating_add(1),
            maybe_sent: parked.maybe_sent,
            ..Park::dead(destination.cloned(), failure)
        })
    }

    /// A redriven row without a destination of the present configuration is routed as if it were new, and leaves no
    /// earlier than its producer wants it to. One that had a destination may have been at the others, and the history
    /// does not know for ever: it says that it may be a repetition, as one does that was handed over before.
    fn route_again(&self, item: &Item, scheduled: bool, out: &mut Vec<Command>) -> Then {
        let from = match &item.origin {
            Origin::Parked(parked) => parked.destination.as_ref(),
            Origin::Queued => None,
        };
        let Some(event) = &item.event else {
            let failure = Failure::new(ErrorKind::BadRow, "the row is no event");
            return self.still_dead(item, from, failure, out);
        };
        match self.router.route(&self.identity.outbox, event) {
            Routed::Dropped => {
                out.push(Command::Note(Note::Dropped {
                    event_id: item.event_id.clone(),
                }));
                Then::Split(Vec::new())
            }
            // It stays the row of the destination that it had, and so does its group.
            Routed::Nowhere(failure) => self.still_dead(item, from, failure, out),
            Routed::To(deliveries) => {
                let maybe_sent = matches!(&item.origin,
                    Origin::Parked(parked) if parked.destination.is_some() || parked.maybe_sent);
                let park = |one: RoutedDelivery| {
                    let name = self.router.destination(one.destination).name.clone();
                    match one.rendered {
                        Ok(_) => Park {
                            available_at: event.available_at.filter(|_| scheduled),
                            ..Park::waiting(name, maybe_sent)
                        },
                        Err(failure) => Park {
                            maybe_sent,
                            ..Park::dead(Some(name), failure)
                        },
                    }
                };
                Then::Split(deliveries.into_iter().map(park).collect())
            }
        }
    }

    pub(super) fn note_dead(
        &self,
        item: &Item,
        destination: Option<DestinationName>,
        failure: &Failure,
        out: &mut Vec<Command>,
    ) {
        out.push(Command::Note(Note::Dead {
            event_id: item.event_id.clone(),
            event_type: item.event.as_ref().map(|event| event.event_type.clone()),
            destination,
            failure: failure.clone(),
        }));
    }
}

fn is_blocked(blocked: &Blocked, name: &DestinationName) -> bool {
    match blocked {
        Blocked::Nowhere => false,
        Blocked::At(names) => names.contains(name),
        Blocked::Everywhere => true,
    }
}

fn killer() -> Failure {
    Failure::new(
        ErrorKind::KillsRelay,
        "the relay ended several times while it was trying this row alone",
    )
}

fn id_reused() -> Failure {
    Failure::new(
        ErrorKind::IdReused,
        "this id was published before with another payload, type or content type",
    )
}

/// Routed like an event, a copy would go to destinations that its replay never named.
fn nowhere_else() -> Failure {
    Failure::new(
        ErrorKind::RouteGone,
        "the destination of this copy is no longer in the configuration, and a copy goes nowhere else: put it back, or \
         discard the copy and replay its event to another destination",
    )
}

fn route_gone() -> Failure {
    Failure::new(
        ErrorKind::RouteGone,
        "the destination is no longer in the configuration",
    )
}
