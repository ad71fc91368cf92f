//! `postrider events`: events in any state, the newest first.

use postrider_core::{DestinationName, EventRecord, Filter, JobId, List, RecordedRoute, Status};
use serde_json::Value;

use super::page::page;
use super::record::{self, Beside};
use crate::args::EventsArgs;
use crate::config::Config;
use crate::failure::{Done, Failed, Failure};
use crate::output::{Output, cell, id, key, time};
use crate::wire;

pub async fn events(config: &Config, out: Output, args: &EventsArgs) -> Result<Done, Failure> {
    args.filter.check()?;
    let filter = Filter {
        replay: args.replay.as_deref().map(JobId::from),
        ..args.filter.filter(args.status.clone(), args.group.as_deref())
    };
    let list = List {
        filter,
        limit: args.limit.max(1),
        from: None,
        newest_first: !args.oldest_first,
    };
    let beside = Beside {
        router: &config.router,
        behind: None,
        paused: Vec::new(),
    };
    let mut failed = Failed::default();
    let (mut rows, mut more) = (Vec::new(), false);
    for (name, outbox) in wire::chosen(config, args.filter.outbox.as_deref())? {
        let found = async { page(&wire::ready(name, outbox).await?, list.clone()).await };
        let Some((records, has_more)) = failed.keep(found.await) else {
            continue;
        };
        more |= has_more;
        for record in &records {
            match out.is_json() {
                true => out.value(&value(name, record, &list.filter, &beside))?,
                false => rows.push(row(name, record, &list.filter)),
            }
        }
    }
    if out.is_json() || rows.is_empty() && failed.is_some() {
        return failed.or(out.is_json(), Done::Fine);
    }
    match rows.is_empty() {
        true => out.line("no events")?,
        false => out.table(&HEADERS, rows)?,
    }
    if more {
        out.line(format!(
            "… and more: raise --limit ({}), or narrow the filter",
            args.limit
        ))?;
    }
    failed.or(false, Done::Fine)
}

const HEADERS: [&str; 7] = [
    "EVENT",
    "STATUS",
    "TYPE",
    "KEY",
    "DESTINATION",
    "CREATED",
    "OUTBOX",
];

/// As many names as a line has room for.
const NAMES: usize = 3;

/// The event, with what the filter found of it: its other destinations are told too.
fn value(outbox: &str, record: &EventRecord, filter: &Filter, beside: &Beside<'_>) -> Value {
    let mut value = record::value(outbox, record, false, beside);
    let matched = filter.matching(record).into_iter();
    value["matched"] = matched
        .map(|route| route.destination.as_ref().map(|name| name.as_str()))
        .collect();
    value
}

/// One line an event: of the deliveries that the filter is about, the worst, and every other that stands the same.
fn row(outbox: &str, record: &EventRecord, filter: &Filter) -> Vec<String> {
    let matched = filter.matching(record);
    let worst = matched.first();
    let state = |route: &RecordedRoute| (route.status, route.error_kind.clone());
    let same = matched
        .iter()
        .filter(|route| worst.is_some_and(|worst| state(route) == state(worst)));
    let status = worst.map_or(Status::Pending, |route| route.status).as_str();
    let status = match worst.and_then(|route| route.error_kind.as_deref()) {
        Some(kind) => format!("{status}: {}", cell(kind)),
        None => status.to_owned(),
    };
    vec![
        id(&record.event_id, record.replay.as_ref()),
        status,
        cell(&record.event_type),
        key(&record.key),
        names(same.filter_map(|route| route.destination.as_ref())),
        time(record.created_at),
        outbox.to_owned(),
    ]
}

fn names<'a>(destinations: impl Iterator<Item = &'a DestinationName>) -> String {
    let mut names: Vec<String> = destinations.map(|name| cell(name.as_str())).collect();
    names.sort();
    match names.len() {
        0 => "-".to_owned(),
        1..=NAMES => names.join(", "),
        all => format!("{} and {} more", names[..NAMES - 1].join(", "), all + 1 - NAMES),
    }
}
