//! The story of one event, out of what a store knows of it: the same in every store.

use super::{AuditEntry, EventRecord, Job, JobKind, JobState, Moment, Route, Verb, What};
use crate::fingerprint::group_name;
use crate::{DestinationName, Filter, Seq, Timestamp};

/// What a store knows of an event beside its record.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// Whether nothing else has its id: what was done by name was done to it.
    pub is_alone: bool,
    /// When its row was written.
    pub enqueued_at: Option<Timestamp>,
    /// Its rows in the history.
    pub left: Vec<Left>,
    /// Rows in the history of copies that replays made of it.
    pub copies: Vec<Left>,
    /// What people did to it by its name.
    pub deeds: Vec<AuditEntry>,
    /// The edits of all events that have its id, as far as originals are kept.
    pub edits: Vec<EditedAt>,
    /// What people did to many at once since it was written.
    pub jobs: Vec<Job>,
}

/// Which event a person edited: the audit knows the id alone, and events may share one.
#[derive(Clone, Debug)]
pub struct EditedAt {
    /// The place of the event.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
}

/// A row of the history.
#[derive(Clone, Debug)]
pub struct Left {
    /// When it left.
    pub at: Timestamp,
    /// For which destination.
    pub destination: Option<DestinationName>,
    /// Whether a person threw it away; otherwise it was published.
    pub discarded: bool,
    /// The receipt, or the reason.
    pub detail: String,
    /// When it had failed last before, the kind of that error and its text.
    pub failed: Option<(Timestamp, Option<String>, String)>,
}

impl Story {
    /// What happened to an event, oldest first.
    pub fn tell(&self, record: &EventRecord) -> Vec<Moment> {
        let mut all = Vec::new();
        all.extend(self.enqueued_at.map(|at| moment(at, What::Enqueued)));
        record.routes.iter().for_each(|route| of_route(route, &mut all));
        for left in &self.left {
            self.of_left(record, left, &mut all);
        }
        // What was not published by then was not replayed: the copy is of another event with its id.
        let is_its = |copy: &&Left| self.left.iter().any(|left| !left.discarded && left.at <= copy.at);
        for copy in self
            .copies
            .iter()
            .filter(|copy| record.replay.is_none() && is_its(copy))
        {
            all.push(there(copy, What::Replayed, &copy.detail));
        }
        let deeds = self.deeds.iter().filter(|entry| self.is_about(record, entry));
        let deeds: Vec<Moment> = deeds.filter_map(deed).collect();
        all.extend(self.with_others(record, &deeds));
        all.extend(deeds);
        all.sort_by_key(|moment| (moment.at, moment.what));
        all
    }

    /// What jobs did to it: nothing is written for each row, but what had failed by then, had not left, and is meant by
    /// the filter was redriven when the job came by its place.
    fn with_others(&self, record: &EventRecord, deeds: &[Moment]) -> Vec<Moment> {
        let redriven = |deed: &&Moment| matches!(deed.what, What::Redriven | What::Edited);
        let mut again: Vec<Timestamp> = deeds.iter().filter(redriven).map(|deed| deed.at).collect();
        let mut jobs: Vec<&Job> = self.jobs.iter().collect();
        jobs.sort_by_key(|job| job.begun_at);
        let mut told = Vec::new();
        for job in jobs {
            let Some(is_sure) = self.redriven_by(job, record, &again) else {
                continue;
            };
            let unless = match is_sure {
                true => "",
                false => ", if it had failed as that says",
            };
            again.extend(is_sure.then_some(job.begun_at));
            told.push(Moment {
                actor: Some(job.actor.clone()),
                detail: format!("with others by the job {}{unless}", job.id),
                ..moment(job.begun_at, What::Redriven)
            });
        }
        told
    }

    /// Whether something that was done by name was done to this event, and not to another of the same id.
    fn is_about(&self, record: &EventRecord, entry: &AuditEntry) -> bool {
        if self.enqueued_at.is_some_and(|at| is_before(entry.at, at)) {
            return false;
        }
        // An original is written in the transaction of its entry, just before it.
        let is_its = |edit: &&EditedAt| {
            let behind = self.deeds.iter().filter(|deed| {
                deed.action == "edit" && deed.actor == edit.actor && !is_before(deed.at, edit.at)
            });
            behind.map(|deed| deed.at).min() == Some(entry.at)
        };
        let mut places = self.edits.iter().filter(is_its).map(|edit| edit.seq).peekable();
        match entry.action.as_str() {
            "edit" if places.peek().is_some() => places.any(|seq| seq == record.seq),
            "edit" | "redrive" => self.is_alone || self.could_be_redriven(record, entry.at),
            // What is moved is scheduled, and copies are not.
            _ => record.replay.is_none(),
        }
    }

    /// Whether a row was there at that time that a redrive or an edit works on: where one had left by then, another of
    /// the same id was meant, such as a copy. Of a copy that never failed it was the event itself.
    fn could_be_redriven(&self, record: &EventRecord, at: Timestamp) -> bool {
        let parked = |route: &Route| {
            let failed = route.failed.is_some() || route.failed_before.is_some();
            route.status.is_parked() && (failed || record.replay.is_none())
        };
        let left = |left: &Left| left.at >= at && (left.failed.is_some() || record.replay.is_none());
        record.routes.iter().any(parked) || self.left.iter().any(left)
    }

    fn of_left(&self, record: &EventRecord, left: &Left, all: &mut Vec<Moment>) {
        if let Some((at, _, error)) = &left.failed {
            all.push(Moment {
                at: *at,
                ..there(left, What::LastFailed, error)
            });
        }
        match left.discarded {
            false => all.push(there(left, What::Published, &left.detail)),
            true => all.push(Moment {
                actor: self.discarded_by(record, left),
                ..there(left, What::Discarded, &left.detail)
            }),
        }
    }

    /// Whoever named the event; or whoever began the job that meant it with this reason at that time.
    fn discarded_by(&self, record: &EventRecord, left: &Left) -> Option<String> {
        let named = self.deeds.iter().filter(|deed| deed.action == "discard");
        let named = named.min_by_key(|deed| deed.at.0.abs_diff(left.at.0));
        let is_its = |job: &&Job| {
            let verb = matches!(&job.kind, JobKind::Act(Verb::Discard(reason)) if *reason == left.detail);
            verb && job.begun_at <= left.at
                && left.at <= job.updated_at
                && means(job, &job.filter, record, &as_route(left))
        };
        let by_job = || self.jobs.iter().find(is_its).map(|job| job.actor.clone());
        named.map(|deed| deed.actor.clone()).or_else(by_job)
    }

    /// Whether a job redrove the event, which was sent again at those times as well; and whether that is sure: only the
    /// last failure is known, so that of what failed after the job nobody knows how it had failed before, and of what
    /// has left not even whether.
    fn redriven_by(&self, job: &Job, record: &EventRecord, again: &[Timestamp]) -> Option<bool> {
        let came_by = job.state == JobState::Done
            || job
                .cursor
                .as_ref()
                .and_then(|cursor| cursor.place().ok())
                .and_then(|(place, _)| u128::try_from(place).ok())
                .is_some_and(|place| place >= record.seq.0);
        let was_there = self.enqueued_at.is_none_or(|at| at <= job.begun_at);
        if job.kind != JobKind::Act(Verb::Redrive) || job.touched == 0 || !came_by || !was_there {
            return None;
        }
        // What was sent again and not tried since does not fail, and a job may be about what does.
        let fails = |last: Timestamp| {
            let mut before = again.iter().filter(|at| **at <= job.begun_at);
            job.filter.failing_for.is_none() || !before.any(|at| !is_before(*at, last))
        };
        // Of what has failed since then nobody knows whether it had been tried before the job came by.
        let is_untold = job.filter.failing_for.is_some() && again.iter().any(|at| *at <= job.begun_at);
        let parked = record.routes.iter().filter_map(|route| {
            let (first, last) = route.failed.or(route.failed_before.map(|at| (at, at)))?;
            let is_meant = route.status.is_parked() && first <= job.begun_at && fails(last);
            is_meant.then(|| {
                (
                    route.clone(),
                    last <= job.updated_at,
                    !asks_how(&job.filter) && !is_untold,
                )
            })
        });
        let left = self.left.iter().filter_map(|left| {
            let (last, ..) = left.failed.as_ref()?;
            let is_meant = left.at >= job.begun_at && fails(*last);
            is_meant.then(|| (as_route(left), *last <= job.updated_at, false))
        });
        let meant = parked
            .chain(left)
            .filter_map(|(route, is_known, is_sure)| match is_known {
                true => means(job, &job.filter, record, &route).then_some(true),
                false => means(job, &but_how(&job.filter), record, &route).then_some(is_sure),
            });
        meant.max()
    }
}

/// Whether a filter is about how an event failed.
fn asks_how(filter: &Filter) -> bool {
    filter.error_kind.is_some() || filter.error_group.is_some() || filter.text.is_some()
}

/// A filter without what is about that. A text may be one of an error.
fn but_how(filter: &Filter) -> Filter {
    Filter {
        error_kind: None,
        error_group: None,
        text: None,
        ..filter.clone()
    }
}

/// Whether a job's filter is about an event, as far as that does not change with time.
fn means(job: &Job, filter: &Filter, record: &EventRecord, route: &Route) -> bool {
    let lasting = Filter {
        status: Vec::new(),
        older_than: None,
        newer_than: None,
        failing_for: None,
        // What was routed anew since has none.
        error_group: filter.error_group.clone().filter(|_| route.error_group.is_some()),
        ..filter.clone()
    };
    let route = Route {
        error_kind: route.error_kind.clone().or_else(|| kind_before(route)),
        ..route.clone()
    };
    lasting.matches(record, &route, job.begun_at)
}

/// Stores write the kind before the text of an error that a row has from before it was routed anew: a row with a kind
/// is one that is being refused.
fn kind_before(route: &Route) -> Option<String> {
    let text = route.error.as_ref().filter(|_| route.failed_before.is_some())?;
    text.split_once(": ").map(|(kind, _)| kind.to_owned())
}

fn as_route(left: &Left) -> Route {
    let (kind, text) = match &left.failed {
        Some((_, kind, text)) => (kind.clone(), Some(text.clone())),
        None => (None, None),
    };
    let before = left.failed.as_ref().filter(|(_, kind, _)| kind.is_none());
    let destination = left.destination.as_ref().map_or("", DestinationName::as_str);
    let group = |kind: &String| group_name(destination, kind, text.as_deref().unwrap_or_default());
    Route {
        error_group: kind.as_ref().map(group),
        failed_before: before.map(|(at, ..)| *at),
        error_kind: kind,
        error: text,
        ..Route::new(left.destination.clone(), super::Status::Published)
    }
}

fn of_route(route: &Route, all: &mut Vec<Moment>) {
    if !route.status.is_parked() {
        return;
    }
    let mut add = |at: Option<Timestamp>, what, detail: Option<&String>| {
        all.extend(at.map(|at| Moment {
            destination: route.destination.clone(),
            detail: detail.cloned().unwrap_or_default(),
            ..moment(at, what)
        }));
    };
    let (first, last) = route.failed.unzip();
    let again = last.filter(|_| first != last);
    // Only the text of the last one is known.
    add(
        first,
        What::FirstFailed,
        route.error.as_ref().filter(|_| again.is_none()),
    );
    add(
        again.or(route.failed_before),
        What::LastFailed,
        route.error.as_ref(),
    );
    add(route.next_attempt_at, What::NextAttempt, None);
}

/// What a person did to the one event that was named. That it was discarded, the history says.
fn deed(entry: &AuditEntry) -> Option<Moment> {
    let what = match entry.action.as_str() {
        "redrive" => What::Redriven,
        "edit" => What::Edited,
        "move" => What::Moved,
        _ => return None,
    };
    Some(Moment {
        actor: Some(entry.actor.clone()),
        ..moment(entry.at, what)
    })
}

/// Whether a time of the audit, of which a store may keep the milliseconds only, is before another.
fn is_before(entry: Timestamp, other: Timestamp) -> bool {
    entry.0.saturating_add(999) < other.0
}

fn there(left: &Left, what: What, detail: &str) -> Moment {
    Moment {
        destination: left.destination.clone(),
        detail: detail.to_owned(),
        ..moment(left.at, what)
    }
}

fn moment(at: Timestamp, what: What) -> Moment {
    Moment {
        at,
        what,
        destination: None,
        actor: None,
        detail: String::new(),
    }
}
