//! `postrider show` and `postrider dead show`: everything known about one event.

use postrider_core::{EventId, EventRecord, Filter, List, RecordedRoute, Status};
use serde_json::Value;

use super::record::{self, Beside};
use crate::config::Config;
use crate::failure::{Done, Failed, Failure};
use crate::output::{Output, cell};
use crate::wire::{self, Opened};

/// How many events of a key are looked at for the head of its line, which is among the oldest.
const FIRST_OF_KEY: u32 = 20;

/// Which event, and how.
pub struct Wanted<'a> {
    pub id: &'a str,
    pub outbox: Option<&'a str>,
    pub payload: bool,
    pub only_dead: bool,
}

pub async fn show(config: &Config, out: Output, wanted: Wanted<'_>) -> Result<Done, Failure> {
    let mut values = Vec::new();
    let mut others = Vec::new();
    let mut failed = Failed::default();
    for (name, outbox) in wire::chosen(config, wanted.outbox)? {
        let records = async {
            let opened = wire::ready(name, outbox).await?;
            let records = opened.console.show(EventId::from(wanted.id)).await;
            let records = records.map_err(|error| Failure::store(name, &error))?;
            let controls = opened.console.controls().await;
            let mut paused = controls.map_err(|error| Failure::store(name, &error))?;
            paused.retain(|one| one.paused);
            let mut known = Vec::new();
            for record in records {
                let beside = Beside {
                    router: &config.router,
                    behind: behind(&opened, &record).await?,
                    paused: paused.clone(),
                };
                known.push((record, beside));
            }
            Ok(known)
        };
        for (record, beside) in failed.keep(records.await).unwrap_or_default() {
            let failed =
                |route: &RecordedRoute| matches!(route.status, Status::DeadLetter | Status::Retrying);
            if wanted.only_dead && !record.routes.iter().any(failed) {
                others.push(record.status());
                continue;
            }
            if !out.is_json() {
                // A blank line between the records of a reused id.
                if !values.is_empty() {
                    out.line("")?;
                }
                record::print(out, name, &record, wanted.payload, &beside)?;
            }
            values.push(record::value(name, &record, wanted.payload, &beside));
        }
    }
    if let Some(status) = others.first().filter(|_| values.is_empty()) {
        let (id, status) = (cell(wanted.id), status.as_str());
        let failure = Failure::found(format!(
            "the event {id:?} is neither dead nor refused: it is {status}"
        ));
        return Err(failure.advice("`postrider show ID` shows an event in any state"));
    }
    if values.is_empty() && !failed.is_some() {
        let what = match wanted.only_dead {
            true => "dead or refused event",
            false => "event",
        };
        let failure = Failure::found(format!("there is no {what} with the id {:?}", cell(wanted.id)));
        return Err(
            failure.advice("ids are exact; the history of published events is removed after its retention")
        );
    }
    if out.is_json() && !values.is_empty() {
        out.value(&Value::Array(values))?;
    }
    failed.or(out.is_json(), Done::Fine)
}

/// The event that one which waits is behind: the first of its key that is parked for the same destination, or for none.
async fn behind(opened: &Opened, record: &EventRecord) -> Result<Option<EventId>, Failure> {
    let waits = |status| status == Status::Waiting;
    let Some(route) = record.routes.iter().find(|route| waits(route.status)) else {
        return Ok(None);
    };
    let filter = Filter {
        status: vec![
            Status::DeadLetter,
            Status::Retrying,
            Status::Held,
            Status::Waiting,
        ],
        key: vec![record.key.clone()],
        ..Filter::default()
    };
    let listing = opened.console.list(List::first(FIRST_OF_KEY, filter)).await;
    let listing = listing.map_err(|error| Failure::store(&opened.name, &error))?;
    let same = |other: &&EventRecord| {
        let there = |name: &Option<_>| name.is_none() || *name == route.destination;
        other.seq < record.seq && other.routes.iter().any(|route| there(&route.destination))
    };
    Ok(listing.events.iter().find(same).map(|head| head.event_id.clone()))
}
