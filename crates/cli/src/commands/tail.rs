//! `postrider tail`: what was published last, and what is being published.

use std::time::Duration;

use postrider_core::{Cursor, Router, Sent, SentPage};
use serde_json::json;

use super::record::address;
use crate::args::TailArgs;
use crate::config::{Config, Outbox};
use crate::failure::{Done, Failed, Failure};
use crate::output::{Columns, Output, cell, id, key, time};
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
    let mut failed = Failed::default();
    let mut histories = Vec::new();
    let mut last = Vec::new();
    let lines = u32::try_from(wanted.lines).unwrap_or(u32::MAX);
    for (name, outbox) in with_history(config, wanted)? {
        let Some(opened) = failed.keep(wire::ready(name, outbox).await) else {
            continue;
        };
        let mut history = History {
            opened,
            event_type: wanted.event_type.as_deref(),
            seen: None,
        };
        if let Some(sent) = failed.keep(history.look(lines).await) {
            last.extend(sent.into_iter().map(|sent| (name.to_owned(), sent)));
            histories.push(history);
        }
    }
    last.sort_by_key(|(_, sent)| sent.published_at);
    let begin = last.len().saturating_sub(wanted.lines);
    let mut lines = Lines::new(config, out);
    for (_, sent) in &last[begin..] {
        lines.columns.fit(&lines.cells(sent));
    }
    for (name, sent) in &last[begin..] {
        lines.print(name, sent)?;
    }
    let ended = failed.or(out.is_json(), Done::Fine);
    match (wanted.follow && !histories.is_empty(), ended) {
        (true, Ok(_)) => follow(lines, &mut histories).await,
        (true, Err(failure)) => {
            failure.report(out.is_json());
            follow(lines, &mut histories).await
        }
        (false, ended) => ended,
    }
}

/// The outboxes that can be looked back into. Only when there is none of them does somebody have to be told.
fn with_history<'a>(config: &'a Config, wanted: &TailArgs) -> Result<Vec<(&'a str, &'a Outbox)>, Failure> {
    let mut chosen = wire::chosen(config, wanted.outbox.as_deref())?;
    let names: Vec<&str> = chosen.iter().map(|(name, _)| *name).collect();
    chosen.retain(|(_, outbox)| outbox.history.is_some());
    match chosen.is_empty() {
        true => Err(
            Failure::input(format!("no history is kept: {}", names.join(", ")))
                .advice("set `history` of the outbox to something other than \"none\""),
        ),
        false => Ok(chosen),
    }
}

/// Goes on with what is published, until stopped.
async fn follow(mut lines: Lines<'_>, histories: &mut [History<'_>]) -> Result<Done, Failure> {
    let stop = signal::stop_token();
    while stop
        .run_until_cancelled(tokio::time::sleep(LOOK_EVERY))
        .await
        .is_some()
    {
        for history in histories.iter_mut() {
            let sent = history.look(PAGE).await?;
            let name = &history.opened.name;
            sent.iter().try_for_each(|sent| lines.print(name, sent))?;
        }
    }
    Ok(Done::Fine)
}

/// What is printed of each event, below what was printed before.
struct Lines<'a> {
    router: &'a Router,
    out: Output,
    columns: Columns,
}

impl<'a> Lines<'a> {
    fn new(config: &'a Config, out: Output) -> Self {
        let (router, columns) = (&config.router, Columns::default());
        Self { router, out, columns }
    }

    fn address(&self, sent: &Sent) -> Option<String> {
        address(self.router, sent.destination.as_ref()?, &sent.without_payload())
    }

    fn cells(&self, sent: &Sent) -> [String; 7] {
        let destination = sent.destination.as_ref().map_or("", |name| name.as_str());
        [
            time(sent.published_at),
            id(&sent.event_id, sent.replay.as_ref()),
            cell(&sent.event_type),
            key(&sent.key),
            format!("→ {}", cell(destination)),
            cell(&self.address(sent).unwrap_or_default()),
            cell(sent.receipt.as_deref().unwrap_or("")),
        ]
    }

    fn print(&mut self, outbox: &str, sent: &Sent) -> Result<(), Failure> {
        let mut value = json!({
            "outbox": outbox,
            "published_at": time(sent.published_at),
            "event_id": sent.event_id.as_str(),
            "event_type": sent.event_type,
            "key": sent.key,
            "destination": sent.destination.as_ref().map_or("", |name| name.as_str()),
            "address": self.address(sent),
            "receipt": sent.receipt,
        });
        if let Some(replay) = &sent.replay {
            value["replay"] = replay.as_str().into();
        }
        let cells = self.cells(sent);
        let text = self.columns.line(&cells);
        self.out.either(&value, text)
    }
}
