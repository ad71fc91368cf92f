//! `postrider tail`: what was published last, and what is being published.

use std::time::Duration;

use serde_json::json;

use crate::args::TailArgs;
use crate::config::{Config, Outbox, Place};
use crate::failure::{Done, Failure};
use crate::output::{Output, cell, key, time};
use crate::signal;
use crate::sqlite::{History, Sent};
use crate::wire;

/// How often the history is looked at: fast enough for a person, and a look is one step in an index.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub async fn tail(config: &Config, out: Output, wanted: &TailArgs) -> Result<Done, Failure> {
    let mut histories = Vec::new();
    for (name, outbox) in wire::chosen(config, wanted.outbox.as_deref())? {
        wire::ready(name, outbox).await?;
        histories.push((name, open(name, outbox)?));
    }
    let mut last = Vec::new();
    for (name, history) in &mut histories {
        let sent = history.last(wanted.lines, wanted.event_type.as_deref())?;
        last.extend(sent.into_iter().map(|sent| (*name, sent)));
    }
    last.sort_by_key(|(_, sent)| sent.published_at);
    let begin = last.len().saturating_sub(wanted.lines);
    last[begin..]
        .iter()
        .try_for_each(|(name, sent)| print(out, name, sent))?;
    match wanted.follow {
        true => follow(out, wanted, &mut histories).await,
        false => Ok(Done::Fine),
    }
}

/// Goes on with what is published, until stopped.
async fn follow(out: Output, wanted: &TailArgs, histories: &mut [(&str, History)]) -> Result<Done, Failure> {
    let stop = signal::stop_token();
    while stop
        .run_until_cancelled(tokio::time::sleep(LOOK_EVERY))
        .await
        .is_some()
    {
        for (name, history) in histories.iter_mut() {
            let sent = history.since_last(wanted.event_type.as_deref())?;
            sent.iter().try_for_each(|sent| print(out, name, sent))?;
        }
    }
    Ok(Done::Fine)
}

fn open(name: &str, outbox: &Outbox) -> Result<History, Failure> {
    if outbox.history.is_none() {
        return Err(Failure::input(format!("the outbox {name:?} keeps no history"))
            .advice("set its `history` to something other than \"none\""));
    }
    match &outbox.place {
        Place::Sqlite(path) => History::open(name, outbox, path),
        // `wire::ready` refused every store that this build does not have.
        Place::Postgres(_) | Place::Other { .. } => Err(Failure::input(format!(
            "the history of outbox {name:?} cannot be read from here"
        ))),
    }
}

fn print(out: Output, outbox: &str, sent: &Sent) -> Result<(), Failure> {
    let value = json!({
        "outbox": outbox,
        "published_at": time(sent.published_at),
        "event_id": sent.event_id,
        "event_type": sent.event_type,
        "key": sent.key,
        "destination": sent.destination,
        "receipt": sent.receipt,
    });
    let text = format!(
        "{}  {}  {}  {}  → {} {}",
        time(sent.published_at),
        cell(&sent.event_id),
        cell(&sent.event_type),
        key(&sent.key),
        cell(&sent.destination),
        cell(sent.receipt.as_deref().unwrap_or("")),
    );
    out.either(&value, text.trim_end())
}
