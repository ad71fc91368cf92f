//! `postrider tail`: what was published last, and what is being published.

use std::time::Duration;

use postrider_core::{Cursor, Sent, SentPage};
use serde_json::json;

use crate::args::TailArgs;
use crate::config::Config;
use crate::failure::{Done, Failure};
use crate::output::{Output, cell, key, time};
use crate::signal;
use crate::wire::{self, Opened};

/// How often the history is looked at: fast enough for a person, and a look is cheap.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How many events one look brings at most.
const PAGE: u32 = 1_000;

/// The history of one outbox, and how far it was read.
struct History<'a> {
    opened: Opened,
    event_type: Option<&'a str>,
    seen: Option<Cursor>,
}

impl History<'_> {
    async fn look(&mut self, limit: u32) -> Result<Vec<Sent>, Failure> {
        let event_type = self.event_type.map(str::to_owned);
        let page = self
            .opened
            .console
            .sent(event_type, limit, self.seen.take())
            .await;
        let SentPage { events, next } = page.map_err(|error| Failure::store(&self.opened.name, &error))?;
        self.seen = Some(next);
        Ok(events)
    }
}

pub async fn tail(config: &Config, out: Output, wanted: &TailArgs) -> Result<Done, Failure> {
    let mut histories = Vec::new();
    for (name, outbox) in wire::chosen(config, wanted.outbox.as_deref())? {
        if outbox.history.is_none() {
            return Err(Failure::input(format!("the outbox {name:?} keeps no history"))
                .advice("set its `history` to something other than \"none\""));
        }
        histories.push(History {
            opened: wire::ready(name, outbox).await?,
            event_type: wanted.event_type.as_deref(),
            seen: None,
        });
    }
    let mut last = Vec::new();
    for history in &mut histories {
        let lines = u32::try_from(wanted.lines).unwrap_or(u32::MAX);
        let sent = history.look(lines).await?;
        last.extend(sent.into_iter().map(|sent| (history.opened.name.clone(), sent)));
    }
    last.sort_by_key(|(_, sent)| sent.published_at);
    let begin = last.len().saturating_sub(wanted.lines);
    last[begin..]
        .iter()
        .try_for_each(|(name, sent)| print(out, name, sent))?;
    match wanted.follow {
        true => follow(out, &mut histories).await,
        false => Ok(Done::Fine),
    }
}

/// Goes on with what is published, until stopped.
async fn follow(out: Output, histories: &mut [History<'_>]) -> Result<Done, Failure> {
    let stop = signal::stop_token();
    while stop
        .run_until_cancelled(tokio::time::sleep(LOOK_EVERY))
        .await
        .is_some()
    {
        for history in histories.iter_mut() {
            let sent = history.look(PAGE).await?;
            let name = &history.opened.name;
            sent.iter().try_for_each(|sent| print(out, name, sent))?;
        }
    }
    Ok(Done::Fine)
}

fn print(out: Output, outbox: &str, sent: &Sent) -> Result<(), Failure> {
    let destination = sent.destination.as_ref().map_or("", |name| name.as_str());
    let value = json!({
        "outbox": outbox,
        "published_at": time(sent.published_at),
        "event_id": sent.event_id.as_str(),
        "event_type": sent.event_type,
        "key": sent.key,
        "destination": destination,
        "receipt": sent.receipt,
    });
    let text = format!(
        "{}  {}  {}  {}  → {} {}",
        time(sent.published_at),
        cell(sent.event_id.as_str()),
        cell(&sent.event_type),
        key(&sent.key),
        cell(destination),
        cell(sent.receipt.as_deref().unwrap_or("")),
    );
    out.either(&value, text.trim_end())
}
