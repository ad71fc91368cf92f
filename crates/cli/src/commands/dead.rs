//! `postrider dead list`: events that need a person.

use std::collections::BTreeMap;

use postrider_core::{EventRecord, Filter, Group, List, RecordedRoute, Status};
use serde_json::json;

use super::control;
use super::page::{Rest, Words, page};
use super::record::{self, Beside};
use crate::args::{DeadArgs, FilterArgs};
use crate::config::Config;
use crate::failure::{Done, Failed, Failure};
use crate::output::{Output, cell, key, time, whole, wrapped};
use crate::wire;

/// One row of the listing.
struct Entry {
    outbox: String,
    record: EventRecord,
    route: RecordedRoute,
}

/// Dead and stalled events, the newest first.
pub async fn list(
    config: &Config,
    out: Output,
    args: &DeadArgs,
    group: Option<&str>,
) -> Result<Done, Failure> {
    args.filter.check()?;
    let limit = args.limit;
    let mut entries = Vec::new();
    let mut rest = Rest::default();
    let beside = Beside {
        router: &config.router,
        paused: None,
    };
    let mut unread = Failed::default();
    for (name, outbox) in wire::chosen(config, args.filter.outbox.as_deref())? {
        let Some(opened) = unread.keep(wire::ready(name, outbox).await) else {
            continue;
        };
        let stalled = Filter {
            failing_for: Some(config.relay.settings.stalled_after),
            ..args.filter.filter(vec![Status::Retrying], group)
        };
        let dead = args.filter.filter(vec![Status::DeadLetter], group);
        for (filter, status) in [(dead, Status::DeadLetter), (stalled, Status::Retrying)] {
            let list = List {
                newest_first: true,
                ..List::first(limit, filter.clone())
            };
            let Some((records, left)) = unread.keep(page(&opened, list).await) else {
                break;
            };
            rest.and(left);
            for record in records {
                let routes: Vec<RecordedRoute> = filter.matching(&record).into_iter().cloned().collect();
                if out.is_json() {
                    let mut value = record::value(name, &record, false, &beside);
                    value["stalled"] = (status == Status::Retrying).into();
                    out.value(&value)?;
                }
                let routes = routes.into_iter().filter(|route| route.status == status);
                entries.extend(routes.map(|route| Entry {
                    outbox: name.to_owned(),
                    record: record.clone(),
                    route,
                }));
            }
        }
    }
    if !out.is_json() && !entries.is_empty() {
        out.line(blocks(&entries))?;
    }
    if entries.is_empty() && !unread.is_some() {
        control::named_is_known(config, args.filter.destination.as_deref())?;
    }
    let none = match args.filter.is_empty() && group.is_none() {
        true => "no dead events",
        false => "no dead events match",
    };
    let words = Words {
        none: (!unread.is_some()).then_some(none),
        more: format!("… and more: raise --limit ({limit}), or narrow the filter"),
        missed: "more",
        narrow: "--key, --type or --kind",
    };
    rest.tell(out, !entries.is_empty(), &words)?;
    unread.or(out.is_json(), Done::Fine)
}

fn state(route: &RecordedRoute) -> &'static str {
    match route.status {
        Status::DeadLetter => "dead",
        _ if route.failures == 0 => "stalled, not tried since it was redriven",
        _ => "stalled",
    }
}

fn failed(route: &RecordedRoute) -> String {
    route
        .failed
        .map_or_else(|| "-".to_owned(), |(_, last)| time(last))
}

/// A few lines an event, and then what to do about each kind, once. A table of all this is too wide for any screen, and
/// scripts have JSON.
fn blocks(entries: &[Entry]) -> String {
    let mut text = String::new();
    let mut advice = BTreeMap::new();
    for Entry {
        outbox,
        record,
        route,
    } in entries
    {
        let kind = route.error_kind.as_deref().unwrap_or("-");
        let destination = route.destination.as_ref().map_or("-", |name| name.as_str());
        let lines = [
            format!(
                "{}{}  {}: {}",
                whole(record.event_id.as_str()),
                record.replay.as_ref().map_or("", |_| " (copy)"),
                state(route),
                cell(kind)
            ),
            format!("  type         {}", cell(&record.event_type)),
            format!("  key          {}", key(&record.key)),
            format!("  destination  {} of {outbox}", cell(destination)),
            format!("  failed       {}", failed(route)),
            wrapped("  error        ", &cell(route.error.as_deref().unwrap_or("-"))),
        ];
        text.push_str(&lines.join("\n"));
        text.push_str("\n\n");
        advice.extend(record::advice(route).map(|sentence| (kind, sentence)));
    }
    let advice = advice
        .iter()
        .map(|(kind, sentence)| wrapped(&format!("{}: ", cell(kind)), sentence));
    text + &advice.collect::<Vec<_>>().join("\n")
}

/// Failures that look alike, the most frequent first, each outbox for itself.
pub async fn groups(config: &Config, out: Output, args: &DeadArgs) -> Result<Done, Failure> {
    args.filter.check()?;
    args.filter.suits_groups()?;
    let limit = args.limit;
    let (mut rows, mut rest) = (Vec::new(), Rest::default());
    let mut unread = Failed::default();
    for (name, outbox) in wire::chosen(config, args.filter.outbox.as_deref())? {
        let Some(opened) = unread.keep(wire::ready(name, outbox).await) else {
            continue;
        };
        let groups = opened.console.groups().await;
        let Some(mut groups) = unread.keep(groups.map_err(|error| Failure::store(name, &error))) else {
            continue;
        };
        groups.retain(|group| is_meant(&args.filter, group));
        rest.limited(groups.len() > limit as usize);
        for group in groups.into_iter().take(limit as usize) {
            let destination = group.destination.as_ref().map(|name| name.as_str());
            if out.is_json() {
                out.value(&json!({
                    "outbox": name,
                    "destination": destination,
                    "error_kind": group.error_kind,
                    "group": group.name,
                    "count": group.count,
                    "dead": group.dead,
                    "example": group.example,
                    "first_failed_at": time(group.seen.0),
                    "last_failed_at": time(group.seen.1),
                }))?;
            }
            rows.push(vec![
                group.name,
                group.count.to_string(),
                group.dead.to_string(),
                cell(&group.error_kind),
                cell(destination.unwrap_or("-")),
                name.to_owned(),
                time(group.seen.1),
                cell(&group.example),
            ]);
        }
    }
    let is_any = !rows.is_empty();
    if !out.is_json() && is_any {
        out.table(&GROUP_HEADERS, rows)?;
    }
    if !is_any && !unread.is_some() {
        control::named_is_known(config, args.filter.destination.as_deref())?;
    }
    let none = match args.filter.is_empty() {
        true => "no failures",
        false => "no failures match",
    };
    let words = Words {
        none: (!unread.is_some()).then_some(none),
        more: format!("… and more: raise --limit ({limit}), or narrow the filter"),
        missed: "more",
        narrow: "--destination or --kind",
    };
    rest.tell(out, is_any, &words)?;
    unread.or(out.is_json(), Done::Fine)
}

const GROUP_HEADERS: [&str; 8] = [
    "GROUP",
    "COUNT",
    "DEAD",
    "KIND",
    "DESTINATION",
    "OUTBOX",
    "LAST",
    "EXAMPLE",
];

/// Whether a filter is about a group, as far as a group knows: its events differ in everything else.
fn is_meant(filter: &FilterArgs, group: &Group) -> bool {
    let destination = group.destination.as_ref().map(|name| name.as_str());
    let is_there = filter.destination.is_none() || filter.destination.as_deref() == destination;
    let is_kind = filter.kind.as_ref().is_none_or(|kind| *kind == group.error_kind);
    let has = |text: &String| {
        let text = text.to_lowercase();
        [&group.example, &group.name]
            .iter()
            .any(|one| one.to_lowercase().contains(&text))
    };
    is_there && is_kind && filter.text.as_ref().is_none_or(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_whole_ids_and_each_advice_once() {
        let id = "x".repeat(200);
        let entry = |id: &str| Entry {
            outbox: "main".into(),
            record: EventRecord {
                seq: postrider_core::Seq(1),
                event: Err("bad".into()),
                bad_payload: None,
                event_id: id.into(),
                event_type: "A".into(),
                key: "T/1".into(),
                created_at: postrider_core::Timestamp(0),
                replay: None,
                routes: Vec::new(),
                timeline: Vec::new(),
                original: None,
            },
            route: RecordedRoute {
                failures: 1,
                error_kind: Some("bad_row".into()),
                error: Some("bad ".repeat(40)),
                ..RecordedRoute::new(None, Status::DeadLetter)
            },
        };
        let text = blocks(&[entry(&id), entry("b")]);
        assert!(text.contains(&id) && text.contains("b  dead: bad_row"), "{text}");
        assert_eq!(text.matches("Correct the producer").count(), 1, "{text}");
        let widest = blocks(&[entry("b")])
            .lines()
            .map(|line| line.chars().count())
            .max();
        assert!(widest.is_some_and(|columns| columns <= 100), "{widest:?}");
    }
}
