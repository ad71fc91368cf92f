//! `postrider events`: events in any state, the newest first.

use postrider_core::{EventRecord, Filter, JobId, List};

use super::page::page;
use super::record::{self, Beside};
use crate::args::EventsArgs;
use crate::config::Config;
use crate::failure::{Done, Failed, Failure};
use crate::output::{Output, cell, key, time};
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
                true => out.value(&record::value(name, record, false, &beside))?,
                false => rows.push(row(name, record)),
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

/// One line an event, with its worst state.
fn row(outbox: &str, record: &EventRecord) -> Vec<String> {
    let worst = record.routes.first();
    let destination = worst.and_then(|route| route.destination.as_ref());
    let status = match worst.and_then(|route| route.error_kind.as_deref()) {
        Some(kind) => format!("{}: {}", record.status().as_str(), cell(kind)),
        None => record.status().as_str().to_owned(),
    };
    vec![
        cell(record.event_id.as_str()),
        status,
        cell(&record.event_type),
        key(&record.key),
        cell(destination.map_or("-", |name| name.as_str())),
        time(record.created_at),
        outbox.to_owned(),
    ]
}
