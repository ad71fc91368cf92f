//! `postrider dead list`: events that need a person.

use postrider_core::{EventRecord, RecordedRoute, Status};
use serde_json::json;

use super::record;
use crate::args::FilterArgs;
use crate::config::Config;
use crate::failure::{Done, Failure};
use crate::output::{Output, cell, key, time};
use crate::wire;

pub async fn list(config: &Config, out: Output, args: &FilterArgs, limit: u32) -> Result<Done, Failure> {
    let mut rows = Vec::new();
    let mut more = false;
    for (name, outbox) in wire::chosen(config, args.outbox.as_deref())? {
        let opened = wire::ready(name, outbox).await?;
        let filter = args.filter(vec![Status::DeadLetter], None);
        let listing = opened.console.list(filter, limit, None).await;
        let listing = listing.map_err(|error| Failure::store(name, &error))?;
        more |= listing.next.is_some();
        for record in &listing.events {
            if out.is_json() {
                out.value(&record::value(name, record, false))?;
            }
            let dead = record
                .routes
                .iter()
                .filter(|route| route.status == Status::DeadLetter);
            rows.extend(dead.map(|route| row(name, record, route)));
        }
    }
    if out.is_json() {
        return Ok(Done::Fine);
    }
    match rows.is_empty() {
        true => out.line("no dead events")?,
        false => out.table(
            &[
                "ID",
                "TYPE",
                "KEY",
                "OUTBOX",
                "DESTINATION",
                "FAILED",
                "KIND",
                "ERROR",
                "WHAT TO DO",
            ],
            rows,
        )?,
    }
    if more {
        out.line(format!(
            "… and more: raise --limit ({limit}), or narrow the filter"
        ))?;
    }
    Ok(Done::Fine)
}

fn row(outbox: &str, record: &EventRecord, route: &RecordedRoute) -> Vec<String> {
    let text = |text: Option<&str>| cell(text.unwrap_or("-"));
    vec![
        cell(record.event_id.as_str()),
        cell(&record.event_type),
        key(&record.key),
        outbox.to_owned(),
        text(route.destination.as_ref().map(|name| name.as_str())),
        route
            .failed
            .map_or_else(|| "-".to_owned(), |(_, last)| time(last)),
        text(route.error_kind.as_deref()),
        text(route.error.as_deref()),
        text(record::advice(route)),
    ]
}

/// Failures that look alike, the most frequent first.
pub async fn groups(config: &Config, out: Output, outbox: Option<&str>) -> Result<Done, Failure> {
    let mut rows = Vec::new();
    for (name, outbox) in wire::chosen(config, outbox)? {
        let opened = wire::ready(name, outbox).await?;
        let groups = opened
            .console
            .groups()
            .await
            .map_err(|error| Failure::store(name, &error))?;
        for group in groups {
            let destination = group.destination.as_ref().map(|name| name.as_str());
            if out.is_json() {
                out.value(&json!({
                    "outbox": name,
                    "destination": destination,
                    "error_kind": group.error_kind,
                    "count": group.count,
                    "example": group.example,
                    "first_failed_at": time(group.seen.0),
                    "last_failed_at": time(group.seen.1),
                }))?;
            }
            rows.push(vec![
                group.count.to_string(),
                name.to_owned(),
                cell(destination.unwrap_or("-")),
                cell(&group.error_kind),
                time(group.seen.1),
                cell(&group.example),
            ]);
        }
    }
    match (out.is_json(), rows.is_empty()) {
        (true, _) => {}
        (false, true) => out.line("no failures")?,
        (false, false) => out.table(
            &["COUNT", "OUTBOX", "DESTINATION", "KIND", "LAST", "EXAMPLE"],
            rows,
        )?,
    }
    Ok(Done::Fine)
}
