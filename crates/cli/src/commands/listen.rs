//! `postrider listen`: events of a queue are posted to a url, until stopped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use postrider_core::Secret;
use postrider_listener::Report;
use serde_json::json;
use tokio::task::JoinSet;
use toml::Spanned;

use super::start;
use crate::cli::ListenArgs;
use crate::config::{Config, Hidden, Listener, ListenerTable, Problem, suggestion};
use crate::failure::{Done, Failure};
use crate::listen::ready;
use crate::output::{Output, count};
use crate::signal;
use crate::wire;

pub async fn listen(
    config: &Config,
    out: Output,
    args: &ListenArgs,
    log_lines_dropped: Arc<AtomicU64>,
) -> Result<Done, Failure> {
    wire::check(config)?;
    let chosen = chosen(config, args)?;
    let admin = start::admin(config, log_lines_dropped);
    let serving = start::serve(config, &admin)?;
    let mut all = Vec::new();
    for (name, settings) in &chosen {
        all.push(ready(config, name, settings, args.migrate, &admin).await?);
    }
    let token = signal::stop_token();
    let mut running = JoinSet::new();
    for one in &all {
        let (name, listener, token) = (one.name.clone(), one.listener.clone(), token.clone());
        tracing::info!(listener = name, consumer = listener.consumer(), "listening");
        running.spawn(async move { (name, listener.run(token).await) });
    }
    let stopping = token.clone();
    tokio::spawn(async move {
        stopping.cancelled().await;
        admin.stopping();
    });
    let mut reports = BTreeMap::new();
    while let Some(ended) = running.join_next().await {
        let (name, report) = ended
            .map_err(|error| Failure::backend("a listener ended by a mistake of its own").because(&error))?;
        reports.insert(name, report);
    }
    for one in &all {
        one.letters.close().await;
    }
    drop(serving);
    for (name, report) in reports {
        say(out, &name, &report)?;
    }
    Ok(Done::Fine)
}

/// All that are configured, the one that was named, or the one that the command line describes.
fn chosen(config: &Config, args: &ListenArgs) -> Result<Vec<(String, Listener)>, Failure> {
    if let Some(url) = &args.http {
        return described(config, args, url).map(|one| vec![one]);
    }
    let Some(name) = &args.name else {
        let all = config.listeners.iter();
        let all: Vec<_> = all.map(|(name, it)| (name.clone(), it.clone())).collect();
        return match all.is_empty() {
            false => Ok(all),
            true => Err(Failure::input("no listener is configured")
                .advice("add [listener.NAME], or give --http, --broker, --consumer and --dead-letters")),
        };
    };
    match config.listeners.get(name) {
        Some(it) => Ok(vec![(name.clone(), it.clone())]),
        None => {
            let known: Vec<&str> = config.listeners.keys().map(String::as_str).collect();
            let failure = Failure::input(format!("there is no listener named {name:?}"));
            Err(failure.advice(suggestion(name, &known).unwrap_or_default()))
        }
    }
}

/// The same as a table of the file would be, by the same rules.
fn described(config: &Config, args: &ListenArgs, url: &str) -> Result<(String, Listener), Failure> {
    let text = |text: &str| Spanned::new(0..0, text.to_owned());
    let consumer = args.consumer.as_deref().unwrap_or_default();
    let dead = args.dead_letters.iter();
    let dead = dead.map(|(part, value)| (text(part), text(value))).collect();
    let mut table = ListenerTable::default();
    table.url = Some(Spanned::new(0..0, Hidden(Secret::new(url))));
    table.broker = args.broker.as_deref().map(text);
    table.queue = args.queue.as_deref().map(text);
    table.inbox = args.inbox.as_deref().map(text);
    table.dead_letters = Some(Spanned::new(0..0, dead));
    let refused = |problem: Problem| {
        let failure = Failure::input(problem.message);
        match problem.help {
            Some(help) => failure.advice(help),
            None => failure,
        }
    };
    let listener = table.resolve(&text(consumer), &config.brokers).map_err(refused)?;
    Ok((consumer.to_owned(), listener))
}

fn say(out: Output, name: &str, report: &Report) -> Result<(), Failure> {
    let value = json!({
        "listener": name,
        "received": report.received,
        "redelivered": report.redelivered,
        "called": report.effects,
        "duplicates": report.duplicates,
        "retries": report.retries,
        "dead_letters": report.dead_letters,
    });
    let text = format!(
        "{name}: {} handed over, {}, {}",
        count(report.effects, "event"),
        count(report.duplicates, "duplicate"),
        count(report.dead_letters, "dead letter")
    );
    out.either(&value, text)
}
