//! `postrider events`: events in any state, the newest first.

use postrider_core::{DestinationName, EventRecord, Filter, JobId, List, RecordedRoute, Status};
use serde_json::Value;

use super::control;
use super::merge::merged;
use super::page::{Rest, Words, page};
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
        limit: args.limit,
        from: None,
        newest_first: !args.oldest_first,
    };
    let beside = Beside {
        router: &config.router,
        paused: None,
    };
    let mut failed = Failed::default();
    let (mut lists, mut rest) = (Vec::new(), Rest::default());
    for (name, outbox) in wire::chosen(config, args.filter.outbox.as_deref())? {
        let found = async { page(&wire::ready(name, outbox).await?, list.clone()).await };
        let Some((records, left)) = failed.keep(found.await) else {
            continue;
        };
        rest.and(left);
        lists.push(records.into_iter().map(|record| (name, record)).collect());
    }
    let found = lists.iter().map(Vec::len).sum::<usize>();
    rest.limited(found > list.limit as usize);
    let direction = if args.oldest_first { 1 } else { -1 };
    let mut rows = Vec::new();
    for (name, record) in &merged(lists, list.limit, |(_, record)| {
        record.created_at.0.saturating_mul(direction)
    }) {
        match out.is_json() {
            true => out.value(&value(name, record, &list.filter, &beside))?,
            false => rows.push(row(name, record, &list.filter)),
        }
    }
    let is_any = !rows.is_empty();
    if is_any {
        out.table(&HEADERS, rows)?;
    }
    if rest == Rest::default() && found == 0 && !failed.is_some() {
        control::named_is_known(config, args.filter.destination.as_deref())?;
    }
    let none = match list.filter == Filter::default() {
        true => "no events",
        false => "no events match",
    };
    let words = Words {
        none: (!failed.is_some()).then_some(none),
        more: format!("… and more: raise --limit ({}), or narrow the filter", args.limit),
        missed: "more",
        narrow: "--status, --key or --type",
    };
    rest.tell(out, is_any, &words)?;
    failed.or(out.is_json(), Done::Fine)
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
