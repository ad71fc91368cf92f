//! One line as one message.

use std::collections::BTreeMap;

use postrider_core::{Address, Message, OrderKey, header, json};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Line<'a> {
    event_id: String,
    key: String,
    #[serde(default)]
    address: BTreeMap<String, String>,
    content_type: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(borrow, default, deserialize_with = "present")]
    body: Option<&'a RawValue>,
    body_text: Option<String>,
    body_base64: Option<String>,
}

/// A body that is JSON `null` is there; one that is left out is not.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// The message of a line without its line feed. A line that is not ours is a message without an id, for its consumer to
/// decide about: an id that we made up would belong to nothing.
pub(crate) fn message(line: &[u8]) -> Message {
    ours(line).unwrap_or_else(|| Message {
        event_id: "".into(),
        order_key: OrderKey::new(""),
        message_key: String::new(),
        address: Address::default(),
        content_type: "application/octet-stream".to_owned(),
        headers: Vec::new(),
        body: line.to_vec().into(),
    })
}

fn ours(line: &[u8]) -> Option<Message> {
    let line: Line<'_> = serde_json::from_slice(line).ok()?;
    let body = match (line.body, line.body_text, line.body_base64) {
        (Some(raw), None, None) => raw.get().as_bytes().to_vec(),
        (None, Some(text), None) => text.into_bytes(),
        (None, None, Some(encoded)) => json::read_base64(&encoded)?,
        _ => return None,
    };
    let order_key = line.headers.get(header::EVENT_KEY).unwrap_or(&line.key);
    Some(Message {
        order_key: OrderKey::new(order_key.as_str()),
        event_id: line.event_id.into(),
        message_key: line.key,
        address: Address(line.address.into_iter().collect()),
        content_type: line.content_type,
        headers: line.headers.into_iter().collect(),
        body: body.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::push_line;

    #[test]
    fn a_line_reads_back_as_it_was_written() {
        for body in [
            "null",
            "{\"b\":1, \"a\":1e400}",
            " 1",
            "",
            "{\n}",
            "plain \u{1f600}",
        ] {
            let sent = Message {
                event_id: "e\"1".into(),
                order_key: OrderKey::new("T/42"),
                message_key: "42".to_owned(),
                address: Address(vec![("path".to_owned(), "a".to_owned())]),
                content_type: "application/json".to_owned(),
                headers: vec![(header::EVENT_KEY.to_owned(), "T/42".to_owned())],
                body: body.into(),
            };
            let mut line = Vec::new();
            push_line(&mut line, &sent);
            assert_eq!(message(line.trim_ascii_end()), sent);
        }
    }

    #[test]
    fn what_is_not_ours_is_a_message_without_an_id() {
        for line in [
            "hello",
            "{}",
            "{\"event_id\":\"e\",\"key\":\"k\",\"content_type\":\"a/b\"}",
            "{\"event_id\":\"e\",\"key\":\"k\",\"content_type\":\"a/b\",\"body_base64\":\"x\"}",
        ] {
            let found = message(line.as_bytes());
            assert_eq!((found.event_id.as_str(), &*found.body), ("", line.as_bytes()));
        }
    }
}
