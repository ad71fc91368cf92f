//! The JSON that people and scripts get. `docs/health-and-metrics.md` promises it.

use std::time::Duration;

use postrider_core::{Group, InForce, Job, LiveRelay, Scope, Stats, Status, Timestamp};
use serde_json::{Map, Value, json};

use crate::admin::Picture;
use crate::health::{Level, Reason, Seen};

/// `/health/outbox?outbox=NAME`.
pub(crate) fn outbox(picture: &Picture) -> Value {
    let seen = picture.sample.seen.as_ref().ok();
    health(
        picture.health.level,
        &Numbers::of(picture),
        reasons(picture, false).collect(),
        seen.is_some(),
    )
}

/// `/health/outbox`: one answer for all, and one for each.
pub(crate) fn outboxes(pictures: &[Picture]) -> (Level, Value) {
    let level = pictures
        .iter()
        .map(|picture| picture.health.level)
        .max()
        .unwrap_or_default();
    let known = pictures.iter().all(|picture| picture.sample.seen.is_ok());
    let numbers = pictures
        .iter()
        .map(Numbers::of)
        .fold(Numbers::default(), Numbers::and);
    let reasons = pictures
        .iter()
        .flat_map(|picture| reasons(picture, true))
        .collect();
    let mut value = health(level, &numbers, reasons, known);
    let each: Map<String, Value> = pictures
        .iter()
        .map(|picture| (picture.name.clone(), outbox(picture)))
        .collect();
    value["outboxes"] = each.into();
    (level, value)
}

/// `/stats` of one outbox.
pub(crate) fn stats(picture: &Picture, (published, failed): (f64, f64)) -> Value {
    let mut value = match &picture.sample.seen {
        Ok(seen) => numbers(seen),
        Err(trouble) => json!({ "error": { "kind": trouble.kind.as_str(), "text": trouble.text } }),
    };
    let circuits = picture.routes.iter().map(|route| {
        let open = picture
            .circuits
            .iter()
            .find(|circuit| circuit.destination == *route);
        json!({
            "destination": route,
            "open": open.is_some(),
            "kind": open.map(|circuit| circuit.kind.as_str()),
            "text": open.map(|circuit| &circuit.text),
            "open_for_seconds": open.map(|circuit| circuit.open_for.as_secs()),
        })
    });
    value["status"] = picture.health.level.as_str().into();
    value["circuits"] = circuits.collect();
    value["rates"] = json!({
        "window_seconds": 60,
        "published_per_second": hundredths(published),
        "failed_per_second": hundredths(failed),
    });
    value
}

fn numbers(seen: &Seen) -> Value {
    let stats = &seen.stats;
    json!({
        "queued": stats.queued,
        "unpublished": stats.unpublished(),
        "parked": {
            "retrying": stats.parked_as(Status::Retrying),
            "waiting": stats.parked_as(Status::Waiting),
            "held": stats.parked_as(Status::Held),
            "scheduled": stats.parked_as(Status::Scheduled),
        },
        "dead": stats.dead,
        "stalled": seen.stalled_known(),
        "more_stalled": seen.more_stalled,
        "published": stats.published,
        "duplicates": stats.duplicates,
        "discarded": stats.discarded,
        "oldest_ms": stats.oldest.map(millis),
        "oldest_at": stats.oldest_at.map(|at| at.to_string()),
        "writer_open_ms": stats.writer_open_for.map(millis),
        "shards": { "total": stats.shards, "owned": owned(stats) },
        "relays": stats.relays.iter().map(relay).collect::<Vec<_>>(),
        "controls": seen.controls.iter().map(control).collect::<Vec<_>>(),
        "jobs": seen.jobs.iter().map(job).collect::<Vec<_>>(),
        "groups": seen.groups.iter().map(group).collect::<Vec<_>>(),
    })
}

fn control(one: &InForce) -> Value {
    let (what, name) = match &one.scope {
        Scope::Outbox => ("outbox", None),
        Scope::Destination(name) => ("destination", Some(name.as_str())),
        Scope::Key(key) => ("key", Some(key.as_str())),
    };
    json!({
        "what": what,
        "name": name,
        "paused": one.paused,
        "max_rate": one.limits.max_rate,
        "max_in_flight": one.limits.max_in_flight,
        "actor": one.actor,
        "since": one.since.to_string(),
        "limited_by": one.limited.as_ref().map(|(actor, _)| actor),
        "limited_since": one.limited.as_ref().map(|(_, at)| at.to_string()),
    })
}

fn job(job: &Job) -> Value {
    json!({
        "job": job.id.as_str(),
        "kind": job.kind.as_str(),
        "state": job.state.as_str(),
        "actor": job.actor,
        "touched": job.touched,
        "refused": job.refused,
        "unsent": job.waiting,
        "begun_at": job.begun_at.to_string(),
    })
}

fn group(group: &Group) -> Value {
    json!({
        "group": group.name,
        "destination": group.destination.as_ref().map(|name| name.as_str()),
        "error_kind": group.error_kind,
        "count": group.count,
        "dead": group.dead,
        "example": group.example,
        "first_failed_at": group.seen.0.to_string(),
        "last_failed_at": group.seen.1.to_string(),
    })
}

fn relay(relay: &LiveRelay) -> Value {
    let shards: Vec<u16> = relay.shards.iter().map(|shard| shard.0).collect();
    json!({ "relay": &*relay.relay.0, "expires_in_ms": millis(relay.expires_in), "shards": shards })
}

fn owned(stats: &Stats) -> usize {
    stats.relays.iter().map(|relay| relay.shards.len()).sum()
}

/// What the health of an outbox is told with.
#[derive(Default)]
struct Numbers {
    unpublished: u64,
    published: u64,
    failed: u64,
    /// When the oldest was written, and its age.
    oldest: Option<(Timestamp, Duration)>,
}

impl Numbers {
    fn of(picture: &Picture) -> Numbers {
        let Ok(seen) = &picture.sample.seen else {
            return Numbers::default();
        };
        Numbers {
            unpublished: seen.stats.unpublished(),
            published: seen.stats.published,
            failed: seen.stats.dead,
            oldest: seen.stats.oldest_at.zip(seen.stats.oldest),
        }
    }

    fn and(self, other: Numbers) -> Numbers {
        Numbers {
            unpublished: self.unpublished + other.unpublished,
            published: self.published + other.published,
            failed: self.failed + other.failed,
            oldest: match (self.oldest, other.oldest) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            },
        }
    }
}

fn health(level: Level, numbers: &Numbers, reasons: Vec<Value>, known: bool) -> Value {
    // A number that is not known is null: zero would say that there is no work.
    let number = |number: u64| known.then_some(number);
    let lag = numbers.oldest.map_or(Duration::ZERO, |(_, age)| age);
    json!({
        "status": level.as_str(),
        "unpublished": number(numbers.unpublished),
        "published": number(numbers.published),
        "failed": number(numbers.failed),
        "oldestUnpublished": numbers.oldest.map(|(at, _)| at.to_string()),
        "lagMinutes": known.then(|| hundredths(lag.as_secs_f64() / 60.0)),
        // Two processes may want one address, and whoever asks there must be able to tell which of them answers.
        "pid": std::process::id(),
        "reasons": reasons,
    })
}

fn reasons(picture: &Picture, named: bool) -> impl Iterator<Item = Value> {
    picture.health.reasons.iter().map(move |reason: &Reason| {
        let mut value = json!({ "reason": reason.word, "level": reason.level.as_str(), "text": reason.text });
        if named {
            value["outbox"] = picture.name.as_str().into();
        }
        value
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn hundredths(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
