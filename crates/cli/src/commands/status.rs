//! `postrider status`: the state of the outboxes in numbers.

use std::time::Duration;

use postrider_core::{Filter, Stats, Status};
use serde_json::{Value, json};

use crate::config::{Config, Health, duration};
use crate::failure::{Done, Failure};
use crate::output::Output;
use crate::wire::{self, Opened};

/// Stalled events are counted up to this many: more says no more.
const STALLED: u32 = 100;

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
        let mut problems = problems(&stats, &config.health);
        let stalled_after = config.relay.settings.stalled_after;
        problems.extend(stalled(&opened, stalled_after).await?);
        if out.is_json() {
            out.value(&value(name, &stats, &problems))?;
        }
        complaints.extend(problems.into_iter().map(|text| format!("{name}: {text}")));
        rows.push(row(name, &stats));
    }
    if !out.is_json() {
        let (headers, rows) = without_zeros(rows);
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

/// The columns, and whether they are shown when every outbox has 0 there. With all of them a line has less than 80
/// characters. `DELIVERED` counts an event once a destination.
const COLUMNS: [(&str, bool); 11] = [
    ("OUTBOX", true),
    ("QUEUED", true),
    ("RETRY", false),
    ("WAIT", false),
    ("HELD", false),
    ("SCHED", false),
    ("DEAD", true),
    ("DELIVERED", true),
    ("DUPL", false),
    ("DISC", false),
    ("OLDEST", true),
];

fn without_zeros(rows: Vec<Vec<String>>) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let shown: Vec<bool> = (0..COLUMNS.len())
        .map(|column| COLUMNS[column].1 || rows.iter().any(|row| row[column] != "0"))
        .collect();
    let headers = COLUMNS.iter().zip(&shown).filter(|(_, shown)| **shown);
    let keep = |row: Vec<String>| {
        let cells = row.into_iter().zip(&shown).filter(|(_, shown)| **shown);
        cells.map(|(cell, _)| cell).collect()
    };
    (
        headers.map(|((name, _), _)| *name).collect(),
        rows.into_iter().map(keep).collect(),
    )
}

/// Whether events keep being refused for longer than `relay.stalled_after`.
async fn stalled(opened: &Opened, least: Duration) -> Result<Option<String>, Failure> {
    let filter = Filter {
        status: vec![Status::Retrying],
        failing_for: Some(least),
        ..Filter::default()
    };
    let listing = opened.console.list(filter, STALLED, None).await;
    let listing = listing.map_err(|error| Failure::store(&opened.name, &error))?;
    let number = match (listing.events.len(), listing.next) {
        (0, _) => return Ok(None),
        (number, Some(_)) => format!("more than {number}"),
        (number, None) => number.to_string(),
    };
    Ok(Some(format!(
        "{number} stalled, refused for longer than {}: `postrider dead list` shows them",
        duration::show(least)
    )))
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
    row.extend(
        [stats.dead, stats.published, stats.duplicates, stats.discarded].map(|number| number.to_string()),
    );
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
        "discarded": stats.discarded,
        "oldest_ms": stats.oldest.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        "problems": problems,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_less_than_80_columns_and_no_column_of_zeros() {
        let full = Stats {
            queued: 100_000,
            parked: PARKED.iter().map(|status| (status.as_str(), 1_000)).collect(),
            dead: 1_000,
            published: 100_000_000,
            duplicates: 1_000,
            discarded: 1_000,
            oldest: Some(Duration::from_secs(59)),
        };
        let (headers, rows) = without_zeros(vec![row("main", &full)]);
        assert_eq!((headers.len(), rows[0].len()), (COLUMNS.len(), COLUMNS.len()));
        let widths = headers
            .iter()
            .zip(&rows[0])
            .map(|(header, cell)| header.len().max(cell.len()) + 2);
        assert!(widths.sum::<usize>() - 2 < 80);
        let (headers, _) = without_zeros(vec![row("main", &Stats::default())]);
        assert_eq!(headers, ["OUTBOX", "QUEUED", "DEAD", "DELIVERED", "OLDEST"]);
    }
}
