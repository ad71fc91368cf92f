//! `postrider schedule`: events whose time has not come.

use std::time::Duration;

use postrider_core::{EventId, EventRecord, Filter, RecordedRoute, Status, Timestamp, Verb};

use super::act::has_reason;
use super::merge::merged;
use super::named::{Named, in_one_outbox, once};
use super::page::{Rest, Words, least};
use super::record::{self, Beside};
use super::total::Total;
use crate::args::FilterArgs;
use crate::config::Config;
use crate::failure::{Done, Failed, Failure};
use crate::output::{Output, cell, key, time};
use crate::wire;

/// Events that are named, in one outbox or in any.
pub struct Wanted<'a> {
    pub ids: &'a [String],
    pub outbox: Option<&'a str>,
}

/// What is scheduled, the next first.
pub async fn list(config: &Config, out: Output, args: &FilterArgs, limit: u32) -> Result<Done, Failure> {
    args.check()?;
    let filter = args.filter(vec![Status::Scheduled], None);
    let beside = Beside {
        router: &config.router,
        paused: None,
    };
    let mut failed = Failed::default();
    let (mut lists, mut rest) = (Vec::new(), Rest::default());
    for (name, outbox) in wire::chosen(config, args.outbox.as_deref())? {
        let found = async { least(&wire::ready(name, outbox).await?, &filter, limit, due).await };
        let (records, left) = failed.keep(found.await).unwrap_or_default();
        rest.and(left);
        lists.push(records.into_iter().map(|record| (name, record)).collect());
    }
    let found = lists.iter().map(Vec::len).sum::<usize>();
    rest.limited(found > limit as usize);
    let records = merged(lists, limit, |(_, record)| due(record));
    let mut rows = Vec::new();
    for (name, record) in &records {
        if out.is_json() {
            out.value(&record::value(name, record, false, &beside))?;
        }
        rows.extend(times(record).map(|route| row(name, record, route)));
    }
    let is_any = !rows.is_empty();
    if !out.is_json() && is_any {
        rows.sort();
        out.table(&["AT", "EVENT", "TYPE", "KEY", "DESTINATION", "OUTBOX"], rows)?;
    }
    let words = Words {
        none: (!failed.is_some()).then_some("nothing is scheduled"),
        more: format!("… and later ones: raise --limit ({limit}), or narrow the filter"),
        // It is in the order of time, which no search is.
        missed: "earlier ones",
        narrow: "--key or --type",
    };
    rest.tell(out, is_any, &words)?;
    failed.or(out.is_json(), Done::Fine)
}

/// Where its time has not come.
fn times(record: &EventRecord) -> impl Iterator<Item = &RecordedRoute> {
    let routes = record.routes.iter();
    routes.filter(|route| route.status == Status::Scheduled)
}

/// When it leaves, which is when the first of its deliveries does.
fn due(record: &EventRecord) -> Option<Timestamp> {
    times(record).filter_map(|route| route.next_attempt_at).min()
}

/// The time first: moments as they are written here are sorted as text.
fn row(outbox: &str, record: &EventRecord, route: &RecordedRoute) -> Vec<String> {
    let destination = route.destination.as_ref().map_or("-", |name| name.as_str());
    vec![
        route.next_attempt_at.map_or_else(|| "-".to_owned(), time),
        cell(record.event_id.as_str()),
        cell(&record.event_type),
        key(&record.key),
        cell(destination),
        outbox.to_owned(),
    ]
}

/// Gives events another time.
pub async fn shift(
    config: &Config,
    out: Output,
    wanted: Wanted<'_>,
    after: Duration,
) -> Result<Done, Failure> {
    act(config, out, wanted, Verb::Move(after), ("move", "moved")).await
}

/// Throws events away before their time comes.
pub async fn cancel(config: &Config, out: Output, wanted: Wanted<'_>, reason: &str) -> Result<Done, Failure> {
    has_reason(reason)?;
    let verb = Verb::Discard(reason.to_owned());
    act(config, out, wanted, verb, ("cancel", "cancelled")).await
}

async fn act(
    config: &Config,
    out: Output,
    wanted: Wanted<'_>,
    verb: Verb,
    words: (&'static str, &'static str),
) -> Result<Done, Failure> {
    let mut total = Total::new(words, false);
    let ids = once(wanted.ids);
    let named = |id: &str| Named {
        verb: &verb,
        filter: Filter {
            status: vec![Status::Scheduled],
            event_id: vec![EventId::from(id)],
            ..Filter::default()
        },
        at_once: true,
    };
    let mut opened = Vec::new();
    for (name, outbox) in wire::chosen(config, wanted.outbox)? {
        opened.push(wire::ready(name, outbox).await?);
    }
    in_one_outbox(&opened, &ids, named).await?;
    for outbox in &opened {
        total.enter(outbox).await?;
        for id in &ids {
            named(id).act(outbox, id, &mut total).await?;
        }
    }
    total.report(out, &ids)
}
