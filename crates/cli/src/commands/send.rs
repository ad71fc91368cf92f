//! `postrider send`: events from the command line or from standard input, committed in one transaction.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::time::SystemTime;

use postrider_core::{Event, EventBuilder, Timestamp};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::bounded;
use crate::args::SendArgs;
use crate::config::Config;
use crate::failure::{Done, Failure};
use crate::output::{Output, cell, count, key, whole};
use crate::wire;

pub async fn send(config: &Config, out: Output, args: &SendArgs) -> Result<Done, Failure> {
    let (name, outbox) = wire::single(config, args.event.outbox.as_deref())?;
    let events = match args.lines {
        true => lines(std::io::stdin().lock())?,
        false => vec![one(args)?],
    };
    wire::ready(name, outbox).await?;
    wire::commit(name, outbox, &events).await?;
    let ids: Vec<&str> = events.iter().map(|event| event.id.as_str()).collect();
    let bytes: usize = events.iter().map(|event| event.payload.len()).sum();
    let text = match events.as_slice() {
        [event] => format!(
            "saved {} to {name}: {}, key {}, {}",
            whole(event.id.as_str()),
            cell(&event.event_type),
            key(&event.key_text()),
            count(bytes as u64, "byte")
        ),
        events => format!(
            "saved {} to {name}, {}",
            count(events.len() as u64, "event"),
            count(bytes as u64, "byte")
        ),
    };
    out.either(
        &json!({ "outbox": name, "committed": ids.len(), "ids": ids }),
        text,
    )?;
    Ok(Done::Fine)
}

/// The event of the command line.
fn one(args: &SendArgs) -> Result<Event, Failure> {
    let given = &args.event;
    let Some(event_type) = &given.event_type else {
        let failure = Failure::input("an event needs a type");
        return Err(
            failure.advice("give --type and --aggregate, or --lines to read events from standard input")
        );
    };
    let (aggregate_type, aggregate_id) = given.aggregate();
    let mut builder = Event::builder(event_type)
        .aggregate(aggregate_type, aggregate_id)
        .priority(args.priority);
    if let Some(id) = &given.id {
        builder = builder.id(id);
    }
    if let Some(key) = &given.key {
        builder = builder.key(key);
    }
    for (name, value) in &given.headers {
        builder = builder.header(name, value);
    }
    if let Some(delay) = args.delay {
        builder = builder.available_at(SystemTime::now() + delay);
    }
    builder = payload(builder, args)?;
    if let Some(content_type) = &args.content_type {
        builder = builder.content_type(content_type);
    }
    Ok(builder.build()?)
}

fn payload(builder: EventBuilder, args: &SendArgs) -> Result<EventBuilder, Failure> {
    if let Some(text) = &args.payload {
        return Ok(builder.json(text));
    }
    let Some(path) = &args.payload_file else {
        return Ok(builder);
    };
    Ok(match String::from_utf8(bounded::payload(path)?) {
        Ok(text) => builder.json(text),
        Err(error) => builder.bytes(error.into_bytes()),
    })
}

/// One line of standard input, with the names of the SQL contract.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    event_id: Option<String>,
    event_type: String,
    aggregate_type: String,
    aggregate_id: String,
    event_key: Option<String>,
    /// Kept byte for byte, which is why it is not parsed.
    payload: Option<Box<RawValue>>,
    /// In place of `payload`, for text that is not JSON.
    payload_text: Option<String>,
    content_type: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    priority: i32,
    available_at: Option<jiff::Timestamp>,
}

/// Every line as an event, or the first that is not one.
fn lines(mut input: impl BufRead) -> Result<Vec<Event>, Failure> {
    let mut events = Vec::new();
    for index in 0.. {
        let refuse = |error: &(dyn std::error::Error + 'static)| {
            Failure::input(format!("line {} is not an event; nothing was sent", index + 1)).because(error)
        };
        let Some(line) = bounded::line(&mut input).map_err(|error| refuse(&error))? else {
            break;
        };
        if line.trim().is_empty() {
            continue;
        }
        let line: Line = serde_json::from_str(&line).map_err(|error| {
            // Every line is a document of its own, so that the parser calls it the first.
            let text = error.to_string().replace(" at line 1 column", " at column");
            refuse(&std::io::Error::other(text))
        })?;
        if line.payload.is_some() && line.payload_text.is_some() {
            return Err(Failure::input(format!(
                "line {} has both payload and payload_text; nothing was sent",
                index + 1
            )));
        }
        events.push(line.event().map_err(|error| refuse(&error))?);
    }
    Ok(events)
}

impl Line {
    fn event(self) -> Result<Event, postrider_core::InvalidEvent> {
        let mut builder = Event::builder(self.event_type)
            .aggregate(self.aggregate_type, self.aggregate_id)
            .priority(self.priority);
        if let Some(id) = self.event_id {
            builder = builder.id(id);
        }
        if let Some(key) = self.event_key {
            builder = builder.key(key);
        }
        if let Some(raw) = self.payload {
            builder = builder.json(raw.get());
        }
        if let Some(text) = self.payload_text {
            builder = builder.json(text);
        }
        if let Some(content_type) = self.content_type {
            builder = builder.content_type(content_type);
        }
        if let Some(at) = self.available_at {
            builder = builder.available_at(Timestamp(at.as_microsecond()));
        }
        for (name, value) in self.headers {
            builder = builder.header(name, value);
        }
        builder.build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_kept_byte_for_byte() {
        let line =
            r#"{"event_type":"A","aggregate_type":"T","aggregate_id":"1","payload":{"b" : 1.0,"a":1e2}}"#;
        let events = lines(line.as_bytes()).unwrap();
        assert_eq!(events[0].payload.as_bytes(), br#"{"b" : 1.0,"a":1e2}"#);
    }

    #[test]
    fn a_bad_line_is_named() {
        let good = r#"{"event_type":"A","aggregate_type":"T","aggregate_id":"1"}"#;
        for bad in ["nonsense", r#"{"event_type":"A"}"#, r#"{"event_typ":"A"}"#] {
            let error = lines(format!("{good}\n\n{bad}\n").as_bytes()).unwrap_err();
            assert!(error.to_string().contains("line 3"), "{error}");
            assert!(!error.to_string().contains("line 1"), "{error}");
            assert_eq!(error.code(), 2);
        }
    }
}
