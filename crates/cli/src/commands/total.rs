//! What a verb did, over all outboxes, as it is told at the end.

use std::collections::{BTreeMap, BTreeSet};

use postrider_core::{Chunk, EventId, EventRecord, JobState, Status, Verb};
use serde_json::{Value, json};

use super::behind::{Paused, Stays, Waits};
use super::drive::Driven;
use super::refused::{Around, NOT_EDITED, ONLY_COPIES, Refused, what_works};
use crate::failure::{Done, Failure};
use crate::output::{Output, cell, deliveries};
use crate::wire::Opened;

/// Refusals, and events that wait, that a text names; scripts get all that are known.
const NAMED: usize = 20;

/// An event, or what is left of it, that goes out by itself and was not discarded.
struct Moving {
    id: String,
    status: Status,
    /// Other deliveries of it were discarded.
    is_rest: bool,
}

/// What a verb did.
pub struct Total {
    /// The verb in the words of the command line, and its past.
    pub words: (&'static str, &'static str),
    pub dry_run: bool,
    pub touched: u64,
    /// Events that are in a state which the verb does not work on.
    refused: Vec<Refused>,
    /// Events that were not discarded because they go out by themselves.
    moving: Vec<Moving>,
    /// What was redriven and does not go before another, or before something is resumed.
    pub stays: Stays,
    /// Ids that were named and found in some outbox.
    pub found: BTreeSet<String>,
    /// Whether more than ids was given: an event that was named may be there and not be meant.
    pub is_narrowed: bool,
    /// Events that were named, are there and are not meant by the filter: where they stand.
    elsewhere: BTreeMap<String, String>,
    /// Outboxes that were not begun with, because somebody stopped it.
    pub left: Vec<String>,
    /// How the outbox is that is being worked on, and what had been touched before it.
    around: Around,
    before: u64,
    /// Whether something was sent again where no relay is running.
    is_alone: bool,
    /// Whether no relay is running in some outbox that was worked on.
    lacks_relay: bool,
    /// Of what matches a filter: what is paused of it, and what lets it go on.
    pauses: Option<Vec<String>>,
    /// Events that match a filter but for the state they are in, and how their outbox is.
    left_out: BTreeMap<(Status, Around), u64>,
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
            stays: Stays::default(),
            found: BTreeSet::new(),
            is_narrowed: false,
            elsewhere: BTreeMap::new(),
            left: Vec::new(),
            around: Around::default(),
            before: 0,
            is_alone: false,
            lacks_relay: false,
            pauses: None,
            left_out: BTreeMap::new(),
            jobs: Vec::new(),
        }
    }

    /// Goes on with another outbox: what works in it depends on how it is.
    pub async fn enter(&mut self, outbox: &Opened) -> Result<(), Failure> {
        self.around = Around::of(outbox).await?;
        self.lacks_relay |= self.around.is_alone;
        self.before = self.touched;
        Ok(())
    }

    /// Is done with what was named in an outbox.
    pub fn leave(&mut self, verb: &Verb) {
        let is_sent = *verb == Verb::Redrive && self.touched > self.before;
        self.is_alone |= is_sent && self.around.is_alone;
    }

    /// What would be sent again of what matches a filter in an outbox, and what is paused of it.
    pub fn would(&mut self, rows: u64, pauses: Vec<String>) {
        self.touched += rows;
        self.is_alone |= self.around.is_alone;
        self.pauses.get_or_insert_default().extend(pauses);
    }

    /// Whether nothing that matches was left out.
    pub fn is_all(&self) -> bool {
        self.left_out.is_empty()
    }

    /// One step without a job.
    pub fn add(&mut self, chunk: Chunk) {
        self.touched += chunk.touched;
        if self.words.0 != "edit" || chunk.touched == 0 {
            return self.refuse_all(chunk.refused);
        }
        let rest = |(id, status): (EventId, Status)| Refused {
            id: id.to_string(),
            status: Some(status),
            is_rest: true,
            remedy: NOT_EDITED,
        };
        self.refused.extend(chunk.refused.into_iter().map(rest));
    }

    /// A whole job, or as much of it as was done.
    pub fn add_job(&mut self, mut driven: Driven) {
        self.touched += driven.touched;
        self.refuse_all(std::mem::take(&mut driven.refused));
        self.jobs.push(driven);
    }

    /// What a filter did not mean in one outbox.
    pub fn leave_out(&mut self, others: BTreeMap<Status, u64>) {
        for (status, rows) in others {
            *self.left_out.entry((status, self.around)).or_default() += rows;
        }
    }

    /// The verb does not work on the state that an event is in.
    pub fn refuse(&mut self, id: &str, status: Status, only_copies: bool) {
        let verb = self.words.0;
        let sends = !matches!(verb, "discard" | "cancel");
        let remedy = match only_copies && sends && status == Status::Published {
            true => ONLY_COPIES,
            false => what_works(verb, status, self.around),
        };
        self.refused.push(Refused {
            id: id.to_owned(),
            status: Some(status),
            is_rest: false,
            remedy,
        });
    }

    /// An event that goes out by itself was not discarded, or those of its deliveries that do.
    pub fn moves(&mut self, id: &str, status: Status, is_rest: bool) {
        self.moving.push(Moving {
            id: id.to_owned(),
            status,
            is_rest,
        });
    }

    /// An event that was named is there, and the filter is not about it.
    pub fn elsewhere(&mut self, id: &str, records: &[EventRecord]) {
        let routes = records.iter().flat_map(|record| &record.routes);
        let stands: BTreeSet<String> = routes
            .map(|route| match &route.destination {
                Some(name) => format!("{} at {}", route.status.as_str(), cell(name.as_str())),
                None => format!("{} and has no destination", route.status.as_str()),
            })
            .collect();
        if !stands.is_empty() {
            let stands: Vec<String> = stands.into_iter().collect();
            self.elsewhere.insert(id.to_owned(), stands.join(", "));
        }
    }

    fn refuse_all(&mut self, refused: Vec<(EventId, Status)>) {
        for (id, status) in refused {
            self.refuse(id.as_str(), status, false);
        }
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
        let moving = self.moving.iter().map(|one| Refused {
            id: one.id.clone(),
            status: Some(one.status),
            is_rest: one.is_rest,
            remedy: what_works(self.words.0, one.status, Around::default()),
        });
        let refused = self.refused.iter().map(Refused::value);
        let refused: Vec<Value> = refused.chain(moving.map(|one| one.value())).collect();
        let jobs: Vec<Value> = self.jobs.iter().map(Driven::value).collect();
        let mut left_out: BTreeMap<&str, u64> = BTreeMap::new();
        for ((status, _), rows) in &self.left_out {
            *left_out.entry(status.as_str()).or_default() += rows;
        }
        let mut value = json!({
            "touched": self.touched,
            "refused": refused,
            "unknown": unknown,
            "left_out": left_out,
            "dry_run": self.dry_run,
            "jobs": jobs,
        });
        // Jobs say of themselves what is in their way.
        if matches!(self.words.0, "redrive" | "edit") && self.jobs.is_empty() {
            value["relay_runs"] = (!self.lacks_relay).into();
        }
        if let Some(pauses) = &self.pauses {
            value["paused"] = pauses.clone().into();
        } else if self.jobs.is_empty() {
            value["waiting"] = self.stays.waits.iter().map(Waits::value).collect();
            value["paused"] = self.stays.paused.iter().map(Paused::value).collect();
        }
        value
    }

    /// What the filter left out, and why that is right or what would take it in.
    fn others(&self) -> impl Iterator<Item = String> {
        self.left_out.iter().map(|((status, around), rows)| {
            let why = match (self.words.0, status) {
                ("discard", Status::Retrying) => {
                    "redriven, or refused and tried again by itself; this command takes it once it is dead again, and \
                     an event behind a dead one of its key once that is gone; `postrider dead discard ID --reason WHY` \
                     takes it now"
                }
                ("redrive", Status::Retrying) => {
                    "redriven already and not tried since: it is behind another of its key, paused, or no relay has \
                     come to it; `postrider show ID` says which"
                }
                (verb, status) => what_works(verb, *status, *around),
            };
            format!(
                "left out: {} in state {}: {why}",
                deliveries(*rows),
                status.as_str()
            )
        })
    }

    fn text(&self, unknown: &[&String]) -> String {
        let (_, done) = self.words;
        let would = if self.dry_run { "would be " } else { "" };
        let mut lines = vec![format!("{} {would}{done}", deliveries(self.touched))];
        if self.is_alone {
            let sent = if self.dry_run { "would send" } else { "sends" };
            lines.push(format!("no relay is running: `postrider run` {sent} it"));
        }
        lines.extend(self.pauses.iter().flatten().cloned());
        let waits = self.stays.waits.iter().map(|one| one.text(self.dry_run));
        let paused = self.stays.paused.iter().map(|one| one.text(self.dry_run));
        lines.extend(waits.chain(paused).take(NAMED));
        let stay = self.stays.waits.len() + self.stays.paused.len();
        if stay > NAMED {
            lines.push(format!("… and {} more", stay - NAMED));
        }
        lines.extend(self.refused.iter().take(NAMED).map(Refused::text));
        if self.refused.len() > NAMED {
            lines.push(format!("… nor {} more", self.refused.len() - NAMED));
        }
        for Moving { id, status, is_rest } in &self.moving {
            let goes = match status {
                Status::Waiting => "once what is before it has gone",
                Status::Held => {
                    "when a relay comes to it, its destination answers and nothing of it is paused"
                }
                _ => "by itself",
            };
            let (id, status) = (cell(id), status.as_str());
            let what = match is_rest {
                true => format!("not all of {id}: the rest is"),
                false => format!("not {id}: it is"),
            };
            lines.push(format!(
                "{what} {status} and goes out {goes}; --yes discards it all the same"
            ));
        }
        for id in unknown {
            let why = match self.elsewhere.get(*id) {
                Some(stands) => format!("the filter is not about it: it is {stands}"),
                None => {
                    "no such event; ids are exact, and the history is removed after its retention".to_owned()
                }
            };
            lines.push(format!("not {}: {why}", cell(id)));
        }
        lines.extend(self.others());
        lines.extend(self.jobs.iter().map(Driven::text));
        for name in &self.left {
            lines.push(format!("nothing was begun in the outbox {name:?}"));
        }
        lines.join("\n")
    }
}
