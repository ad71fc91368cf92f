//! `postrider audit`: who did what, the newest first.

use std::cmp::Reverse;

use postrider_core::{AuditEntry, JobId, NewJob, Timestamp};
use serde_json::{Value, json};

use super::merge::merged;
use crate::config::Config;
use crate::failure::{Done, Failed, Failure};
use crate::output::{Output, cell, time};
use crate::wire::{self, Opened};

/// Entries of one page. A job writes one a step, and its steps are told as one line.
const PAGE: u32 = 500;
/// Pages that are looked through at most for as many lines as were asked for.
const PAGES: usize = 20;

/// What somebody did, with all steps of a job in one.
struct Deed {
    last: AuditEntry,
    steps: u64,
}

pub async fn audit(config: &Config, out: Output, outbox: Option<&str>, limit: u32) -> Result<Done, Failure> {
    let mut failed = Failed::default();
    let mut found = Vec::new();
    for (name, outbox) in wire::chosen(config, outbox)? {
        let deeds = async { deeds(&wire::ready(name, outbox).await?, limit as usize).await };
        let deeds = failed.keep(deeds.await).unwrap_or_default();
        found.push(deeds.into_iter().map(|deed| (name, deed)).collect());
    }
    let mut rows = Vec::new();
    for (name, deed) in merged(found, limit, |(_, deed)| Reverse(deed.last.at)) {
        match out.is_json() {
            true => out.value(&value(name, &deed))?,
            false => rows.push(row(name, &deed)),
        }
    }
    match (out.is_json() || failed.is_some(), rows.is_empty()) {
        (true, true) => {}
        (false, true) => out.line("nobody did anything")?,
        (_, false) => out.table(&HEADERS, rows)?,
    }
    failed.or(out.is_json(), Done::Fine)
}

async fn deeds(opened: &Opened, limit: usize) -> Result<Vec<Deed>, Failure> {
    let mut deeds: Vec<Deed> = Vec::new();
    let mut from = None;
    for _ in 0..PAGES {
        let page = opened.console.audit(PAGE, from).await;
        let page = page.map_err(|error| Failure::store(&opened.name, &error))?;
        for entry in page.entries {
            add(&mut deeds, entry);
        }
        from = page.next;
        // One more than was asked for: only then are all steps of the last one in.
        if from.is_none() || deeds.len() > limit {
            break;
        }
    }
    deeds.truncate(limit);
    Ok(deeds)
}

/// A step of a job that was seen before belongs there; the newest comes first. That a job began is said by its steps,
/// where it made some.
fn add(deeds: &mut Vec<Deed>, entry: AuditEntry) {
    let of_its_kind = |deed: &Deed| deed.last.job == entry.job && !deed.last.action.ends_with("_job");
    if entry.action == NewJob::BEGUN && deeds.iter().any(of_its_kind) {
        return;
    }
    let same = |deed: &&mut Deed| {
        entry.job.is_some() && deed.last.job == entry.job && deed.last.action == entry.action
    };
    match deeds.iter_mut().find(same) {
        Some(deed) => {
            deed.last.touched += entry.touched;
            deed.steps += 1;
        }
        None => deeds.push(Deed {
            last: entry,
            steps: 1,
        }),
    }
}

const HEADERS: [&str; 6] = ["AT", "WHO", "WHAT", "ROWS", "WITH", "OUTBOX"];

fn row(outbox: &str, Deed { last, .. }: &Deed) -> Vec<String> {
    let mut with: Vec<String> = last.job.iter().map(|job| format!("job {job}")).collect();
    with.extend(last.event_id.iter().map(|id| id.as_str().to_owned()));
    match serde_json::from_str(&last.detail) {
        // The id of the event is there already.
        Ok(detail) => words("", &detail, &mut |name, text| {
            if name != "event_id" || last.event_id.is_none() {
                with.push(format!("{}={text}", name.replace('_', "-")));
            }
        }),
        Err(_) => with.push(last.detail.clone()),
    }
    vec![
        time(last.at),
        cell(&last.actor),
        cell(&last.action),
        last.touched.to_string(),
        cell(&with.join(" ")),
        outbox.to_owned(),
    ]
}

/// The parts of a detail that say something, each with its name.
fn words(name: &str, value: &Value, tell: &mut dyn FnMut(&str, String)) {
    let text = match (name, value) {
        (_, Value::Object(parts)) => return parts.iter().for_each(|(name, part)| words(name, part, tell)),
        (_, Value::Null) => return,
        (_, Value::Array(all)) if all.is_empty() => return,
        ("since" | "until", Value::Number(at)) => at.as_i64().map(Timestamp).map_or_else(String::new, time),
        (_, Value::Array(all)) => {
            let all: Vec<String> = all.iter().map(word).collect();
            all.join(",")
        }
        (_, one) => word(one),
    };
    tell(name, text);
}

/// A text with blanks in it is told apart from what follows.
fn word(value: &Value) -> String {
    match value.as_str() {
        Some(text) if !text.contains(char::is_whitespace) => text.to_owned(),
        _ => value.to_string(),
    }
}

fn value(outbox: &str, Deed { last, steps }: &Deed) -> Value {
    let detail: Value =
        serde_json::from_str(&last.detail).unwrap_or_else(|_| Value::String(last.detail.clone()));
    json!({
        "outbox": outbox,
        "at": time(last.at),
        "actor": last.actor,
        "action": last.action,
        "touched": last.touched,
        "steps": steps,
        "job": last.job.as_ref().map(JobId::as_str),
        "event_id": last.event_id.as_ref().map(|id| id.as_str()),
        "detail": detail,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_is_told_in_words() {
        let deed = |detail: &str, id: Option<&str>| {
            let last = AuditEntry {
                at: Timestamp(0),
                actor: "cli:ann".to_owned(),
                action: "discard".to_owned(),
                detail: detail.to_owned(),
                touched: 1,
                job: None,
                event_id: id.map(Into::into),
            };
            row("main", &Deed { last, steps: 1 })[4].clone()
        };
        let detail = r#"{"event_id": "e", "status": ["DEAD_LETTER", "RETRYING"], "reason": "not wanted"}"#;
        assert_eq!(
            deed(detail, Some("e")),
            "e reason=\"not wanted\" status=DEAD_LETTER,RETRYING"
        );
        let detail = r#"{"filter": {"event_type": "T"}, "since": 1794851130682286, "to": null, "rate": 5}"#;
        assert_eq!(
            deed(detail, None),
            "event-type=T rate=5 since=2026-11-16T17:45:30.682Z"
        );
        assert_eq!(deed("no json", None), "no json");
    }

    #[test]
    fn the_steps_of_a_job_are_one_line() {
        let entry = |job: Option<&str>, action: &str| AuditEntry {
            at: Timestamp(0),
            actor: "cli:ann".to_owned(),
            action: action.to_owned(),
            detail: "{}".to_owned(),
            touched: 500,
            job: job.map(JobId::from),
            event_id: None,
        };
        let mut deeds = Vec::new();
        for entry in [
            entry(Some("a"), "redrive"),
            entry(None, "redrive"),
            entry(Some("a"), "redrive"),
            entry(Some("a"), "pause_job"),
            entry(None, "redrive"),
            entry(Some("a"), NewJob::BEGUN),
            entry(Some("b"), NewJob::BEGUN),
        ] {
            add(&mut deeds, entry);
        }
        let told: Vec<_> = deeds.iter().map(|deed| (deed.last.touched, deed.steps)).collect();
        assert_eq!(told, [(1_000, 2), (500, 1), (500, 1), (500, 1), (500, 1)]);
        assert_eq!(deeds[4].last.job, Some("b".into()), "one that made no step");
    }
}
