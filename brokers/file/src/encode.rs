//! One message as one line.

use postrider_core::{Message, json};

/// How every line begins. It tells half a line of ours from a file that is somebody else's.
pub(crate) const START: &[u8] = b"{\"event_id\":";

/// Appends the line of a message, line feed included.
pub(crate) fn push_line(out: &mut Vec<u8>, message: &Message) {
    out.reserve(message.size() + 256);
    out.extend_from_slice(START);
    json::push_string(out, message.event_id.as_str());
    out.extend_from_slice(b",\"key\":");
    json::push_string(out, &message.message_key);
    if !message.address.0.is_empty() {
        out.extend_from_slice(b",\"address\":");
        json::push_object(out, pairs(&message.address.0));
    }
    out.extend_from_slice(b",\"content_type\":");
    json::push_string(out, &message.content_type);
    out.extend_from_slice(b",\"headers\":");
    json::push_object(out, pairs(&message.headers));
    push_body(out, message);
    out.extend_from_slice(b"}\n");
}

fn push_body(out: &mut Vec<u8>, message: &Message) {
    let body = &message.body;
    // A line end would break the line, and the spaces around a value are lost on whoever parses it.
    let fits =
        !body.iter().any(|byte| matches!(byte, b'\n' | b'\r')) && body.trim_ascii().len() == body.len();
    if fits && json::is_json(&message.content_type) && json::check_bytes(body).is_ok() {
        out.extend_from_slice(b",\"body\":");
        out.extend_from_slice(body);
    } else if let Ok(text) = std::str::from_utf8(body) {
        out.extend_from_slice(b",\"body_text\":");
        json::push_string(out, text);
    } else {
        out.extend_from_slice(b",\"body_base64\":");
        json::push_base64(out, body);
    }
}

fn pairs(entries: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    entries.iter().map(|(name, value)| (&**name, &**value))
}

#[cfg(test)]
mod tests {
    use postrider_core::Address;

    use super::*;

    fn line(content_type: &str, body: &'static [u8], address: &[(&str, &str)]) -> String {
        let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        let message = Message {
            event_id: "e-1".into(),
            order_key: "k".into(),
            message_key: "4\"2".to_owned(),
            address: Address(address.iter().map(owned).collect()),
            content_type: content_type.to_owned(),
            headers: vec![("event-type".to_owned(), "A".to_owned())],
            body: body.into(),
        };
        let mut out = Vec::new();
        push_line(&mut out, &message);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_is_exactly_this() {
        assert_eq!(
            line(
                "application/json",
                b"{\"b\":1, \"a\":1e400}",
                &[("path", "a.jsonl")]
            ),
            "{\"event_id\":\"e-1\",\"key\":\"4\\\"2\",\"address\":{\"path\":\"a.jsonl\"},\
             \"content_type\":\"application/json\",\"headers\":{\"event-type\":\"A\"},\
             \"body\":{\"b\":1, \"a\":1e400}}\n"
        );
    }

    #[test]
    fn no_body_can_break_a_line() {
        for (content_type, body, end) in [
            (
                "application/json",
                b"{\n}".as_slice(),
                ",\"body_text\":\"{\\n}\"}\n",
            ),
            ("application/json", b"[\r]", ",\"body_text\":\"[\\r]\"}\n"),
            ("application/json", b" 1", ",\"body_text\":\" 1\"}\n"),
            ("application/json", b"} x", ",\"body_text\":\"} x\"}\n"),
            ("application/json", b"", ",\"body_text\":\"\"}\n"),
            ("text/plain", b"1", ",\"body_text\":\"1\"}\n"),
            ("application/json", b"\xff", ",\"body_base64\":\"/w==\"}\n"),
        ] {
            let line = line(content_type, body, &[]);
            assert!(line.ends_with(end), "{line}");
            assert_eq!(line.matches('\n').count(), 1);
            serde_json::from_str::<serde_json::Value>(&line).unwrap();
        }
    }
}
