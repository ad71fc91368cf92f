//! What a verb did, over all outboxes, as it is told at the end.

use std::collections::{BTreeMap, BTreeSet};

use postrider_core::{Chunk, EventId, JobState, Status, remedy};
use serde_json::{Value, json};

use super::drive::Driven;
use super::job;
use crate::failure::{Done, Failure};
use crate::output::{Output, cell, deliveries};

/// Refusals that a text names; scripts get all that are known.
const NAMED: usize = 20;

/// What a verb did.
pub struct Total {
    /// The verb in the words of the command line, and its past.
    pub words: (&'static str, &'static str),
    pub dry_run: bool,
    pub touched: u64,
    /// Events that are in a state which the verb does not work on.
    pub refused: Vec<(String, Status)>,
    /// Events that were not discarded because they go out by themselves.
    pub moving: Vec<(String, Status)>,
    /// Ids that were named and found in some outbox.
    pub found: BTreeSet<String>,
    /// Outboxes that were not begun with, because somebody stopped it.
    pub left: Vec<String>,
    /// Events that match a filter but for the state they are in.
    left_out: BTreeMap<Status, u64>,
    jobs: Vec<Driven>,
}

impl Total {
    pub fn new(words: (&'static str, &'static str), dry_run: bool) -> Self {
        Self {
            words,
            dry_run,
            touched: 0,
            refused: Vec::new(),
            moving: Vec::new(),
            found: BTreeSet::new(),
            left: Vec::new(),
            left_out: BTreeMap::new(),
            jobs: Vec::new(),
        }
    }

    /// One step without a job.
    pub fn add(&mut self, chunk: Chunk) {
        self.touched += chunk.touched;
        self.refuse(chunk.refused);
    }

    /// A whole job, or as much of it as was done.
    pub fn add_job(&mut self, mut driven: Driven) {
        self.touched += driven.touched;
        self.refuse(std::mem::take(&mut driven.refused));
        self.jobs.push(driven);
    }

    /// What a filter did not mean in one outbox.
    pub fn leave_out(&mut self, others: BTreeMap<Status, u64>) {
        for (status, rows) in others {
            *self.left_out.entry(status).or_default() += rows;
        }
    }

    fn refuse(&mut self, refused: Vec<(EventId, Status)>) {
        let refused = refused.into_iter().map(|(id, status)| (id.to_string(), status));
        self.refused.extend(refused);
    }

    /// Nothing matched, which is no problem unless somebody named an event.
    pub fn nothing(self, out: Output) -> Result<Done, Failure> {
        let mut lines = vec![format!("nothing to {}", self.words.0)];
        lines.extend(self.others());
        out.either(&self.value(&[]), lines.join("\n"))?;
        Ok(Done::Fine)
    }

    /// Tells what was done, and with which of the events that were named nothing could be done.
    pub fn report(self, out: Output, ids: &[String]) -> Result<Done, Failure> {
        let unknown: Vec<&String> = ids.iter().filter(|id| !self.found.contains(*id)).collect();
        out.either(&self.value(&unknown), self.text(&unknown))?;
        let stopped = self.jobs.iter().any(|driven| driven.job.state != JobState::Done);
        let fine = self.touched > 0
            && self.refused.is_empty()
            && self.moving.is_empty()
            && self.left.is_empty()
            && unknown.is_empty()
            && !stopped;
        Ok(if fine { Done::Fine } else { Done::Found })
    }

    fn value(&self, unknown: &[&String]) -> Value {
        let refused: Vec<Value> = self
            .refused
            .iter()
            .chain(&self.moving)
            .map(|(id, status)| {
                json!({
                    "event_id": id,
                    "status": status.as_str(),
                    "remedy": remedy(self.words.0, *status),
                })
            })
            .collect();
        let jobs: Vec<Value> = self
            .jobs
            .iter()
            .map(|driven| job::value(&driven.outbox, &driven.job))
            .collect();
        let left_out: BTreeMap<&str, u64> = self
            .left_out
            .iter()
            .map(|(status, rows)| (status.as_str(), *rows))
            .collect();
        json!({
            "touched": self.touched,
            "refused": refused,
            "unknown": unknown,
            "left_out": left_out,
            "dry_run": self.dry_run,
            "jobs": jobs,
        })
    }

    /// What the filter left out, and why that is right or what would take it in.
    fn others(&self) -> impl Iterator<Item = String> {
        self.left_out.iter().map(|(status, rows)| {
            let why = match (self.words.0, status) {
                ("discard", Status::Retrying) => "tried again by itself; name it by its id to discard it",
                (verb, status) => remedy(verb, *status),
            };
            format!(
                "left out: {} in state {}: {why}",
                deliveries(*rows),
                status.as_str()
            )
        })
    }

    fn text(&self, unknown: &[&String]) -> String {
        let (verb, done) = self.words;
        let would = if self.dry_run { "would be " } else { "" };
        let mut lines = vec![format!("{} {would}{done}", deliveries(self.touched))];
        for (id, status) in self.refused.iter().take(NAMED) {
            let what_works = remedy(verb, *status);
            lines.push(format!(
                "not {}: it is {}: {what_works}",
                cell(id),
                status.as_str()
            ));
        }
        if self.refused.len() > NAMED {
            lines.push(format!("… nor {} more", self.refused.len() - NAMED));
        }
        for (id, status) in &self.moving {
            let (id, status) = (cell(id), status.as_str());
            lines.push(format!(
                "not {id}: it is {status} and goes out by itself; --yes discards it all the same"
            ));
        }
        for id in unknown {
            lines.push(format!(
                "not {}: no such event, or the filter is not about it",
                cell(id)
            ));
        }
        lines.extend(self.others());
        lines.extend(self.jobs.iter().map(Driven::text));
        for name in &self.left {
            lines.push(format!("nothing was begun in the outbox {name:?}"));
        }
        lines.join("\n")
    }
}
