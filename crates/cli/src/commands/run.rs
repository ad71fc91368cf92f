//! `postrider run`: one relay for every outbox, until stopped or until nothing is left to do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use postrider_admin::Admin;
use postrider_core::{Sink, Stats, Status, causes};
use postrider_relay::{Observer, Relay, Report};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::start::{self, Started};
use super::watch::Watch;
use crate::config::{Broker, Config, Kind, Listen, Outbox};
use crate::duties::{Duties, Ear};
use crate::failure::{Done, Failure};
use crate::output::Output;
use crate::signal;
use crate::wire::{self, Opened};

/// What is wanted.
pub struct Wanted<'a> {
    pub outbox: Option<&'a str>,
    pub until_empty: bool,
    pub migrate: bool,
    /// Log lines that nobody took.
    pub log_lines_dropped: Arc<AtomicU64>,
}

pub async fn run(config: &Config, out: Output, wanted: Wanted<'_>) -> Result<Done, Failure> {
    wire::check(config)?;
    let admin = start::admin(config, wanted.log_lines_dropped.clone());
    // A job that empties an outbox and ends is asked by nobody, unless somebody said where.
    let is_job = wanted.until_empty && config.admin.listen == Listen::Default;
    let serving = if is_job {
        None
    } else {
        start::serve(config, &admin)?
    };
    let mut opened = Vec::new();
    for (name, outbox) in publishes(config, wanted.outbox)? {
        let started = start::open(config, name, outbox, wanted.migrate, !wanted.until_empty).await?;
        opened.push((Arc::new(started), outbox));
    }
    let sinks = wire::sinks(config)?;
    let token = signal::stop_token();
    let ended = CancellationToken::new();
    let mut relays = JoinSet::new();
    let mut watches = Vec::new();
    for (started, settings) in &opened {
        let outbox = &started.opened;
        let watch = Arc::new(Watch::new(config, token.clone()));
        let ear = Arc::new(Ear::default());
        let relay = relay(config, outbox, &sinks, [watch.clone(), ear.clone()], &admin)?;
        admin.watch(&relay, outbox.console.clone());
        let duties = Duties::new(config, outbox, settings, ended.clone());
        // A job that empties an outbox leaves its duties to relays that stay.
        let duties = (!wanted.until_empty).then_some((duties, ear));
        relays.spawn(publish(relay, started.clone(), token.clone(), duties));
        watches.push(watch);
    }
    let stopping = token.clone();
    tokio::spawn(async move {
        stopping.cancelled().await;
        admin.stopping();
    });
    let mut reports = BTreeMap::new();
    while let Some(ended) = relays.join_next().await {
        let (name, report) = ended
            .map_err(|error| Failure::backend("a relay ended by a mistake of its own").because(&error))?;
        reports.insert(name, report);
    }
    ended.cancel();
    for sink in sinks.values() {
        sink.close().await;
    }
    drop(serving);
    let uses_stdout = |broker: &Broker| matches!(broker.kind, Kind::Stdout);
    let stdout_taken = sinks
        .keys()
        .filter_map(|name| config.brokers.get(name))
        .any(uses_stdout);
    let done = summary(out, &opened, &reports, &wanted, stdout_taken).await?;
    match watches.iter().any(|watch| watch.reader_is_gone()) {
        true => Err(Failure::backend("whoever read standard output is gone")
            .advice("run again with a reader: what was not taken is still in the outbox")),
        false => Ok(done),
    }
}

/// The outboxes that are published from: all, or the one that was named; but never that of notifications, whose
/// deliveries need the channels.
fn publishes<'a>(config: &'a Config, name: Option<&str>) -> Result<Vec<(&'a str, &'a Outbox)>, Failure> {
    let mut chosen = wire::chosen(config, name)?;
    let Some(notify) = &config.notify else {
        return Ok(chosen);
    };
    chosen.retain(|(name, _)| *name != notify.outbox);
    if chosen.is_empty() {
        let what = format!("the outbox {:?} is that of [notify]", notify.outbox);
        let advice = "`postrider notify run` sends its deliveries, and publishes what else is in it";
        return Err(Failure::input(what).advice(advice));
    }
    Ok(chosen)
}

/// Runs one relay from the moment its database is there; without duties until nothing is left to publish.
async fn publish(
    relay: Relay,
    started: Arc<Started>,
    token: CancellationToken,
    duties: Option<(Duties, Arc<Ear>)>,
) -> (String, Report) {
    let report = match (started.wait(&token).await, duties) {
        (false, _) => Report::default(),
        (true, None) => relay.drain_until(token).await,
        (true, Some((duties, ear))) => {
            duties.start(ear);
            relay.run(token).await
        }
    };
    (started.opened.name.clone(), report)
}

fn relay(
    config: &Config,
    outbox: &Opened,
    sinks: &BTreeMap<String, Arc<dyn Sink>>,
    observers: [Arc<dyn Observer>; 2],
    admin: &Admin,
) -> Result<Relay, Failure> {
    let mut builder = Relay::builder()
        .name(outbox.name.as_str())
        .store(outbox.store.clone())
        .router(config.published.clone())
        .settings(config.relay.settings.clone())
        .observer(admin.observer());
    for observer in observers {
        builder = builder.observer(observer);
    }
    for (name, sink) in sinks {
        builder = builder.sink_named(name.as_str(), sink.clone());
    }
    builder
        .build()
        .map_err(|error| Failure::input("the relay cannot be put together").because(&error))
}

/// Says what was done. An outbox whose state cannot be read after `--until-empty` may not be empty: that is an error.
async fn summary(
    out: Output,
    opened: &[(Arc<Started>, &Outbox)],
    reports: &BTreeMap<String, Report>,
    wanted: &Wanted<'_>,
    stdout_taken: bool,
) -> Result<Done, Failure> {
    let mut done = Done::Fine;
    for (started, _) in opened {
        let outbox = &started.opened;
        let name = outbox.name.as_str();
        let report = reports.get(name).copied().unwrap_or_default();
        let stats = match outbox.console.stats().await {
            Ok(stats) => stats,
            Err(error) if wanted.until_empty => return Err(Failure::store(name, &error)),
            Err(error) => {
                tracing::warn!(
                    outbox = name,
                    error = causes(&error),
                    "the state of the outbox cannot be read"
                );
                Stats::default()
            }
        };
        if wanted.until_empty && is_left(&stats) {
            done = Done::Found;
        }
        match (stdout_taken, out.is_json()) {
            // Standard output belongs to the events.
            (true, true) => eprintln!("{}", value(name, &report, &stats)),
            (true, false) => eprintln!("{}", text(name, &report, &stats)),
            (false, _) => out.either(&value(name, &report, &stats), text(name, &report, &stats))?,
        }
    }
    Ok(done)
}

/// Whether something is left that should have gone. What is scheduled has its time.
fn is_left(stats: &Stats) -> bool {
    stats.unpublished() + stats.dead > 0
}

fn value(name: &str, report: &Report, stats: &Stats) -> Value {
    json!({
        "outbox": name,
        "published": report.published,
        "duplicates": report.duplicates,
        "dropped": report.dropped,
        "dead": stats.dead,
        "queued": stats.queued,
        "parked": stats.parked.values().sum::<u64>(),
        "retrying": stats.parked_as(Status::Retrying),
        "waiting": stats.parked_as(Status::Waiting),
        "held": stats.parked_as(Status::Held),
        "scheduled": stats.parked_as(Status::Scheduled),
    })
}

fn text(name: &str, report: &Report, stats: &Stats) -> String {
    let mut text = format!("{name}: {} published", report.published);
    let others = [
        (
            report.duplicates,
            if report.duplicates == 1 {
                "duplicate"
            } else {
                "duplicates"
            },
        ),
        (report.dropped, "dropped"),
        (stats.queued, "still queued"),
        (stats.parked_as(Status::Retrying), "retrying"),
        (stats.parked_as(Status::Waiting), "waiting"),
        (stats.parked_as(Status::Held), "held"),
        (stats.parked_as(Status::Scheduled), "scheduled"),
        (stats.dead, "dead (postrider dead list)"),
    ];
    for (number, what) in others.iter().filter(|(number, _)| *number > 0) {
        text.push_str(&format!(", {number} {what}"));
    }
    text
}
