//! `postrider route explain`: where an event would go, and why.

use postrider_core::{DestinationId, Event, Router};
use serde_json::{Value, json};

use crate::args::EventArgs;
use crate::config::Config;
use crate::failure::{Done, Failure};
use crate::output::{Output, cell, whole};
use crate::wire;

pub fn explain(config: &Config, out: Output, args: &EventArgs) -> Result<Done, Failure> {
    let (outbox, _) = wire::single(config, args.outbox.as_deref())?;
    let event = event(args);
    let router = &config.router;
    let winner = router.matching(outbox, &event).map(|(index, _)| index);
    let mut verdicts = Vec::new();
    for (index, route) in router.routes().iter().enumerate() {
        verdicts.push(match (route.when.mismatch(outbox, &event), winner) {
            (Some(reason), _) => (index, "does not match", reason),
            (None, Some(first)) if first == index => (index, "wins", "the first that matches".to_owned()),
            (None, first) => (
                index,
                "matches",
                format!("but route {} is first", first.map_or(0, |first| first + 1)),
            ),
        });
    }
    let to: Vec<Goes> = winner
        .map(|index| {
            router.routes()[index]
                .to
                .iter()
                .map(|id| goes(router, *id, &event))
                .collect()
        })
        .unwrap_or_default();
    match out.is_json() {
        true => out.value(&value(outbox, winner, &verdicts, &to))?,
        false => print(out, winner, &verdicts, &to)?,
    }
    match winner.is_none() || to.iter().any(|goes| goes.rendered.is_err()) {
        true => Ok(Done::Found),
        false => Ok(Done::Fine),
    }
}

/// The event that was described. It is not checked: what is not given is empty, and routes may not look at it.
fn event(args: &EventArgs) -> Event {
    let (aggregate_type, aggregate_id) = args.aggregate();
    Event {
        id: args
            .id
            .as_deref()
            .unwrap_or("00000000-0000-7000-8000-000000000000")
            .into(),
        event_type: args.event_type.clone().unwrap_or_default(),
        aggregate_type,
        aggregate_id,
        key: args.key.clone(),
        payload: postrider_core::Payload::Tombstone,
        content_type: None,
        headers: args.headers.iter().cloned().collect(),
        priority: 0,
        available_at: None,
        created_at: None,
    }
}

/// One destination of the event.
struct Goes {
    destination: String,
    broker: String,
    rendered: Result<(Vec<(String, String)>, String), String>,
}

fn goes(router: &Router, id: DestinationId, event: &Event) -> Goes {
    let destination = router.destination(id);
    Goes {
        destination: destination.name.to_string(),
        broker: destination.broker.clone(),
        rendered: destination
            .render(event)
            .map(|(address, key)| (address.0, key))
            .map_err(|failure| failure.text.into()),
    }
}

type Verdict = (usize, &'static str, String);

fn value(outbox: &str, winner: Option<usize>, verdicts: &[Verdict], to: &[Goes]) -> Value {
    let routes: Vec<Value> = verdicts
        .iter()
        .map(|(index, verdict, reason)| json!({ "route": index + 1, "verdict": verdict, "reason": reason }))
        .collect();
    let to: Vec<Value> = to
        .iter()
        .map(|goes| match &goes.rendered {
            Ok((address, key)) => json!({
                "destination": goes.destination,
                "broker": goes.broker,
                "address": address.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
                "message_key": key,
            }),
            Err(error) => json!({ "destination": goes.destination, "broker": goes.broker, "error": error }),
        })
        .collect();
    let dropped = winner.is_some() && to.is_empty();
    json!({ "outbox": outbox, "route": winner.map(|index| index + 1), "dropped": dropped, "to": to, "routes": routes })
}

fn print(out: Output, winner: Option<usize>, verdicts: &[Verdict], to: &[Goes]) -> Result<(), Failure> {
    for (index, verdict, reason) in verdicts {
        out.line(format!("route {} {verdict}: {}", index + 1, whole(reason)))?;
        if winner == Some(*index) {
            print_winner(out, to)?;
        }
    }
    match winner {
        None => out.line("no route matches: the event would be a dead letter (no_route)"),
        Some(_) => Ok(()),
    }
}

/// Where the event goes, under the route that says so.
fn print_winner(out: Output, to: &[Goes]) -> Result<(), Failure> {
    if to.is_empty() {
        out.line("  the event would be dropped on purpose")?;
    }
    for goes in to {
        let text = match &goes.rendered {
            Ok((address, key)) => {
                let parts: Vec<String> = address
                    .iter()
                    .map(|(part, text)| format!(", {part} {:?}", cell(text)))
                    .collect();
                format!(
                    "broker {:?}{}, message key {:?}",
                    goes.broker,
                    parts.concat(),
                    cell(key)
                )
            }
            Err(error) => format!("dead letter (template_value_missing): {}", whole(error)),
        };
        out.line(format!("  to {}: {text}", cell(&goes.destination)))?;
    }
    Ok(())
}
