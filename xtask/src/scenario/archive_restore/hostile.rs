//! Events whose payloads and headers are easily changed on the way: by a parser, an escape, an encoding or a limit.

use std::collections::BTreeMap;

use postrider_testkit::ledger::Committed;

use super::arrival::Arrival;
use super::dice::Dice;

/// The length of the large ones.
const LARGE: usize = 200 << 10;

/// An event as its row was written.
pub(super) struct Hostile {
    pub(super) id: String,
    pub(super) key: String,
    /// Its place in its key, from 1 on.
    n: u64,
    payload: Payload,
    content_type: Option<&'static str>,
    /// As the column has it, and what it means.
    headers: Option<(&'static str, &'static [(&'static str, &'static str)])>,
}

enum Payload {
    Text(String),
    Bytes(Vec<u8>),
    None,
}

/// Written with escapes, with raw characters, in another order than the alphabet's, and with an empty value.
const HEADERS: [(&str, &[(&str, &str)]); 3] = [
    (
        r#"{"correlation-id" : "req \"7\" \\ /", "b":"","a": "1.0"}"#,
        &[("correlation-id", "req \"7\" \\ /"), ("b", ""), ("a", "1.0")],
    ),
    (
        "{\"x\":\"\\u00e9\\ud83d\\ude00\", \"y\":\"é😀\u{2028}\"}",
        &[("x", "é😀"), ("y", "é😀\u{2028}")],
    ),
    ("{}", &[]),
];

impl Hostile {
    /// The event at a place, of so many keys in turn. Every `large`-th is large.
    pub(super) fn at(store: &str, place: u64, keys: u64, large: u64) -> Self {
        let mut dice = Dice::new(place + 1);
        let (payload, content_type) = match place.is_multiple_of(large) {
            true => (large_payload(&mut dice), None),
            false => payload(place, &mut dice),
        };
        Self {
            id: format!("{store}-é-{place:09}"),
            key: format!("{store}-{}", place % keys),
            n: place / keys + 1,
            payload,
            content_type,
            headers: HEADERS.get((place % 4) as usize).copied(),
        }
    }

    pub(super) fn committed(&self) -> Committed {
        Committed::new(&self.id, &self.key, self.n)
    }

    /// The values of its row, in the order of [`COLUMNS`]. Everything is written in hexadecimal, so that nothing but
    /// the table stands between these bytes and the relay.
    pub(super) fn values(&self, store: &str) -> String {
        let text = |text: &str| match store {
            "postgres" => format!("convert_from('\\x{}', 'UTF8')", hex(text.as_bytes())),
            _ => format!("CAST(x'{}' AS TEXT)", hex(text.as_bytes())),
        };
        let bytes = |bytes: &[u8]| match store {
            "postgres" => format!("'\\x{}'::bytea", hex(bytes)),
            _ => format!("x'{}'", hex(bytes)),
        };
        let null = || "NULL".to_owned();
        let (payload, payload_bytes) = match &self.payload {
            Payload::Text(payload) => (text(payload), null()),
            Payload::Bytes(payload) => (null(), bytes(payload)),
            Payload::None => (null(), null()),
        };
        let content_type = self.content_type.map_or_else(null, text);
        let headers = self.headers.map_or_else(null, |(column, _)| text(column));
        let (id, key) = (text(&self.id), text(&self.key));
        format!(
            "({id}, 'OrderPlaced', 'ORDER', {key}, {payload}, {payload_bytes}, {content_type}, {headers})"
        )
    }

    /// Whether an arrival is this event: every byte of its payload, its content type, and the producer's headers.
    pub(super) fn is(&self, arrival: &Arrival) -> bool {
        let (body, default): (&[u8], _) = match &self.payload {
            Payload::Text(text) => (text.as_bytes(), "application/json"),
            Payload::Bytes(bytes) => (bytes, "application/octet-stream"),
            Payload::None => (&[], "application/json"),
        };
        let tombstone = arrival.headers.contains_key("postrider-tombstone");
        let given: BTreeMap<&str, &str> = self
            .headers
            .into_iter()
            .flat_map(|(_, map)| map)
            .copied()
            .collect();
        arrival.body == body
            && arrival.content_type == self.content_type.unwrap_or(default)
            && tombstone == matches!(self.payload, Payload::None)
            && arrival.given_headers() == given
    }
}

/// The columns that are written.
pub(super) const COLUMNS: &str =
    "event_id, event_type, aggregate_type, aggregate_id, payload, payload_bytes, content_type, headers";

fn payload(place: u64, dice: &mut Dice) -> (Payload, Option<&'static str>) {
    let text = |text: &str| Payload::Text(text.to_owned());
    match place % 10 {
        0 => (
            text(
                r#"{"n": 1.0, "big":1e400,"n":-0, "small" :1E-400, "long":123456789012345678901234567890.10}"#,
            ),
            None,
        ),
        1 => (
            text("{\"é\":\"\\u00e9\u{2028}\\u2029😀\\ud83d\\ude00\u{7f}\", \"\":\"\\u0000\\u001f\"}"),
            None,
        ),
        2 => (text("{\r\n\t\"lines\" : [\n1 ,\r2\t]\n}"), None),
        3 => (
            text("C:\\dir\\new\n\"quoted\" 'text' \\x00 %s {{}} $1\r\n"),
            Some("text/plain"),
        ),
        4 => (text(""), Some("text/plain; charset=utf-8")),
        5 => (Payload::Bytes(Vec::new()), None),
        6 => (Payload::None, None),
        7 => (text("\"just a text\""), None),
        8 => (
            Payload::Bytes(vec![0, 255, 254, 10, 13, 0, 0x1f, 0x8b, 0xc3, 0x28]),
            Some("application/x-thing"),
        ),
        _ => {
            let length = dice.below(300);
            (Payload::Bytes(dice.bytes(length)), None)
        }
    }
}

/// Random bytes, which no compression makes small, or as much text in which every second character is escaped.
fn large_payload(dice: &mut Dice) -> Payload {
    match dice.below(2) {
        0 => Payload::Bytes(dice.bytes(LARGE)),
        _ => {
            let text: String = (0..LARGE / 8)
                .map(|_| format!("\\u{:04x}é", 32 + dice.below(50_000)))
                .collect();
            Payload::Text(format!("{{\"text\": \"{text}\"}}"))
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}
