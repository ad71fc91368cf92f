//! JSON around payloads that must not be touched.
//!
//! A payload is never parsed into a tree and written again: that would collapse duplicate keys, round large numbers and
//! break every signature the producer made. It is checked once, in place, and then copied byte for byte between the
//! fields that envelopes and files put around it.

use std::fmt;

use serde_json::value::RawValue;

use crate::limits;

/// Why bytes are not one JSON value. The text names a place, never the content: payloads do not belong in logs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotJson(String);

/// Whether a content type says that the content is JSON: `application/json`, `text/json` or anything that ends in
/// `+json`, in either case and with any parameters.
pub fn is_json(content_type: &str) -> bool {
    let media = content_type.split(';').next().unwrap_or_default().trim();
    let suffix = media.len().checked_sub(5).and_then(|at| media.get(at..));
    media.eq_ignore_ascii_case("application/json")
        || media.eq_ignore_ascii_case("text/json")
        || suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case("+json"))
}

/// Checks that the text is exactly one JSON value that common parsers can read back: nested no deeper than
/// [`limits::JSON_DEPTH`] and without halves of surrogate pairs. Neither the time nor the stack it takes depends on how
/// the text is nested.
pub fn check(text: &str) -> Result<(), NotJson> {
    // `RawValue` skips over the value with a stack of its own on the heap; it never recurses.
    serde_json::from_str::<&RawValue>(text).map_err(|error| NotJson(error.to_string()))?;
    Scan {
        bytes: text.as_bytes(),
        at: 0,
    }
    .run()
}

/// The same for bytes, which must be UTF-8.
pub fn check_bytes(bytes: &[u8]) -> Result<&str, NotJson> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| NotJson(format!("not UTF-8 at byte {}", error.valid_up_to())))?;
    check(text).map(|()| text)
}

/// Appends the text as a JSON string, quotes included.
pub fn push_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let short = match byte {
            b'"' => b'"',
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0..0x20 => 0,
            _ => continue,
        };
        out.extend_from_slice(&text.as_bytes()[plain..at]);
        plain = at + 1;
        if short == 0 {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[hex(byte >> 4), hex(byte & 15)]);
        } else {
            out.extend_from_slice(&[b'\\', short]);
        }
    }
    out.extend_from_slice(&text.as_bytes()[plain..]);
    out.push(b'"');
}

/// Appends a JSON object of strings.
pub fn push_object<'a>(out: &mut Vec<u8>, entries: impl IntoIterator<Item = (&'a str, &'a str)>) {
    out.push(b'{');
    for (n, (name, value)) in entries.into_iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        push_string(out, name);
        out.push(b':');
        push_string(out, value);
    }
    out.push(b'}');
}

/// Appends the bytes as a JSON string in Base64: the standard alphabet, with padding.
pub fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.reserve(bytes.len().div_ceil(3) * 4 + 2);
    out.push(b'"');
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let index = (bits >> (18 - 6 * place)) as usize & 63;
            out.push(if place <= chunk.len() {
                ALPHABET[index]
            } else {
                b'='
            });
        }
    }
    out.push(b'"');
}

/// Reads Base64 of the standard alphabet with padding; None when it is anything else.
pub fn read_base64(text: &str) -> Option<Vec<u8>> {
    let (plain, padding) = match text.as_bytes() {
        [plain @ .., b'=', b'='] => (plain, 2),
        [plain @ .., b'='] => (plain, 1),
        plain => (plain, 0),
    };
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in plain.chunks(4) {
        let mut bits = 0;
        for place in 0..4 {
            let six = chunk.get(place).map_or(Some(0), |byte| sextet(*byte))?;
            bits = bits << 6 | six;
        }
        out.extend_from_slice(&bits.to_be_bytes()[1..]);
    }
    let surplus = out.split_off(out.len().checked_sub(padding)?);
    // Bits that no byte was made of must be zero, or one content would have several texts.
    surplus.iter().all(|byte| *byte == 0).then_some(out)
}

fn sextet(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

fn hex(nibble: u8) -> u8 {
    match nibble {
        0..10 => b'0' + nibble,
        _ => b'a' + nibble - 10,
    }
}

/// Walks over text that is known to be JSON, for what a syntax check lets pass.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    fn run(mut self) -> Result<(), NotJson> {
        let mut depth = 0usize;
        while let Some(byte) = self.next() {
            match byte {
                b'{' | b'[' => {
                    depth += 1;
                    if depth > limits::JSON_DEPTH {
                        return Err(self.error(format_args!("nested deeper than {}", limits::JSON_DEPTH)));
                    }
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'"' => self.string()?,
                _ => {}
            }
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), NotJson> {
        while let Some(byte) = self.next() {
            match byte {
                b'"' => break,
                b'\\' => self.escape()?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Half a surrogate pair is valid syntax but no character: most parsers refuse the whole document for it.
    fn escape(&mut self) -> Result<(), NotJson> {
        if self.next() != Some(b'u') {
            return Ok(());
        }
        match self.unit() {
            0xd800..0xdc00 => {
                let pair = self.next() == Some(b'\\') && self.next() == Some(b'u');
                if pair && matches!(self.unit(), 0xdc00..0xe000) {
                    Ok(())
                } else {
                    Err(self.error(format_args!("half a surrogate pair")))
                }
            }
            0xdc00..0xe000 => Err(self.error(format_args!("half a surrogate pair"))),
            _ => Ok(()),
        }
    }

    fn unit(&mut self) -> u32 {
        (0..4).fold(0, |unit, _| {
            let digit = self.next().and_then(|byte| char::from(byte).to_digit(16));
            unit << 4 | digit.unwrap_or(0)
        })
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte
    }

    fn error(&self, what: fmt::Arguments<'_>) -> NotJson {
        NotJson(format!("{what} at byte {}", self.at.saturating_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn content_types_are_told_apart() {
        for json in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/cloudevents+json",
            "text/json ;a=b",
        ] {
            assert!(is_json(json), "{json}");
        }
        for other in [
            "",
            "+jso",
            "é+json;",
            "application/xml",
            "application/json-seq",
            "text/plain; a=+json",
        ] {
            assert_eq!(is_json(other), other.starts_with('é'), "{other}");
        }
    }

    /// Faults G1 and G2.
    #[test]
    fn what_common_parsers_refuse_is_refused() {
        for good in [
            "null",
            " [1e400] ",
            r#""\u0000""#,
            r#"{"a":1,"a":2}"#,
            r#""\ud83d\ude00""#,
            r#""\\ud800""#,
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "{",
            "1 2",
            "{'a':1}",
            "\u{feff}1",
            "NaN",
            "01",
            "\"\n\"",
            r#""\ud800""#,
            r#""\udc00""#,
            r#""\ud800\n""#,
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert!(check_bytes(b"\"\xff\"").is_err());
    }

    /// Fault G5.
    #[test]
    fn nesting_costs_no_stack_and_has_a_limit() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(check(&nested(limits::JSON_DEPTH)), Ok(()));
        let error = check(&nested(limits::JSON_DEPTH + 1)).unwrap_err();
        assert_eq!(error.to_string(), "nested deeper than 100 at byte 100");
        assert!(check(&nested(1 << 20)).is_err());
        assert!(check(&"[".repeat(1 << 20)).is_err());
        assert!(check(&"{\"a\":".repeat(1 << 18)).is_err());
    }

    #[test]
    fn base64_is_the_standard_one() {
        for (plain, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
        ] {
            let mut out = Vec::new();
            push_base64(&mut out, plain.as_bytes());
            assert_eq!(String::from_utf8(out).unwrap(), format!("\"{encoded}\""));
            assert_eq!(read_base64(encoded).as_deref(), Some(plain.as_bytes()));
        }
        for bad in [
            "Zg", "Zg=", "Zh==", "Z===", "====", "=", "Zm9v\n", "Zm-v", "Zg==Zg==", "Zm9vZ===",
        ] {
            assert_eq!(read_base64(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn strings_read_back_as_they_were(text in any::<String>()) {
            let mut out = Vec::new();
            push_string(&mut out, &text);
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }

        #[test]
        fn base64_reads_back_as_it_was(bytes in any::<Vec<u8>>()) {
            let mut out = Vec::new();
            push_base64(&mut out, &bytes);
            let text = serde_json::from_slice::<String>(&out).unwrap();
            prop_assert_eq!(read_base64(&text), Some(bytes));
        }

        #[test]
        fn base64_of_anything_never_panics(text in any::<String>()) {
            let _ = read_base64(&text);
        }

        #[test]
        fn the_scan_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Scan { bytes: &bytes, at: 0 }.run();
            let _ = check_bytes(&bytes);
        }
    }
}
