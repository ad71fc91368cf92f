//! `postrider audit`: who did what, the newest first.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use postrider_core::{AuditEntry, JobId, NewJob, Purge, Timestamp};
use serde_json::{Value, json};

use super::merge::merged;
use crate::config::Config;
use crate::failure::{Done, Failed, Failure};
use crate::output::{Output, cell, time};
use crate::wire::{self, Opened};

/// Entries of one page. A job writes one a step, and its steps are told as one line.
const PAGE: u32 = 500;
/// For how long the beginnings of the jobs are looked for. A job of a slow replay has a step for every few rows, and
/// whoever asks who did what waits a little for the true number.
const PATIENCE: Duration = Duration::from_secs(5);

/// Steps of one purge follow each other faster than that.
const BETWEEN_STEPS: i64 = 60_000_000;

/// What somebody did, with all steps of a job or a purge in one.
struct Deed {
    last: AuditEntry,
    /// When its first step was, of those that were read.
    first_at: Timestamp,
    steps: u64,
    /// Whether all its steps were read: a job has none before it began.
    is_whole: bool,
}

/// What was read of the audit of one outbox, the newest first.
#[derive(Default)]
struct Read {
    deeds: Vec<Deed>,
    /// How far back it was read.
    to: Option<Timestamp>,
    /// Jobs whose beginning was read.
    begun: BTreeSet<JobId>,
    /// There may be more than was read, and less was found than was asked for.
    is_short: bool,
}

pub async fn audit(config: &Config, out: Output, outbox: Option<&str>, limit: u32) -> Result<Done, Failure> {
    let mut failed = Failed::default();
    let (mut found, mut is_short) = (Vec::new(), false);
    for (name, outbox) in wire::chosen(config, outbox)? {
        let read = async { read(&wire::ready(name, outbox).await?, limit as usize).await };
        let read = failed.keep(read.await).unwrap_or_default();
        is_short |= read.is_short;
        found.push(read.deeds.into_iter().map(|deed| (name, deed)).collect());
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
    if is_short && !out.is_json() {
        let seconds = PATIENCE.as_secs();
        out.line(format!(
            "… and perhaps more, {seconds} s were not enough: the table outbox_audit has all of it"
        ))?;
    }
    failed.or(out.is_json(), Done::Fine)
}

/// As many deeds as were asked for, each with all its steps: a number must not depend on how many lines are wanted.
async fn read(opened: &Opened, limit: usize) -> Result<Read, Failure> {
    let until = Instant::now() + PATIENCE;
    let mut read = Read::default();
    let mut from = None;
    loop {
        let page = opened.console.audit(PAGE, from).await;
        let page = page.map_err(|error| Failure::store(&opened.name, &error))?;
        for entry in page.entries {
            read.add(entry, limit);
        }
        from = page.next;
        let is_all = from.is_none() || read.deeds.len() >= limit && read.has_begun();
        if is_all || Instant::now() > until {
            read.is_short = from.is_some() && read.deeds.len() < limit;
            read.end();
            return Ok(read);
        }
    }
}

impl Deed {
    /// A purge is no job, and each of its steps is written down.
    fn is_purge(&self) -> bool {
        self.last.job.is_none() && self.last.action == Purge::WORD
    }

    fn is_long_after(&self, at: Timestamp) -> bool {
        self.first_at.0.saturating_sub(at.0) > BETWEEN_STEPS
    }

    /// Whether an older entry is a step of the same purge.
    fn goes_on_from(&self, entry: &AuditEntry) -> bool {
        let (last, is_purge) = (&self.last, self.is_purge());
        let same = last.actor == entry.actor && last.action == entry.action && last.detail == entry.detail;
        is_purge && same && !self.is_long_after(entry.at)
    }
}

impl Read {
    /// A step of a job that was seen before belongs there; the newest comes first. That a job began is said by its
    /// steps, where it made some. Behind the limit only such steps are looked for.
    fn add(&mut self, entry: AuditEntry, limit: usize) {
        self.to = Some(entry.at);
        let job = entry.job.as_ref();
        let is_beginning = entry.action == NewJob::BEGUN;
        if is_beginning {
            self.begun.extend(job.cloned());
        }
        let of_its_kind = |deed: &Deed| deed.last.job == entry.job && !deed.last.action.ends_with("_job");
        if is_beginning && self.deeds.iter().any(of_its_kind) {
            return;
        }
        let same = |deed: &&mut Deed| match job {
            Some(_) => deed.last.job == entry.job && deed.last.action == entry.action,
            None => deed.goes_on_from(&entry),
        };
        let has_room = self.deeds.len() < limit;
        match self.deeds.iter_mut().rev().find(same) {
            Some(deed) => {
                deed.last.touched += entry.touched;
                deed.first_at = entry.at;
                deed.steps += 1;
            }
            None if has_room => self.deeds.push(Deed {
                first_at: entry.at,
                last: entry,
                steps: 1,
                is_whole: false,
            }),
            None => {}
        }
    }

    /// Whether no deed can have a step that was not read.
    fn has_begun(&self) -> bool {
        let mut jobs = self.deeds.iter().filter_map(|deed| deed.last.job.as_ref());
        let mut purges = self.deeds.iter().filter(|deed| deed.is_purge());
        jobs.all(|job| self.begun.contains(job))
            && purges.all(|purge| self.to.is_some_and(|to| purge.is_long_after(to)))
    }

    /// Says of each deed whether all of it was read. Where the beginning of a job was removed with old audit rows some
    /// of its steps may have been, too; what a person did with the job as a whole is no step.
    fn end(&mut self) {
        for deed in &mut self.deeds {
            let is_known = |job| self.begun.contains(job) || deed.last.action.ends_with("_job");
            deed.is_whole = deed.last.job.as_ref().is_none_or(is_known);
        }
    }
}

const HEADERS: [&str; 6] = ["AT", "WHO", "WHAT", "ROWS", "WITH", "OUTBOX"];

fn row(outbox: &str, Deed { last, is_whole, .. }: &Deed) -> Vec<String> {
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
        match is_whole {
            true => last.touched.to_string(),
            false => format!("at least {}", last.touched),
        },
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

fn value(outbox: &str, deed: &Deed) -> Value {
    let Deed {
        last,
        steps,
        is_whole,
        ..
    } = deed;
    let detail: Value =
        serde_json::from_str(&last.detail).unwrap_or_else(|_| Value::String(last.detail.clone()));
    json!({
        "outbox": outbox,
        "at": time(last.at),
        "actor": last.actor,
        "action": last.action,
        "touched": last.touched,
        "steps": steps,
        "exact": is_whole,
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
            let deed = Deed {
                first_at: last.at,
                last,
                steps: 1,
                is_whole: true,
            };
            row("main", &deed)[4].clone()
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

    fn entry(job: Option<&str>, action: &str) -> AuditEntry {
        AuditEntry {
            at: Timestamp(0),
            actor: "cli:ann".to_owned(),
            action: action.to_owned(),
            detail: "{}".to_owned(),
            touched: 500,
            job: job.map(JobId::from),
            event_id: None,
        }
    }

    /// The number of a job does not depend on how many lines were asked for, and where its first steps are not known
    /// it says so.
    #[test]
    fn a_job_is_counted_from_its_beginning() {
        let mut read = Read::default();
        for _ in 0..3 {
            read.add(entry(Some("a"), "replay"), 1);
            read.add(entry(Some("b"), "replay"), 1);
            read.end();
            assert!(!read.has_begun());
        }
        assert_eq!(row("main", &read.deeds[0])[3], "at least 1500");
        assert_eq!(value("main", &read.deeds[0])["exact"], false);
        read.add(entry(Some("a"), NewJob::BEGUN), 1);
        read.end();
        assert!(read.has_begun());
        assert_eq!((read.deeds.len(), read.deeds[0].steps), (1, 3));
        assert_eq!(row("main", &read.deeds[0])[3], "1500");
    }

    /// A step is a thousand rows, and what matters is how many went; other purges, of others and later, are theirs.
    #[test]
    fn the_steps_of_a_purge_are_one_line() {
        let mut read = Read::default();
        let step = |at: i64, actor: &str| AuditEntry {
            at: Timestamp(at * 1_000_000),
            actor: actor.to_owned(),
            ..entry(None, Purge::WORD)
        };
        for (at, actor) in [
            (900, "ann"),
            (850, "ann"),
            (849, "bob"),
            (800, "ann"),
            (700, "ann"),
        ] {
            read.add(step(at, actor), 3);
        }
        let told = |read: &Read| {
            read.deeds
                .iter()
                .map(|deed| deed.last.touched)
                .collect::<Vec<_>>()
        };
        assert_eq!(told(&read), [1_500, 500, 500]);
        assert!(!read.has_begun(), "the last may go on");
        read.add(step(650, "ann"), 3);
        read.add(step(500, "ann"), 3);
        assert_eq!(told(&read), [1_500, 500, 1_000]);
        assert!(read.has_begun());
    }

    #[test]
    fn the_steps_of_a_job_are_one_line() {
        let mut read = Read::default();
        for entry in [
            entry(Some("a"), "redrive"),
            entry(None, "redrive"),
            entry(Some("a"), "redrive"),
            entry(Some("a"), "pause_job"),
            entry(None, "redrive"),
            entry(Some("a"), NewJob::BEGUN),
            entry(Some("b"), NewJob::BEGUN),
        ] {
            read.add(entry, 100);
        }
        let told: Vec<_> = read
            .deeds
            .iter()
            .map(|deed| (deed.last.touched, deed.steps))
            .collect();
        assert_eq!(told, [(1_000, 2), (500, 1), (500, 1), (500, 1), (500, 1)]);
        assert_eq!(read.deeds[4].last.job, Some("b".into()), "one that made no step");
    }
}
