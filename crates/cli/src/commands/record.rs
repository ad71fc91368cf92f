//! One event with everything known of it, as JSON and as text.

use postrider_core::{
    DestinationName, ErrorKind, Event, EventRecord, Head, InForce, Payload, RecordedRoute, Router, Scope,
    Status,
};
use serde_json::{Value, json};

use super::{behind, control, timeline};
use crate::failure::Failure;
use crate::output::{Output, cell, count, key, time, whole};

/// What a person can do about an event that is held by nothing that the database knows of.
const HELD: &str = "no pause holds it: its destination did not answer, or no relay runs or has come to it yet; \
                    `postrider status` says whether one runs, its log and circuit_open of /health/outbox which \
                    destination does not answer; it goes by itself then";

/// What is known of an event beside its record.
pub struct Beside<'a> {
    /// The routes as they are now, for the addresses that they fill in.
    pub router: &'a Router,
    /// What people have paused in its outbox; none in a listing, which looks up neither this nor whom events wait for.
    pub paused: Option<Vec<InForce>>,
}

impl Beside<'_> {
    /// The pauses that keep an event from going on.
    pub fn paused<'a>(
        &'a self,
        outbox: &'a str,
        record: &'a EventRecord,
    ) -> impl Iterator<Item = &'a InForce> {
        let undone = |route: &&RecordedRoute| route.status == Status::Pending || route.status.is_parked();
        self.paused.iter().flatten().filter(move |one| {
            let mut undone = record.routes.iter().filter(undone);
            match &one.scope {
                Scope::Outbox => undone.next().is_some(),
                Scope::Destination(name) => undone.any(|route| match &route.destination {
                    Some(to) => to == name,
                    // Queued, it goes where the configuration of today sends it.
                    None => self.is_routed_to(outbox, record, name),
                }),
                // Copies of a replay and what is scheduled stand outside of their key.
                Scope::Key(key) => {
                    let stands_out = |route: &RecordedRoute| route.status == Status::Scheduled;
                    *key == record.key && record.replay.is_none() && undone.any(|route| !stands_out(route))
                }
            }
        })
    }

    fn is_routed_to(&self, outbox: &str, record: &EventRecord, name: &DestinationName) -> bool {
        let event = record.event.as_ref().ok();
        let route = event.and_then(|event| self.router.matching(outbox, event));
        let to = route.map(|(_, route)| route.to.iter()).unwrap_or_default();
        to.into_iter()
            .any(|id| self.router.destination(*id).name == *name)
    }

    /// Where a destination sends the event, as far as the configuration of today tells.
    fn address(&self, record: &EventRecord, route: &RecordedRoute) -> Option<String> {
        address(
            self.router,
            route.destination.as_ref()?,
            record.event.as_ref().ok()?,
        )
    }

    /// Whether a delivery is held and no pause says why. Which destination is down is known to its relay alone.
    fn is_held_unsaid(&self, outbox: &str, record: &EventRecord, route: &RecordedRoute) -> bool {
        route.status == Status::Held
            && route.error_kind.is_none()
            && self.paused.is_some()
            && self.paused(outbox, record).next().is_none()
    }

    /// The event of its key that it stands behind.
    pub fn behind<'a>(&self, route: &'a RecordedRoute) -> Option<&'a Head> {
        behind::head(self.router, route)
    }
}

/// Where a destination of the configuration of today sends an event.
pub fn address(router: &Router, name: &DestinationName, event: &Event) -> Option<String> {
    let destinations = router.destinations();
    let destination = destinations
        .iter()
        .find(|destination| destination.name == *name)?;
    let (address, _) = destination.render(event).ok()?;
    let parts: Vec<String> = address
        .0
        .iter()
        .map(|(part, text)| format!("{part} {text}"))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The event as JSON. The payload only where it is asked for: it may hold personal data.
pub fn value(outbox: &str, record: &EventRecord, payload: bool, beside: &Beside<'_>) -> Value {
    let route = |one: &RecordedRoute| {
        let mut value = route(one);
        value["address"] = json!(beside.address(record, one));
        // Where it was not looked up, null would say that it stands behind nobody.
        if beside.paused.is_some() {
            let head = beside.behind(one);
            value["behind"] = json!(head.map(|head| head.event_id.as_str()));
            value["behind_status"] = json!(head.map(|head| head.status.as_str()));
        }
        if beside.is_held_unsaid(outbox, record, one) {
            value["advice"] = HELD.into();
        }
        if let Some(own) = &one.payload {
            value["payload_bytes"] = own.len().into();
            value["content_type"] = json!(one.content_type);
            if payload {
                let (name, text) = payload_text(own);
                value[name] = json!(text);
            }
        }
        value
    };
    let mut value = json!({
        "outbox": outbox,
        "seq": u64::try_from(record.seq.0).unwrap_or(u64::MAX),
        "event_id": record.event_id.as_str(),
        "event_type": record.event_type,
        "key": record.key,
        "created_at": time(record.created_at),
        "status": record.status().as_str(),
        "destinations": record.routes.iter().map(route).collect::<Vec<_>>(),
    });
    let paused: Vec<Value> = beside.paused(outbox, record).map(control::value).collect();
    if !paused.is_empty() {
        value["paused"] = paused.into();
    }
    if let Some(replay) = &record.replay {
        value["replay"] = replay.as_str().into();
    }
    timeline::add(&mut value, record, payload);
    match &record.event {
        Err(reason) => {
            value["bad_row"] = reason.as_str().into();
            if let (true, Some(stored)) = (payload, &record.bad_payload) {
                let (name, text) = payload_text(stored);
                value[name] = text.map_or(Value::Null, Value::String);
            }
        }
        Ok(event) => {
            value["aggregate_type"] = event.aggregate_type.as_str().into();
            value["aggregate_id"] = event.aggregate_id.as_str().into();
            value["content_type"] = event.content_type().into();
            value["headers"] = json!(event.headers);
            value["priority"] = event.priority.into();
            value["available_at"] = json!(event.available_at.map(time));
            value["payload_bytes"] = event.payload.len().into();
            if payload {
                let (name, text) = payload_text(&event.payload);
                value[name] = text.map_or(Value::Null, Value::String);
            }
        }
    }
    if let Some(edited) = edited(record) {
        value["content_type"] = edited.content_type.into();
        value["payload_bytes"] = edited.payload.len().into();
        if payload && let Some(value) = value.as_object_mut() {
            value.retain(|name, _| name != "payload" && name != "payload_hex");
            let (name, text) = payload_text(edited.payload);
            value.insert(name.to_owned(), text.map_or(Value::Null, Value::String));
        }
    }
    value
}

/// What goes or went everywhere in place of what the producer wrote.
struct Edited<'a> {
    payload: &'a Payload,
    content_type: &'a str,
}

/// None where no destination gets anything else than the producer wrote, or they get different things: each says then
/// what it gets.
fn edited(record: &EventRecord) -> Option<Edited<'_>> {
    let first = record.routes.first()?;
    let payload = first.payload.as_ref()?;
    let same = |route: &RecordedRoute| {
        route.payload.as_ref() == Some(payload) && route.content_type == first.content_type
    };
    let written = record.event.as_ref().map_or("", |event| event.content_type());
    record.routes.iter().all(same).then(|| Edited {
        payload,
        content_type: first.content_type.as_deref().unwrap_or(written),
    })
}

pub fn payload_text(payload: &Payload) -> (&'static str, Option<String>) {
    match payload {
        Payload::Text(text) => ("payload", Some(text.clone())),
        Payload::Tombstone => ("payload", None),
        Payload::Bytes(bytes) => (
            "payload_hex",
            Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        ),
    }
}

/// The payload of an event, for people.
fn printed(payload: &Payload) -> (&'static str, String) {
    let (name, text) = payload_text(payload);
    (
        name,
        whole(&text.unwrap_or_else(|| "none (tombstone)".to_owned())),
    )
}

/// The payload of a row that is no event, for people: what is wrong with it must be seen, so what is no text is
/// escaped.
fn escaped(payload: &Payload) -> String {
    match payload {
        Payload::Text(text) => whole(text),
        Payload::Bytes(bytes) => bytes.escape_ascii().to_string(),
        Payload::Tombstone => "none".to_owned(),
    }
}

fn route(route: &RecordedRoute) -> Value {
    json!({
        "destination": route.destination.as_ref().map(|name| name.as_str()),
        "status": route.status.as_str(),
        "attempts": route.attempts,
        "failures": route.failures,
        "error_kind": route.error_kind,
        "group": route.error_group,
        "error": route.error,
        "advice": advice(route),
        "first_failed_at": route.failed.map(|(first, _)| time(first)),
        "last_failed_at": route.failed.map(|(_, last)| last).or(route.failed_before).map(time),
        "next_attempt_at": route.next_attempt_at.map(time),
        "published_at": route.published_at.map(time),
        "receipt": route.receipt,
    })
}

/// What a person can do about the last error.
pub fn advice(route: &RecordedRoute) -> Option<&'static str> {
    route
        .error_kind
        .as_deref()
        .map(|kind| ErrorKind::parse(kind).policy().sentence)
}

/// The event as text: what it is, then where it stands.
pub fn print(
    out: Output,
    outbox: &str,
    record: &EventRecord,
    payload: bool,
    beside: &Beside<'_>,
) -> Result<(), Failure> {
    let mut lines = vec![
        ("event", whole(record.event_id.as_str())),
        ("type", cell(&record.event_type)),
        ("key", key(&record.key)),
        ("outbox", outbox.to_owned()),
        ("status", record.status().as_str().to_owned()),
        ("created", time(record.created_at)),
    ];
    lines.extend(
        beside
            .paused(outbox, record)
            .map(|one| ("paused", control::line(one))),
    );
    if let Some(replay) = &record.replay {
        lines.push(("copy of", format!("the replay {}", whole(replay.as_str()))));
    }
    let edited = edited(record);
    let content = |content_type: &str, payload: &Payload| {
        let text = format!("{}, {} bytes", cell(content_type), payload.len());
        ("content", text)
    };
    match &record.event {
        Err(_) if edited.is_some() => {}
        Err(reason) => {
            // The route that it is parked for says the same again.
            if record
                .routes
                .iter()
                .all(|route| route.error.as_deref() != Some(reason.as_str()))
            {
                lines.push(("bad row", whole(reason)));
            }
            if let (true, Some(stored)) = (payload, &record.bad_payload) {
                lines.push(("payload", escaped(stored)));
            }
        }
        Ok(event) => {
            lines.push((
                "aggregate",
                cell(&format!("{}/{}", event.aggregate_type, event.aggregate_id)),
            ));
            if edited.is_none() {
                lines.push(content(event.content_type(), &event.payload));
            }
            if event.priority != 0 {
                lines.push(("priority", event.priority.to_string()));
            }
            lines.extend(event.available_at.map(|at| ("available", time(at))));
            lines.extend(
                event
                    .headers
                    .iter()
                    .map(|(name, value)| ("header", cell(&format!("{name}: {value}")))),
            );
            if payload && edited.is_none() {
                lines.push(printed(&event.payload));
            }
        }
    }
    if let Some(edited) = &edited {
        lines.push(content(edited.content_type, edited.payload));
        lines.extend(payload.then(|| printed(edited.payload)));
    }
    for (name, text) in lines {
        out.line(format!("{name:<11} {text}"))?;
    }
    record.routes.iter().try_for_each(|route| {
        print_route(out, outbox, record, route, beside)?;
        let own = route.payload.as_ref().filter(|_| payload && edited.is_none());
        own.map_or(Ok(()), |own| {
            let (name, text) = printed(own);
            out.line(format!("{name:<11} {text}"))
        })
    })?;
    timeline::print(out, record, payload, beside)
}

fn print_route(
    out: Output,
    outbox: &str,
    record: &EventRecord,
    route: &RecordedRoute,
    beside: &Beside<'_>,
) -> Result<(), Failure> {
    let name = route
        .destination
        .as_ref()
        .map_or("no destination", |name| name.as_str());
    let mut text = format!("{:<11} {}: {}", "at", cell(name), route.status.as_str());
    let head = beside.behind(route);
    if let Some(head) = head {
        text.push_str(&format!(" {}", behind::named(head)));
    }
    if route.failures > 0 {
        text.push_str(&format!(
            " after {}, {} charged",
            count(route.failures.into(), "failure"),
            route.attempts
        ));
    }
    if let Some(at) = route.published_at {
        text.push_str(&format!(", published {}", time(at)));
    }
    if let Some(receipt) = &route.receipt {
        text.push_str(&format!(" ({})", cell(receipt)));
    }
    // What waits for something else has a time too, but it says nothing.
    let by_time = matches!(route.status, Status::Retrying | Status::Scheduled) && head.is_none();
    if let Some(at) = route.next_attempt_at.filter(|_| by_time) {
        text.push_str(&format!(", next attempt {}", time(at)));
    }
    out.line(text)?;
    if let Some(address) = beside.address(record, route) {
        out.line(format!("{:<11} {}", "address", cell(&address)))?;
    }
    if let (Status::Discarded, Some(reason)) = (route.status, &route.error) {
        out.line(format!("{:<11} {}", "reason", whole(reason)))?;
    }
    if let Some(kind) = &route.error_kind {
        out.line(format!(
            "{:<11} {}: {}",
            "error",
            cell(kind),
            whole(route.error.as_deref().unwrap_or("-"))
        ))?;
    }
    let held = beside.is_held_unsaid(outbox, record, route).then_some(HELD);
    match advice(route).or(held) {
        Some(advice) => out.line(format!("{:<11} {advice}", "what to do")),
        None => Ok(()),
    }
}
