//! What a consumer reads, byte for byte.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::*;
use crate::Timestamp;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Flat<'a> {
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

fn event() -> Event {
    Event::builder("OrderPlaced")
        .id("e-1")
        .aggregate("ORDER", "42")
        .json(r#"{"b":1, "a":1e400,"a":2}"#)
        .build()
        .unwrap()
}

fn encoded(envelope: Envelope, event: &Event) -> Message {
    encode(
        envelope,
        event,
        &event.order_key(),
        Address::default(),
        "42".to_owned(),
    )
    .unwrap()
}

fn flat_text(event: &Event) -> String {
    String::from_utf8(encoded(Envelope::Flat, event).body.to_vec()).unwrap()
}

/// Fault G13.
#[test]
fn flat_is_exactly_this() {
    let mut event = event();
    assert_eq!(
        flat_text(&event),
        concat!(
            r#"{"event_id":"e-1","event_type":"OrderPlaced","aggregate_type":"ORDER","aggregate_id":"42","#,
            r#""payload":{"b":1, "a":1e400,"a":2}}"#
        )
    );
    event.key = Some("k\"".to_owned());
    event.created_at = Some(Timestamp(0));
    event.headers.insert("traceparent".to_owned(), "00-ab".to_owned());
    event.payload = Payload::Tombstone;
    assert_eq!(
        flat_text(&event),
        concat!(
            r#"{"event_id":"e-1","event_type":"OrderPlaced","aggregate_type":"ORDER","aggregate_id":"42","#,
            r#""event_key":"k\"","headers":{"traceparent":"00-ab"},"payload":null}"#
        )
    );
    event.key = None;
    event.created_at = None;
    event.headers.clear();
    event.payload = Payload::Text("<a>\n</a>".to_owned());
    event.content_type = Some("application/xml".to_owned());
    assert!(flat_text(&event).ends_with(r#","content_type":"application/xml","payload":"<a>\n</a>"}"#));
    event.payload = Payload::Bytes(vec![0xff, 0].into());
    event.content_type = None;
    assert!(
        flat_text(&event).ends_with(r#","content_type":"application/octet-stream","payload_base64":"/wA="}"#)
    );
    event.payload = Payload::Bytes(b" [1]".as_slice().into());
    event.content_type = Some("application/vnd.x+json".to_owned());
    assert!(flat_text(&event).ends_with(r#""aggregate_id":"42","payload": [1]}"#));
}

#[test]
fn raw_is_the_payload_and_its_type() {
    let mut event = event();
    let message = encoded(Envelope::Raw, &event);
    assert_eq!(message.body, event.payload.as_bytes());
    assert_eq!(message.content_type, "application/json");
    event.payload = Payload::Bytes(vec![0xff].into());
    assert_eq!(
        encoded(Envelope::Raw, &event).content_type,
        "application/octet-stream"
    );
    event.payload = Payload::Tombstone;
    let message = encoded(Envelope::Raw, &event);
    assert!(message.body.is_empty());
    assert_eq!(message.header(header::TOMBSTONE), Some("true"));
}

#[test]
fn both_have_the_same_headers() {
    let mut event = event();
    event.created_at = Some(Timestamp(0));
    event.headers.insert("traceparent".to_owned(), "00-ab".to_owned());
    let message = encoded(Envelope::Raw, &event);
    let headers: Vec<(&str, &str)> = message
        .headers
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    assert_eq!(
        headers,
        [
            ("event-type", "OrderPlaced"),
            ("aggregate-type", "ORDER"),
            ("aggregate-id", "42"),
            ("event-key", "ORDER/42"),
            ("postrider-payload-sha256", &*event.payload.hash()),
            ("postrider-created-at", "1970-01-01T00:00:00.000000Z"),
            ("traceparent", "00-ab"),
        ]
    );
    assert_eq!(message.headers, encoded(Envelope::Flat, &event).headers);
}

#[test]
fn what_cannot_be_encoded_says_so_and_shows_no_content() {
    let mut event = event();
    for payload in [
        "{hunter2",
        "",
        &"[".repeat(1 << 20),
        &format!("{}1{}", "[".repeat(101), "]".repeat(101)),
    ] {
        event.payload = Payload::Text(payload.to_owned());
        let key = event.order_key();
        let failure = encode(Envelope::Flat, &event, &key, Address::default(), String::new()).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::NotEncodable);
        assert!(!failure.maybe_sent && !failure.text.contains("hunter2"));
        assert!(encode(Envelope::Raw, &event, &key, Address::default(), String::new()).is_ok());
    }
}

#[test]
fn an_event_without_a_payload_is_not_one_whose_payload_is_null() {
    let mut event = event();
    for envelope in [Envelope::Flat, Envelope::Raw] {
        event.payload = Payload::Tombstone;
        assert_eq!(open(envelope, &encoded(envelope, &event)).unwrap().payload, None);
        event.payload = Payload::Text("null".to_owned());
        let opened = open(envelope, &encoded(envelope, &event)).unwrap();
        assert_eq!(opened.payload.as_deref(), Some(b"null".as_slice()));
    }
}

/// Faults D8 and G5.
#[test]
fn what_cannot_be_opened_says_where_and_shows_no_content() {
    let deep = format!("{{\"payload\":{}1{}}}", "[".repeat(1 << 19), "]".repeat(1 << 19));
    for (body, place) in [
        ("hunter2", "body: "),
        ("", "body: "),
        ("[1]", "body: "),
        ("{\"payload\":hunter2}", "body: "),
        ("{\"payload\":1,\"payload\":2}", "body: "),
        ("{\"event_id\":7,\"payload\":1}", "body: "),
        (&"[".repeat(1 << 20), "body: "),
        (&format!("{{\"x\":{}", "[".repeat(1 << 20)), "body: "),
        (&deep, "payload: "),
        ("{}", "payload: "),
        ("{\"payload\":1,\"payload_base64\":\"Zg==\"}", "payload: "),
        ("{\"content_type\":\"a/b\",\"payload\":1}", "payload: "),
        ("{\"payload_base64\":\"hunter2\"}", "payload_base64: "),
        ("{\"event_id\":\"e-2\",\"payload\":1}", "event_id: "),
        ("{\"event_type\":\"Other\",\"payload\":1}", "event_type: "),
        ("{\"aggregate_id\":\"hunter2\",\"payload\":1}", "aggregate_id: "),
    ] {
        let mut message = encoded(Envelope::Flat, &event());
        message.body = bytes::Bytes::copy_from_slice(body.as_bytes());
        let error = open(Envelope::Flat, &message).unwrap_err().to_string();
        assert!(error.starts_with(place) && !error.contains("hunter2"), "{error}");
    }
    let mut message = encoded(Envelope::Flat, &event());
    message.content_type = "text/plain".to_owned();
    assert!(
        open(Envelope::Flat, &message)
            .unwrap_err()
            .to_string()
            .starts_with("content_type: ")
    );
    let mut message = encoded(Envelope::Raw, &event());
    message.body = "{".into();
    assert!(
        open(Envelope::Raw, &message)
            .unwrap_err()
            .to_string()
            .starts_with("body: ")
    );
}

/// Fault D8.
#[test]
fn an_id_is_taken_from_where_there_is_one_and_must_be_a_good_one() {
    let mut message = encoded(Envelope::Flat, &event());
    message.event_id = "".into();
    assert_eq!(open(Envelope::Flat, &message).unwrap().event_id.as_str(), "e-1");
    let mut message = encoded(Envelope::Raw, &event());
    for bad in ["", "a\nb", &"x".repeat(256)] {
        message.event_id = bad.into();
        assert!(open(Envelope::Raw, &message).is_err(), "{bad}");
    }
    message.event_id = "é".repeat(255).into();
    assert!(open(Envelope::Raw, &message).is_ok());
}

/// Whoever publishes without a relay may know no header, and a relay says everything twice.
#[test]
fn what_the_body_alone_says_is_taken_from_there() {
    let mut message = encoded(Envelope::Flat, &event());
    assert_eq!(open(Envelope::Flat, &message).unwrap().headers, []);
    message.headers.clear();
    message.body =
        r#"{"event_id":"e-1","event_type":"T","aggregate_type":"","aggregate_id":"7","payload":{}}"#.into();
    let found = open(Envelope::Flat, &message).unwrap().headers;
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(found, [header("event-type", "T"), header("aggregate-id", "7")]);
    message.body = r#"{"event_id":"e-1","event_type":"a\nb","payload":{}}"#.into();
    let error = open(Envelope::Flat, &message).unwrap_err();
    assert_eq!(error.field, "event_type");
}

/// JSON as people and programs write it: any spacing, any escapes, duplicate keys, numbers of any size.
fn json_text() -> impl Strategy<Value = String> {
    let space = "[ \n\t]{0,2}";
    let number = "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,4})?";
    let string = "\"([^\"\\\\\\p{Cc}]|\\\\n|\\\\\"|\\\\u00[0-9a-f]{2}){0,8}\"";
    let leaf = prop_oneof![Just("null".to_owned()), Just("true".to_owned()), number, string];
    leaf.prop_recursive(5, 64, 5, move |inner| {
        prop_oneof![
            (proptest::collection::vec(inner.clone(), 0..5), space).prop_map(|(items, space)| format!(
                "{space}[{space}{}{space}]{space}",
                items.join(&format!("{space},"))
            )),
            (proptest::collection::vec((string, inner), 0..5), space).prop_map(|(items, space)| {
                let items: Vec<String> = items
                    .iter()
                    .map(|(key, value)| format!("{key}{space}:{value}"))
                    .collect();
                format!("{{{space}{}}}", items.join(","))
            }),
        ]
    })
}

proptest! {
    /// Fault G4.
    #[test]
    fn a_json_payload_passes_byte_for_byte(
        payload in json_text(),
        id in any::<String>(),
        aggregate in any::<String>(),
        key in any::<Option<String>>(),
        headers in any::<BTreeMap<String, String>>(),
    ) {
        let mut event = event();
        event.id = id.as_str().into();
        event.aggregate_id = aggregate.clone();
        event.key = key.clone();
        event.headers = headers.clone();
        event.payload = Payload::Text(payload.clone());
        let message = encoded(Envelope::Flat, &event);
        let flat: Flat<'_> = serde_json::from_slice(&message.body).unwrap();
        // The reader's own `null` is `None`; the bytes are compared below in either case.
        let read = flat.payload.map_or("null", RawValue::get);
        prop_assert_eq!(read, payload.trim_matches([' ', '\n', '\t']));
        let end = format!("\"payload\":{payload}}}");
        prop_assert!(message.body.ends_with(end.as_bytes()));
        prop_assert_eq!(flat.event_id, id);
        prop_assert_eq!(flat.aggregate_id, aggregate);
        prop_assert_eq!(flat.event_key, key);
        prop_assert_eq!(flat.headers, headers);
        prop_assert_eq!((&*flat.event_type, &*flat.aggregate_type), ("OrderPlaced", "ORDER"));
        prop_assert_eq!(flat.content_type, None);
        if let Ok(opened) = open(Envelope::Flat, &message) {
            prop_assert_eq!(opened.payload.as_deref(), Some(payload.as_bytes()));
            prop_assert_eq!(opened.event_id, event.id);
        } else {
            prop_assert!(event.validate().is_err());
        }
    }

    /// Fault G12.
    #[test]
    fn any_other_payload_passes_too(bytes in any::<Vec<u8>>(), text in any::<String>()) {
        let mut event = event();
        event.payload = Payload::Text(text.clone());
        event.content_type = Some("text/plain".to_owned());
        let message = encoded(Envelope::Flat, &event);
        let flat: Flat<'_> = serde_json::from_slice(&message.body).unwrap();
        prop_assert_eq!(serde_json::from_str::<String>(flat.payload.unwrap().get()).unwrap(), text.clone());
        let opened = open(Envelope::Flat, &message).unwrap();
        prop_assert_eq!(opened.payload.as_deref(), Some(text.as_bytes()));
        prop_assert_eq!(&opened.content_type, "text/plain");

        event.payload = Payload::Bytes(bytes.clone().into());
        event.content_type = None;
        let message = encoded(Envelope::Flat, &event);
        let flat: Flat<'_> = serde_json::from_slice(&message.body).unwrap();
        prop_assert_eq!(decode_base64(&flat.payload_base64.unwrap()), bytes.clone());
        for envelope in [Envelope::Flat, Envelope::Raw] {
            let opened = open(envelope, &encoded(envelope, &event)).unwrap();
            prop_assert_eq!(opened.payload.as_deref(), Some(&*bytes));
        }
        prop_assert_eq!(message.header(header::PAYLOAD_HASH), Some(&*event.payload.hash()));
    }
}

fn decode_base64(text: &str) -> Vec<u8> {
    let alphabet: Vec<char> = ('A'..='Z')
        .chain('a'..='z')
        .chain('0'..='9')
        .chain(['+', '/'])
        .collect();
    let mut bits = Vec::new();
    for c in text.trim_end_matches('=').chars() {
        let value = alphabet.iter().position(|known| *known == c).unwrap();
        bits.extend((0..6).rev().map(|place| value >> place & 1));
    }
    bits.chunks_exact(8)
        .map(|byte| byte.iter().fold(0u8, |byte, bit| byte << 1 | *bit as u8))
        .collect()
}
