//! What operators see and do, on a database in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider_core::{
    Act, BoxFuture, Chunk, Console, Control, Cursor, DestinationName, EventId, EventRecord, Group, Kept,
    Limits, List, Listing, LiveRelay, Purge, Purged, RelayId, Scope, Sent, SentPage, Seq, Stats, Status,
    StoreError, StoreErrorKind, Upkeep, Verb, fingerprint,
};

use super::MemoryStore;
use super::records::{parked_route, records, sent_event, time};
use crate::model::{Model, Parked};

impl Console for MemoryStore {
    fn stats(&self) -> BoxFuture<'_, Result<Stats, StoreError>> {
        Box::pin(async move { Ok(self.with_model(|model, now| stats(model, now))) })
    }

    fn list(&self, list: List) -> BoxFuture<'_, Result<Listing, StoreError>> {
        Box::pin(async move {
            let (filter, limit) = (list.filter, list.limit as usize);
            let after = list
                .from
                .as_ref()
                .map(parse_cursor)
                .transpose()?
                .map(|(seq, _)| seq);
            let mut events: Vec<EventRecord> = self.with_model(|model, now| {
                let matching = records(model, now).into_values().filter(|record| {
                    Some(record.seq) > after
                        && record
                            .routes
                            .iter()
                            .any(|route| filter.matches(record, route, time(now)))
                });
                matching.take(limit + 1).collect()
            });
            let more = events.len() > limit;
            events.truncate(limit);
            let next = events.last().filter(|_| more).map(|last| cursor(last.seq, None));
            Ok(Listing { events, next })
        })
    }

    fn show(&self, id: EventId) -> BoxFuture<'_, Result<Vec<EventRecord>, StoreError>> {
        Box::pin(async move {
            let all = self.with_model(|model, now| records(model, now));
            Ok(all.into_values().filter(|record| record.event_id == id).collect())
        })
    }

    fn sent(
        &self,
        event_type: Option<String>,
        limit: u32,
        after: Option<Cursor>,
    ) -> BoxFuture<'_, Result<SentPage, StoreError>> {
        Box::pin(async move {
            let after = after.as_ref().map(number_of).transpose()?;
            Ok(self.with_model(|model, _| sent(model, event_type.as_deref(), limit as usize, after)))
        })
    }

    fn groups(&self) -> BoxFuture<'_, Result<Vec<Group>, StoreError>> {
        Box::pin(async move { Ok(self.with_model(|model, _| groups(model))) })
    }

    fn act(&self, act: Act) -> BoxFuture<'_, Result<Chunk, StoreError>> {
        Box::pin(async move {
            let from = act.from.as_ref().map(parse_cursor).transpose()?;
            Ok(self.with_model(|model, now| step(model, now, &act, from)))
        })
    }

    fn control(&self, control: Control, _actor: String) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.with_model(|model, _| {
                match control {
                    Control::Pause(Scope::Outbox) => model.pause(None, true),
                    Control::Resume(Scope::Outbox) => model.pause(None, false),
                    Control::Pause(Scope::Destination(name)) => model.pause(Some(&name), true),
                    Control::Resume(Scope::Destination(name)) => model.pause(Some(&name), false),
                    Control::Limit(name, limits) => {
                        model.limit(name, (limits != Limits::default()).then_some(limits));
                    }
                    Control::Pause(Scope::Key(_)) | Control::Resume(Scope::Key(_)) => {
                        return Err(StoreError::unsupported());
                    }
                }
                Ok(())
            })
        })
    }
}

impl Upkeep for MemoryStore {
    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged, StoreError>> {
        Box::pin(async move {
            if purge.what != Kept::History || purge.dry_run || purge.not_after.is_some() {
                return Err(StoreError::unsupported());
            }
            let limit = purge.limit as usize;
            let rows = self.with_model(|model, now| model.purge(now, purge.older_than, limit));
            Ok(Purged {
                rows,
                exact: true,
                more: rows >= u64::from(purge.limit),
            })
        })
    }
}

fn stats(model: &Model, now: Duration) -> Stats {
    let counters = model.counters();
    let mut stats = Stats {
        queued: model.queued().count() as u64,
        published: counters.sent,
        duplicates: counters.duplicates,
        discarded: counters.discarded,
        ..Stats::default()
    };
    let mut oldest: Option<Duration> = model.queued().map(|row| row.inserted).min();
    for parked in model.parked() {
        match model.status_of(now, parked) {
            Status::DeadLetter => {
                stats.dead += 1;
                continue;
            }
            status => *stats.parked.entry(status.as_str()).or_default() += 1,
        }
        if model.status_of(now, parked) != Status::Scheduled {
            oldest = Some(oldest.map_or(parked.row.inserted, |known| known.min(parked.row.inserted)));
        }
    }
    stats.oldest = oldest.map(|inserted| now.saturating_sub(inserted));
    stats.shards = model.shards();
    stats.relays = relays(model, now);
    stats
}

fn relays(model: &Model, now: Duration) -> Vec<LiveRelay> {
    let owned = |relay: &RelayId| {
        let owners = model.owners();
        let owned = owners.filter(|(_, state)| state.owner.as_ref() == Some(relay));
        owned.map(|(shard, _)| shard).collect()
    };
    let alive = model.relays().filter(|(_, state)| state.expires > now);
    alive
        .map(|(relay, state)| LiveRelay {
            relay: relay.clone(),
            expires_in: state.expires - now,
            shards: owned(relay),
        })
        .collect()
}

/// A cursor is the number of the first record that was not yet seen.
fn sent(model: &Model, event_type: Option<&str>, limit: usize, from: Option<u64>) -> SentPage {
    let mut events: Vec<(u64, Sent)> = model
        .numbered_history()
        .filter(|(_, record)| record.is_sent())
        .filter(|(_, record)| event_type.is_none_or(|wanted| record.row.event.event_type == wanted))
        .filter(|(number, _)| from.is_none_or(|from| *number >= from))
        .map(|(number, record)| (number, sent_event(record)))
        .collect();
    let mut next = model
        .numbered_history()
        .last()
        .map_or(0, |(number, _)| number + 1);
    match from {
        None => drop(events.drain(..events.len().saturating_sub(limit))),
        Some(_) if events.len() > limit => {
            events.truncate(limit);
            next = events.last().map_or(next, |(number, _)| number + 1);
        }
        Some(_) => {}
    }
    SentPage {
        events: events.into_iter().map(|(_, event)| event).collect(),
        next: Cursor(next.to_string()),
    }
}

fn groups(model: &Model) -> Vec<Group> {
    let mut groups: BTreeMap<(Option<DestinationName>, &str, String), Group> = BTreeMap::new();
    for parked in model.parked() {
        let (Some(failure), Some((first, last))) = (&parked.failure, parked.failed) else {
            continue;
        };
        let (first, last) = (time(first), time(last));
        let group = groups
            .entry((
                parked.destination.clone(),
                failure.kind.as_str(),
                fingerprint(&failure.text),
            ))
            .or_insert_with(|| Group {
                destination: parked.destination.clone(),
                error_kind: failure.kind.as_str().to_owned(),
                fingerprint: fingerprint(&failure.text),
                example: failure.text.to_string(),
                count: 0,
                dead: 0,
                seen: (first, last),
            });
        group.count += 1;
        group.dead += u64::from(parked.dead);
        group.seen = (group.seen.0.min(first), group.seen.1.max(last));
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups
}

fn step(model: &mut Model, now: Duration, act: &Act, from: Option<Place>) -> Chunk {
    let all = records(model, now);
    let mut chosen = Vec::new();
    let mut chunk = Chunk::default();
    let mut last: Option<Place> = None;
    for parked in model.parked() {
        let place = (parked.row.seq, parked.destination.clone());
        let route = parked_route(model, now, parked);
        let wanted = act.filter.matches(&all[&place.0], &route, time(now));
        if from.as_ref().is_some_and(|from| place <= *from) || !wanted {
            continue;
        }
        if chosen.len() + chunk.refused.len() >= act.limit as usize {
            chunk.next = last.map(|(seq, destination)| cursor(seq, destination.as_ref()));
            break;
        }
        if act.verb == Verb::Redrive && !parked.can_redrive() {
            let refused = (parked.row.event_id().clone(), model.status_of(now, parked));
            chunk.refused.push(refused);
        } else {
            chosen.push(place.clone());
        }
        last = Some(place);
    }
    chunk.touched = chosen.len() as u64;
    let is_chosen = |parked: &Parked| chosen.contains(&(parked.row.seq, parked.destination.clone()));
    match &act.verb {
        _ if act.dry_run => {}
        Verb::Redrive => drop(model.redrive(now, is_chosen)),
        Verb::Discard(reason) => drop(model.discard(now, reason, is_chosen)),
        Verb::Move(_) => {}
    }
    chunk
}

fn number_of(cursor: &Cursor) -> Result<u64, StoreError> {
    let number = cursor.0.parse();
    number.map_err(|error| {
        StoreError::new(StoreErrorKind::Other, "the cursor is not one of ours").with_source(error)
    })
}

type Place = (Seq, Option<DestinationName>);

/// A place as text: `seq`, or `seq:destination`.
fn cursor(seq: Seq, destination: Option<&DestinationName>) -> Cursor {
    Cursor(match destination {
        Some(name) => format!("{}:{name}", seq.0),
        None => seq.0.to_string(),
    })
}

fn parse_cursor(cursor: &Cursor) -> Result<Place, StoreError> {
    let (seq, destination) = match cursor.0.split_once(':') {
        Some((seq, name)) => (seq, Some(DestinationName::new(name))),
        None => (cursor.0.as_str(), None),
    };
    match seq.parse() {
        Ok(seq) => Ok((Seq(seq), destination)),
        Err(error) => {
            Err(StoreError::new(StoreErrorKind::Other, "the cursor is not one of ours").with_source(error))
        }
    }
}
