//! `postrider status`: the state of the outboxes in numbers.

use std::time::Duration;

use postrider_core::{Stats, Status};
use serde_json::{Value, json};

use crate::config::{Config, Health, duration};
use crate::failure::{Done, Failure};
use crate::output::Output;
use crate::wire;

/// The parked states that move by themselves, in the order they are shown.
const PARKED: [Status; 4] = [Status::Retrying, Status::Waiting, Status::Held, Status::Scheduled];

pub async fn status(
    config: &Config,
    out: Output,
    outbox: Option<&str>,
    check: bool,
) -> Result<Done, Failure> {
    let mut rows = Vec::new();
    let mut complaints = Vec::new();
    for (name, outbox) in wire::chosen(config, outbox)? {
        let opened = wire::ready(name, outbox).await?;
        let stats = opened
            .console
            .stats()
            .await
            .map_err(|error| Failure::store(name, &error))?;
        let problems = problems(&stats, &config.health);
        if out.is_json() {
            out.value(&value(name, &stats, &problems))?;
        }
        complaints.extend(problems.into_iter().map(|text| format!("{name}: {text}")));
        rows.push(row(name, &stats));
    }
    if !out.is_json() {
        let headers = [
            "OUTBOX",
            "QUEUED",
            "RETRYING",
            "WAITING",
            "HELD",
            "SCHEDULED",
            "DEAD",
            "PUBLISHED",
            "DUPLICATES",
            "OLDEST",
        ];
        out.table(&headers, rows)?;
        for text in &complaints {
            out.line(text)?;
        }
    }
    match check && !complaints.is_empty() {
        true => Ok(Done::Found),
        false => Ok(Done::Fine),
    }
}

fn parked(stats: &Stats, status: Status) -> u64 {
    stats.parked.get(status.as_str()).copied().unwrap_or(0)
}

/// What a person should know.
fn problems(stats: &Stats, health: &Health) -> Vec<String> {
    let mut problems = Vec::new();
    if stats.dead > 0 {
        problems.push(format!("{} dead: `postrider dead list` shows them", stats.dead));
    }
    let moving: u64 = PARKED
        .iter()
        .filter(|it| **it != Status::Scheduled)
        .map(|it| parked(stats, *it))
        .sum();
    let unpublished = stats.queued + moving;
    if unpublished > health.max_unpublished {
        problems.push(format!(
            "{unpublished} unpublished, more than {}",
            health.max_unpublished
        ));
    }
    if let Some(age) = stats.oldest.filter(|age| *age > health.max_age) {
        let (age, max) = (duration::show(whole_seconds(age)), duration::show(health.max_age));
        problems.push(format!(
            "the oldest is unpublished for {age}, longer than {max}: is a relay running?"
        ));
    }
    problems
}

fn whole_seconds(age: Duration) -> Duration {
    Duration::from_secs(age.as_secs())
}

fn row(name: &str, stats: &Stats) -> Vec<String> {
    let mut row = vec![name.to_owned(), stats.queued.to_string()];
    row.extend(PARKED.iter().map(|status| parked(stats, *status).to_string()));
    row.extend([stats.dead, stats.published, stats.duplicates].map(|number| number.to_string()));
    row.push(
        stats
            .oldest
            .map_or_else(|| "-".to_owned(), |age| duration::show(whole_seconds(age))),
    );
    row
}

fn value(name: &str, stats: &Stats, problems: &[String]) -> Value {
    json!({
        "outbox": name,
        "queued": stats.queued,
        "retrying": parked(stats, Status::Retrying),
        "waiting": parked(stats, Status::Waiting),
        "held": parked(stats, Status::Held),
        "scheduled": parked(stats, Status::Scheduled),
        "dead": stats.dead,
        "published": stats.published,
        "duplicates": stats.duplicates,
        "oldest_ms": stats.oldest.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        "problems": problems,
    })
}
