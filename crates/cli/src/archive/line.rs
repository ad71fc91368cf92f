//! One row of the history as one line of JSON, which carries its own checksum.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use postrider_core::{DestinationName, EventId, HistoryRow, JobId, Payload, Seq, Timestamp};
use serde_json::{Map, Value, json};

use super::manifest::hex_of;

const CHECKSUM: &str = "line_sha256";

/// The line of a row, without the line break. Keys are in order, so the same row is always the same line.
pub fn write(row: &HistoryRow) -> String {
    let mut line = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            line.insert(name.to_owned(), value);
        }
    };
    let micros = |at: Option<Timestamp>| at.map(|at| at.0);
    put("seq", row.seq.0.to_string().into());
    put(
        "destination",
        row.destination.as_ref().map(DestinationName::as_str).into(),
    );
    put("outcome", row.outcome.as_str().into());
    put("event_id", row.event_id.as_str().into());
    put("event_type", row.event_type.as_str().into());
    put("aggregate_type", row.aggregate.0.as_str().into());
    put("aggregate_id", row.aggregate.1.as_str().into());
    put("event_key", row.event_key.as_deref().into());
    match &row.payload {
        Payload::Text(text) => put("payload", text.as_str().into()),
        Payload::Bytes(bytes) => put("payload_base64", STANDARD.encode(bytes).into()),
        Payload::Tombstone => {}
    }
    put("content_type", row.content_type.as_deref().into());
    put("headers", row.headers.as_deref().into());
    put("priority", row.priority.into());
    put("available_at", micros(row.available_at).into());
    put("created_at", micros(row.created_at).into());
    put("enqueued_at", micros(row.enqueued_at).into());
    put("replay", row.replay.as_ref().map(JobId::as_str).into());
    put("reason", row.reason.as_deref().into());
    put("receipt", row.receipt.as_deref().into());
    put("attempts", row.attempts.into());
    put("failures", row.failures.into());
    put(
        "error",
        row.error.as_ref().map(|(kind, text)| json!([kind, text])).into(),
    );
    put("last_failed_at", micros(row.last_failed_at).into());
    put("published_at", row.published_at.0.into());
    let checksum = checksum(&line);
    line.insert(CHECKSUM.to_owned(), checksum.into());
    Value::Object(line).to_string()
}

/// The row of a line, or what is wrong with it.
pub fn read(text: &str) -> Result<HistoryRow, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
    let Value::Object(mut line) = value else {
        return Err("is not an object".to_owned());
    };
    let given = line.remove(CHECKSUM);
    if given.as_ref().and_then(Value::as_str) != Some(&checksum(&line)) {
        return Err("does not have the checksum that it was written with".to_owned());
    }
    row(&line).ok_or_else(|| "is not a row of a history".to_owned())
}

fn checksum(line: &Map<String, Value>) -> String {
    let text = serde_json::to_string(line).unwrap_or_default();
    hex_of(text.as_bytes())
}

fn row(line: &Map<String, Value>) -> Option<HistoryRow> {
    let text = |name: &str| line.get(name).and_then(Value::as_str).map(str::to_owned);
    let time = |name: &str| line.get(name).and_then(Value::as_i64).map(Timestamp);
    let count = |name: &str| {
        line.get(name)
            .and_then(Value::as_u64)
            .and_then(|n| u32::try_from(n).ok())
    };
    let payload = match (text("payload"), text("payload_base64")) {
        (Some(text), _) => Payload::Text(text),
        (None, Some(bytes)) => Payload::Bytes(STANDARD.decode(bytes).ok()?.into()),
        (None, None) => Payload::Tombstone,
    };
    let error = line.get("error").and_then(Value::as_array);
    let part = |place: usize| error?.get(place)?.as_str().map(str::to_owned);
    Some(HistoryRow {
        seq: Seq(text("seq")?.parse().ok()?),
        destination: text("destination").map(DestinationName::from),
        outcome: text("outcome")?,
        event_id: EventId::from(text("event_id")?),
        event_type: text("event_type")?,
        aggregate: (text("aggregate_type")?, text("aggregate_id")?),
        event_key: text("event_key"),
        payload,
        content_type: text("content_type"),
        headers: text("headers"),
        priority: line
            .get("priority")
            .and_then(Value::as_i64)
            .and_then(|n| i32::try_from(n).ok()),
        available_at: time("available_at"),
        created_at: time("created_at"),
        enqueued_at: time("enqueued_at"),
        replay: text("replay").map(|id| JobId::from(id.as_str())),
        reason: text("reason"),
        receipt: text("receipt"),
        attempts: count("attempts")?,
        failures: count("failures")?,
        error: part(0).zip(part(1)),
        last_failed_at: time("last_failed_at"),
        published_at: time("published_at")?,
    })
}
