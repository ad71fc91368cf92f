//! `postrider status`: the state of the outboxes in numbers.

use std::time::Duration;

use postrider_admin::{Health, Seen};
use postrider_core::{InForce, Job, JobState, LiveRelay, Scope, Stats, Status};
use serde_json::{Value, json};

use super::{control, job};
use crate::config::{Config, Outbox, duration};
use crate::failure::{Done, Failed, Failure};
use crate::output::{Output, cell};
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
    let mut relays = Vec::new();
    let mut decisions = Vec::new();
    let mut failed = Failed::default();
    for (name, outbox) in wire::chosen(config, outbox)? {
        let seen = look(config, name, outbox).await;
        let Some(seen) = failed.keep(seen) else { continue };
        // Which circuits are open is known only to the relay that opened them; everything else is judged as it does.
        let health = postrider_admin::judge(Ok(&seen), &[], &[], &config.health);
        if out.is_json() {
            out.value(&value(name, &seen, &health))?;
        }
        relays.extend(
            running(&seen.stats, &seen.controls, starts(config, name))
                .into_iter()
                .map(|text| format!("{name}: {text}")),
        );
        decisions.extend(
            seen.controls
                .iter()
                .map(|one| format!("{name}: {}", control::line(one))),
        );
        decisions.extend(seen.jobs.iter().map(|job| {
            let by = job::goes_on_by(config, name, job);
            format!("{name}: {}", unfinished(job, &by))
        }));
        complaints.extend(health.problems().map(|reason| format!("{name}: {}", reason.text)));
        rows.push(row(name, &seen.stats));
    }
    if !out.is_json() && !rows.is_empty() {
        let (headers, rows) = without_zeros(rows);
        out.table(&headers, rows)?;
        for text in relays.iter().chain(&complaints).chain(&decisions) {
            out.line(text)?;
        }
    }
    let done = match check && !complaints.is_empty() {
        true => Done::Found,
        false => Done::Fine,
    };
    failed.or(out.is_json(), done)
}

async fn look(config: &Config, name: &str, outbox: &Outbox) -> Result<Seen, Failure> {
    let opened = wire::ready(name, outbox).await?;
    postrider_admin::look(&*opened.console, config.health.stalled_after)
        .await
        .map_err(|error| Failure::store(name, &error))
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

fn whole_seconds(age: Duration) -> Duration {
    Duration::from_secs(age.as_secs())
}

fn row(name: &str, stats: &Stats) -> Vec<String> {
    let mut row = vec![name.to_owned(), stats.queued.to_string()];
    row.extend(PARKED.iter().map(|status| stats.parked_as(*status).to_string()));
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

/// What starts a relay for an outbox, unless a service has one inside.
fn starts(config: &Config, outbox: &str) -> &'static str {
    match &config.notify {
        Some(notify) if notify.outbox == outbox => "postrider notify run",
        _ => "postrider run",
    }
}

/// Who has which part, and what nobody has: the first thing to know where events stay. Whether a destination takes them
/// only the relay knows.
fn running(stats: &Stats, controls: &[InForce], starts: &str) -> Vec<String> {
    let owned: usize = stats.relays.iter().map(|relay| relay.shards.len()).sum();
    let total = usize::from(stats.shards);
    let of = |shards: usize| match (shards, total) {
        (0, _) => "no shard yet".to_owned(),
        (all, total) if all == total => "every shard".to_owned(),
        (some, total) => format!("{some} of {total} shards"),
    };
    let nobody = match (stats.relays.is_empty(), total.saturating_sub(owned)) {
        (true, _) => Some(format!(
            "no relay is running: nothing is published until one is (`{starts}`)"
        )),
        (false, 0) => None,
        (false, _) if owned == 0 => Some("nothing is published yet: no relay has its lease".to_owned()),
        (false, left) => Some(format!(
            "{left} of {total} shards are nobody's yet: their events wait"
        )),
    };
    let mut pauses = controls.iter().filter(|one| one.paused);
    let paused = match pauses.clone().any(|one| one.scope == Scope::Outbox) {
        true => ", but the outbox is paused: nothing is published",
        false if pauses.next().is_some() => "; what is paused is not published",
        false => "",
    };
    let relays = stats.relays.iter().map(|relay| {
        let (name, owns) = (cell(&relay.relay.0), of(relay.shards.len()));
        format!("the relay {name} is running and owns {owns}{paused}")
    });
    relays.chain(nobody).collect()
}

fn relay(relay: &LiveRelay) -> Value {
    json!({
        "relay": &*relay.relay.0,
        "expires_in_ms": millis(relay.expires_in),
        "shards": relay.shards.iter().map(|shard| shard.0).collect::<Vec<_>>(),
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A job that somebody has to go on with, unless he is at it.
fn unfinished(job: &Job, by: &str) -> String {
    let goes_on = match job.state {
        JobState::Running => format!("{}, {by} goes on", job::UNLESS_DRIVEN),
        _ => format!("go on with {by}"),
    };
    // A copy that is made and not sent has not arrived anywhere.
    let unsent = match job.waiting {
        0 => String::new(),
        copies => format!(", {copies} of them not sent"),
    };
    format!(
        "the job {} ({}) of {} is {}, {} done{unsent}; {goes_on}",
        job.id,
        job.kind.as_str(),
        cell(&job.actor),
        job.state.as_str(),
        job.touched,
    )
}

fn value(name: &str, seen: &Seen, health: &Health) -> Value {
    let stats = &seen.stats;
    let problems: Vec<&str> = health.problems().map(|reason| reason.text.as_str()).collect();
    json!({
        "outbox": name,
        "queued": stats.queued,
        "retrying": stats.parked_as(Status::Retrying),
        "waiting": stats.parked_as(Status::Waiting),
        "held": stats.parked_as(Status::Held),
        "scheduled": stats.parked_as(Status::Scheduled),
        "dead": stats.dead,
        "published": stats.published,
        "duplicates": stats.duplicates,
        "discarded": stats.discarded,
        "oldest_ms": stats.oldest.map(millis),
        "shards": stats.shards,
        "relays": stats.relays.iter().map(relay).collect::<Vec<_>>(),
        "status": health.level.as_str(),
        "problems": problems,
        "controls": seen.controls.iter().map(control::value).collect::<Vec<_>>(),
        "jobs": seen.jobs.iter().map(|job| job::value(name, job)).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use postrider_core::{RelayId, Shard};

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
            ..Stats::default()
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

    #[test]
    fn it_says_who_publishes_and_what_nobody_does() {
        let relay = |name: &str, shards: std::ops::Range<u16>| LiveRelay {
            relay: RelayId(name.into()),
            expires_in: Duration::from_secs(1),
            shards: shards.map(Shard).collect(),
        };
        let said = |relays: Vec<LiveRelay>| {
            let stats = Stats {
                shards: 4,
                relays,
                ..Stats::default()
            };
            running(&stats, &[], "postrider run").join("; ")
        };
        assert!(said(Vec::new()).starts_with("no relay is running"));
        assert_eq!(
            said(vec![relay("a", 0..4), relay("b", 0..0)]),
            "the relay a is running and owns every shard; the relay b is running and owns no shard yet"
        );
        assert_eq!(
            said(vec![relay("a", 0..1)]),
            "the relay a is running and owns 1 of 4 shards; 3 of 4 shards are nobody's yet: their events wait"
        );
        assert!(said(vec![relay("a", 0..0)]).ends_with("no relay has its lease"));
    }
}
