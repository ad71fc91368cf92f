//! What operators see and do, on a database in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider_core::{
    Act, AuditPage, BoxFuture, Chunk, Console, Control, Cursor, DestinationName, Edit, EventId, EventRecord,
    Group, InForce, Job, JobId, JobVerb, List, Listing, LiveRelay, NewJob, RelayId, Sent, SentPage, Stats,
    Status, Step, StoreError, StoreErrorKind,
};

use super::MemoryStore;
use crate::model::{Model, Place, cursor, place_of, sent_event, time};

impl Console for MemoryStore {
    fn stats(&self) -> BoxFuture<'_, Result<Stats, StoreError>> {
        Box::pin(async move { Ok(self.with_model(|model, now| stats(model, now))) })
    }

    fn list(&self, list: List) -> BoxFuture<'_, Result<Listing, StoreError>> {
        Box::pin(async move {
            let from = list.from.as_ref().map(place_of).transpose()?;
            Ok(self.with_model(|model, now| listing(model, now, &list, from)))
        })
    }

    fn show(&self, id: EventId) -> BoxFuture<'_, Result<Vec<EventRecord>, StoreError>> {
        Box::pin(async move { Ok(self.with_model(|model, now| model.show(now, &id))) })
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
            let from = act.from.as_ref().map(place_of).transpose()?;
            let chunk = self.with_model(|model, now| model.act(now, &act, from));
            self.ring();
            Ok(chunk)
        })
    }

    fn edit(&self, edit: Edit) -> BoxFuture<'_, Result<Chunk, StoreError>> {
        Box::pin(async move {
            let edited = self.with_model(|model, now| model.edit(now, &edit));
            self.ring();
            edited.map_err(|invalid| Edit::refused(&invalid.to_string()))
        })
    }

    fn begin(&self, job: NewJob) -> BoxFuture<'_, Result<Job, StoreError>> {
        Box::pin(async move {
            job.check()?;
            Ok(self.with_model(|model, now| model.begin_job(now, job)))
        })
    }

    fn step(&self, job: JobId, limit: u32) -> BoxFuture<'_, Result<Step, StoreError>> {
        Box::pin(async move {
            let step = self.with_model(|model, now| model.step(now, &job, limit));
            self.ring();
            step.ok_or_else(|| Job::unknown(&job))
        })
    }

    fn jobs(&self, only: Option<JobId>, limit: u32) -> BoxFuture<'_, Result<Vec<Job>, StoreError>> {
        Box::pin(async move { Ok(self.with_model(|model, _| model.jobs(only.as_ref(), limit as usize))) })
    }

    fn steer(&self, job: JobId, verb: JobVerb, actor: String) -> BoxFuture<'_, Result<Job, StoreError>> {
        Box::pin(async move {
            let steered = self.with_model(|model, now| model.steer(now, &job, verb, &actor));
            steered.ok_or_else(|| Job::unknown(&job))
        })
    }

    fn control(&self, control: Control, actor: String) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.with_model(|model, now| model.control(now, &control, &actor));
            self.ring();
            Ok(())
        })
    }

    fn controls(&self) -> BoxFuture<'_, Result<Vec<InForce>, StoreError>> {
        Box::pin(async move { Ok(self.with_model(|model, _| model.in_force().cloned().collect())) })
    }

    fn audit(&self, limit: u32, from: Option<Cursor>) -> BoxFuture<'_, Result<AuditPage, StoreError>> {
        Box::pin(async move {
            let from = from.as_ref().map(number_of).transpose()?;
            Ok(self.with_model(|model, _| model.audit(limit as usize, from)))
        })
    }
}

/// The answer to a job that nobody began, or that was purged.
fn listing(model: &Model, now: Duration, list: &List, from: Option<Place>) -> Listing {
    let from = from.map(|(seq, _)| seq);
    let is_ahead = |record: &EventRecord| match (from, list.newest_first) {
        (None, _) => true,
        (Some(from), false) => record.seq > from,
        (Some(from), true) => record.seq < from,
    };
    let is_meant = |record: &EventRecord| {
        let mut routes = record.routes.iter();
        is_ahead(record) && routes.any(|route| list.filter.matches(record, route, time(now)))
    };
    let mut events: Vec<_> = model.records(now).into_values().filter(is_meant).collect();
    if list.newest_first {
        events.reverse();
    }
    let limit = list.limit as usize;
    let more = events.len() > limit;
    events.truncate(limit);
    let next = events
        .last()
        .filter(|_| more)
        .map(|last| cursor(&(last.seq, None)));
    Listing { events, next }
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
    stats.oldest_at = oldest.map(time);
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
        let name = failure.group(parked.destination.as_ref());
        let group = groups
            .entry((parked.destination.clone(), failure.kind.as_str(), name.clone()))
            .or_insert_with(|| Group {
                destination: parked.destination.clone(),
                error_kind: failure.kind.as_str().to_owned(),
                name,
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

fn number_of(cursor: &Cursor) -> Result<u64, StoreError> {
    let number = cursor.0.parse();
    number.map_err(|error| {
        StoreError::new(StoreErrorKind::Other, "the cursor is not one of ours").with_source(error)
    })
}
