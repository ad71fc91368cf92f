//! What happened to an event, and what it was before a person changed it.

use postrider_core::{EventRecord, Moment, Original, RecordedRoute, Status, What};
use serde_json::{Value, json};

use super::record::{Beside, payload_text};
use crate::failure::Failure;
use crate::output::{Output, cell, count, time, whole};

/// Adds it to the event's JSON, where it is known.
pub fn add(value: &mut Value, record: &EventRecord, payload: bool) {
    if !record.timeline.is_empty() {
        value["timeline"] = record.timeline.iter().map(moment).collect();
    }
    let Some(original) = &record.original else { return };
    value["original"] = json!({
        "payload_bytes": original.payload.len(),
        "content_type": original.content_type,
        "edited_at": time(original.edited_at),
        "actor": original.actor,
    });
    if payload {
        let (name, text) = payload_text(&original.payload);
        value["original"][name] = json!(text);
    }
}

fn moment(moment: &Moment) -> Value {
    json!({
        "at": time(moment.at),
        "what": moment.what.as_str(),
        "destination": moment.destination.as_ref().map(|name| name.as_str()),
        "actor": moment.actor,
        "detail": moment.detail,
    })
}

/// Prints it below the event, one line a moment.
pub fn print(out: Output, record: &EventRecord, payload: bool, beside: &Beside<'_>) -> Result<(), Failure> {
    if let Some(original) = &record.original {
        out.line(before(original))?;
        if payload {
            let (_, text) = payload_text(&original.payload);
            let text = text.unwrap_or_else(|| "none (tombstone)".to_owned());
            out.line(format!("{:<11} {}", "", whole(&text)))?;
        }
    }
    let timeline = record.timeline.iter();
    let moments = timeline.filter(|moment| is_told(record, moment, beside));
    for (index, moment) in moments.enumerate() {
        let label = if index == 0 { "timeline" } else { "" };
        out.line(format!("{label:<11} {}", line(moment)))?;
    }
    Ok(())
}

fn before(
    Original {
        payload,
        content_type,
        edited_at,
        actor,
    }: &Original,
) -> String {
    let kind = content_type.as_deref().map(|kind| format!("{}, ", cell(kind)));
    format!(
        "{:<11} {}{}, until {} edited it at {}",
        "original",
        kind.unwrap_or_default(),
        count(payload.len() as u64, "byte"),
        cell(actor),
        time(*edited_at)
    )
}

/// What waits for something else than time has a time too, but it says nothing.
fn is_told(record: &EventRecord, moment: &Moment, beside: &Beside<'_>) -> bool {
    let by_time = |route: &RecordedRoute| {
        route.destination == moment.destination
            && matches!(route.status, Status::Retrying | Status::Scheduled)
            && beside.behind(route).is_none()
    };
    moment.what != What::NextAttempt || record.routes.iter().any(by_time)
}

fn line(moment: &Moment) -> String {
    let mut text = format!("{}  {}", time(moment.at), moment.what.as_str().replace('_', " "));
    if let Some(name) = &moment.destination {
        text.push_str(&format!(" at {}", cell(name.as_str())));
    }
    if let Some(actor) = &moment.actor {
        text.push_str(&format!(" by {}", cell(actor)));
    }
    if !moment.detail.is_empty() {
        text.push_str(&format!(": {}", cell(&moment.detail)));
    }
    text
}
