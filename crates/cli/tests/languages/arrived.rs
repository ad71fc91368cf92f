//! What arrived in RabbitMQ, read with a client that shares nothing with the relay.

use std::collections::BTreeMap;

use lapin::message::Delivery;
use lapin::options::BasicGetOptions;
use lapin::types::AMQPValue;
use lapin::{Connection, ConnectionProperties};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::cases::{AGGREGATE_TYPE, Case};
use crate::commands::base64;

/// A message.
#[derive(Debug)]
pub(crate) struct Arrived {
    id: String,
    kind: String,
    content_type: String,
    timestamp: Option<u64>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// The body of the envelope `flat`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Flat<'a> {
    event_id: String,
    event_type: String,
    aggregate_type: String,
    aggregate_id: String,
    event_key: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    content_type: Option<String>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    payload_base64: Option<String>,
}

impl Flat<'_> {
    pub(crate) fn payload_value(&self) -> Value {
        let text = self.payload.expect("it has a payload").get();
        serde_json::from_str(text).expect("it is JSON")
    }
}

/// Everything in a queue, in its order.
pub(crate) async fn take_all(url: &str, queue: &str) -> Vec<Arrived> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await;
    let connection = connection.expect("a client connects");
    let channel = connection.create_channel().await.expect("a channel opens");
    let mut all = Vec::new();
    let take = || channel.basic_get(queue.into(), BasicGetOptions { no_ack: true });
    while let Some(message) = take().await.expect("the queue can be read") {
        all.push(Arrived::of(message.delivery));
    }
    all
}

/// The one message of an aggregate.
pub(crate) fn one<'a>(queue: &'a [Arrived], aggregate_id: &str) -> &'a Arrived {
    let found: Vec<&Arrived> = queue
        .iter()
        .filter(|message| message.header("aggregate-id") == Some(aggregate_id))
        .collect();
    match found[..] {
        [message] => message,
        _ => panic!("{} messages of {aggregate_id:?}, it must be one", found.len()),
    }
}

impl Arrived {
    fn of(delivery: Delivery) -> Arrived {
        let properties = &delivery.properties;
        let text = |value: &Option<lapin::types::ShortString>| {
            value.as_ref().map(ToString::to_string).unwrap_or_default()
        };
        let headers = properties.headers().as_ref().expect("every message has headers");
        let header = |(name, value): (&lapin::types::ShortString, &AMQPValue)| match value {
            AMQPValue::LongString(text) => {
                let text = std::str::from_utf8(text.as_bytes()).expect("a header is UTF-8");
                (name.to_string(), text.to_owned())
            }
            other => panic!("the header {name} is {other:?}, it must be a long string"),
        };
        // Which a quorum queue adds.
        let ours = |(name, _): &(&lapin::types::ShortString, &AMQPValue)| name.as_str() != "x-delivery-count";
        Arrived {
            id: text(properties.message_id()),
            kind: text(properties.kind()),
            content_type: text(properties.content_type()),
            timestamp: *properties.timestamp(),
            headers: headers.inner().iter().filter(ours).map(header).collect(),
            body: delivery.data,
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(crate) fn flat(&self) -> Flat<'_> {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!(
                "{error}: not a flat envelope: {}",
                String::from_utf8_lossy(&self.body)
            )
        })
    }

    /// The body is the payload, byte for byte.
    pub(crate) fn is_raw(&self, case: &Case) {
        let name = &case.name;
        assert!(self.body == stored(case), "{name}: the body is another: {self:?}");
        assert_eq!(self.content_type, content_type(case), "{name}");
        self.has_properties(case);
    }

    /// The body is an object with the fields of the event, and the payload in it as it was stored.
    pub(crate) fn is_flat(&self, case: &Case) {
        let (name, flat) = (&case.name, self.flat());
        assert_eq!(self.content_type, "application/json", "{name}");
        assert_eq!(flat.event_id, self.id, "{name}");
        assert_eq!(flat.event_type, case.event_type, "{name}");
        assert_eq!(flat.aggregate_type, AGGREGATE_TYPE, "{name}");
        assert_eq!(flat.aggregate_id, case.name, "{name}");
        assert_eq!(flat.event_key.as_deref(), case.key, "{name}");
        assert_eq!(flat.headers, own_headers(case), "{name}");
        let json = content_type(case).ends_with("json");
        let shown = (!json).then(|| content_type(case).to_owned());
        assert_eq!(flat.content_type, shown, "{name}");
        let payload = flat.payload.map(|payload| payload.get().to_owned());
        match (&case.payload, &case.bytes) {
            (Some(text), _) if json => assert_eq!(payload.as_ref(), Some(text), "{name}"),
            (Some(text), _) => assert_eq!(flat.payload_value(), **text, "{name}"),
            (None, Some(bytes)) if json => {
                assert_eq!(payload.map(String::into_bytes).as_ref(), Some(bytes), "{name}");
            }
            (None, Some(bytes)) => assert_eq!(flat.payload_base64, Some(base64(bytes)), "{name}"),
            (None, None) => assert_eq!((payload, flat.payload_base64), (None, None), "{name}"),
        }
        self.has_properties(case);
    }

    /// What is the same with every envelope.
    fn has_properties(&self, case: &Case) {
        let name = &case.name;
        match &case.id {
            Some(id) => assert_eq!(self.id, *id, "{name}"),
            None => assert!(
                self.id.len() == 36 && self.id.as_bytes()[14] == b'7',
                "{name}: a UUID of version 7: {}",
                self.id
            ),
        }
        assert_eq!(self.kind, case.event_type, "{name}");
        let key = case
            .key
            .map_or_else(|| format!("{AGGREGATE_TYPE}/{name}"), str::to_owned);
        let hash: String = Sha256::digest(stored(case))
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let mut wanted = own_headers(case);
        let mut add = |header: &str, value: &str| wanted.insert(header.to_owned(), value.to_owned());
        add("event-type", case.event_type);
        add("aggregate-type", AGGREGATE_TYPE);
        add("aggregate-id", name);
        add("event-key", &key);
        add("postrider-payload-sha256", &hash);
        if case.payload.is_none() && case.bytes.is_none() {
            add("postrider-tombstone", "true");
        }
        let mut headers = self.headers.clone();
        let created = headers.remove("postrider-created-at").expect("it has a time");
        assert_eq!(headers, wanted, "{name}");
        match case.created_at {
            Some("2026-01-31T12:00:00.123456Z") => assert_eq!(created, "2026-01-31T12:00:00.123456Z"),
            // The other one is the same moment without its fraction, in another zone.
            Some(_) => assert_eq!(created, "2026-01-31T12:00:00.000000Z"),
            None => assert!(created.ends_with('Z'), "{name}: {created}"),
        }
        let seconds = case.created_at.map(|_| 1_769_860_800);
        assert!(
            self.timestamp.is_some() && (seconds.is_none() || self.timestamp == seconds),
            "{name}: {self:?}"
        );
    }
}

fn stored(case: &Case) -> &[u8] {
    match (&case.payload, &case.bytes) {
        (Some(text), _) => text.as_bytes(),
        (None, Some(bytes)) => bytes,
        (None, None) => b"",
    }
}

fn content_type(case: &Case) -> &str {
    let default = match case.bytes {
        Some(_) => "application/octet-stream",
        None => "application/json",
    };
    case.content_type.unwrap_or(default)
}

fn own_headers(case: &Case) -> BTreeMap<String, String> {
    case.headers
        .map(|headers| serde_json::from_str(headers).expect("the case has good headers"))
        .unwrap_or_default()
}
