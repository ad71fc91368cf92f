//! A verb for one event that was named: one short transaction, beside running relays.

use std::collections::BTreeSet;

use postrider_core::{Act, EventId, EventRecord, Filter, Status, Timestamp, Verb};

use super::ask::actor;
use super::progress::STEP;
use super::refused::states;
use super::total::Total;
use crate::failure::Failure;
use crate::output::cell;
use crate::wire::Opened;

/// What may be discarded without a further word.
const STUCK: [Status; 2] = [Status::DeadLetter, Status::Retrying];

/// What is to be done with one event.
pub struct Named<'a> {
    pub verb: &'a Verb,
    /// The event, in which states it may be, and for which destinations.
    pub filter: Filter,
    /// Whether what goes out by itself may be discarded.
    pub at_once: bool,
}

/// Whether the verb suits an event.
enum Suits {
    /// Its rows in these states; empty: whatever the store says. And a state in which others of them go out by
    /// themselves.
    Rows(Vec<Status>, Option<Status>),
    /// None of them: this is the worst of its states, and whether only copies are left of it.
    Not(Status, bool),
    /// It failed nowhere and goes out by itself.
    Moves(Status),
    /// There is no such event here.
    Unknown,
}

impl Named<'_> {
    /// Does it in one outbox, unless a dry run only asks.
    pub async fn act(mut self, outbox: &Opened, id: &str, total: &mut Total) -> Result<(), Failure> {
        let rest = match self.suits(outbox, id).await? {
            Suits::Unknown => return Ok(()),
            Suits::Rows(status, rest) => {
                self.filter.status = status;
                rest
            }
            Suits::Not(status, only_copies) => {
                total.found.insert(id.to_owned());
                total.refuse(id, status, only_copies);
                return Ok(());
            }
            Suits::Moves(status) => {
                total.found.insert(id.to_owned());
                total.moves(id, status, false);
                return Ok(());
            }
        };
        let before = total.touched;
        let (mut refused, mut from) = (BTreeSet::new(), None);
        loop {
            let act = Act {
                verb: self.verb.clone(),
                filter: self.filter.clone(),
                dry_run: total.dry_run,
                actor: actor(),
                limit: STEP,
                from,
            };
            let chunk = outbox.console.act(act).await;
            let chunk = chunk.map_err(|error| Failure::store(&outbox.name, &error))?;
            from = chunk.next.clone();
            if chunk.touched > 0 || !chunk.refused.is_empty() {
                total.found.insert(id.to_owned());
            }
            total.touched += chunk.touched;
            refused.extend(chunk.refused.into_iter().map(|(_, status)| status));
            if from.is_none() {
                break;
            }
        }
        if total.touched == before {
            return refuse(outbox, id, refused, total).await;
        }
        for status in refused {
            total.refuse(id, status, false);
        }
        if let Some(status) = rest {
            total.moves(id, status, true);
        }
        Ok(())
    }

    async fn suits(&self, outbox: &Opened, id: &str) -> Result<Suits, Failure> {
        let wanted = &self.filter.status;
        let discards = matches!(self.verb, Verb::Discard(_)) && !self.at_once;
        if wanted.is_empty() && !discards {
            return Ok(Suits::Rows(Vec::new(), None));
        }
        let records = shown(outbox, id).await?;
        Ok(match wanted.is_empty() {
            true => suits_discard(&meant(&records, &self.filter)),
            false => suits_only(&records, wanted),
        })
    }
}

/// Refuses ids of which several outboxes have an event that a verb would touch, before it touches any.
pub async fn in_one_outbox<'a>(
    opened: &[Opened],
    ids: &[String],
    named: impl Fn(&str) -> Named<'a>,
) -> Result<(), Failure> {
    // Where there is one, nothing has to be asked twice.
    for id in ids.iter().filter(|_| opened.len() > 1) {
        let mut has = Vec::new();
        for outbox in opened {
            let mut would = Total::new(("redrive", "redriven"), true);
            named(id).act(outbox, id, &mut would).await?;
            has.extend((would.touched > 0).then_some(outbox.name.as_str()));
        }
        only_in(id, &has)?;
    }
    Ok(())
}

/// Ids are told apart within an outbox alone, and whoever gives one has looked at one of the events.
pub fn only_in(id: &str, outboxes: &[&str]) -> Result<(), Failure> {
    match outboxes.len() {
        0 | 1 => Ok(()),
        _ => {
            let (id, names) = (cell(id), outboxes.join(", "));
            let failure = Failure::input(format!("several outboxes have an event {id:?}: {names}"));
            Err(failure.advice("say which with --outbox NAME; nothing was changed"))
        }
    }
}

/// Tells of an event with which nothing was done: for which of its states, or where it stands if the filter is not
/// about it.
pub async fn refuse(
    outbox: &Opened,
    id: &str,
    refused: BTreeSet<Status>,
    total: &mut Total,
) -> Result<(), Failure> {
    if refused.is_empty() && !total.is_narrowed {
        return Ok(());
    }
    let records = shown(outbox, id).await?;
    if refused.is_empty() {
        total.elsewhere(id, &records);
        return Ok(());
    }
    let (states, only_copies) = states(&records);
    // A copy is refused as well, and says nothing about the event.
    let of_event: BTreeSet<Status> = refused
        .intersection(&states.into_iter().collect())
        .copied()
        .collect();
    for status in if of_event.is_empty() { refused } else { of_event } {
        total.refuse(id, status, only_copies);
    }
    Ok(())
}

/// The ids, each once, in the order in which they were given: an event that is named twice is one event.
pub fn once(ids: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    ids.iter().filter(|id| seen.insert(*id)).cloned().collect()
}

async fn shown(outbox: &Opened, id: &str) -> Result<Vec<EventRecord>, Failure> {
    let records = outbox.console.show(EventId::from(id)).await;
    records.map_err(|error| Failure::store(&outbox.name, &error))
}

/// The states of an event and of its copies: a verb is for both.
fn all(records: &[EventRecord]) -> Vec<Status> {
    let routes = records.iter().flat_map(|record| &record.routes);
    routes.map(|route| route.status).collect()
}

/// The states of what a filter means of them. Ages were checked when it was listed, and change nothing here.
fn meant(records: &[EventRecord], filter: &Filter) -> Vec<Status> {
    let filter = Filter {
        older_than: None,
        newer_than: None,
        failing_for: None,
        ..filter.clone()
    };
    let routes = records
        .iter()
        .flat_map(|record| record.routes.iter().map(move |route| (record, route)));
    routes
        .filter(|(record, route)| filter.matches(record, route, Timestamp(0)))
        .map(|(_, route)| route.status)
        .collect()
}

/// A healthy event must not be thrown away for a slip in an id.
fn suits_discard(states: &[Status]) -> Suits {
    let moves = |status: &&Status| matches!(status, Status::Waiting | Status::Held | Status::Scheduled);
    let moving = states.iter().find(moves).copied();
    if states.iter().any(|status| STUCK.contains(status)) {
        return Suits::Rows(STUCK.to_vec(), moving);
    }
    match moving {
        Some(status) => Suits::Moves(status),
        // It is not there, queued, or over and done with: the store says so. A relay may park it before that, and then
        // it is none of these states.
        None => Suits::Rows(STUCK.to_vec(), None),
    }
}

fn suits_only(records: &[EventRecord], wanted: &[Status]) -> Suits {
    let (states, only_copies) = states(records);
    let suits = all(records).iter().any(|status| wanted.contains(status));
    match (suits, states.first()) {
        (true, _) => Suits::Rows(wanted.to_vec(), None),
        (false, Some(worst)) => Suits::Not(*worst, only_copies),
        (false, None) => Suits::Unknown,
    }
}
