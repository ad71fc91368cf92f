//! What error texts have in common: texts that differ in an id, a port or a time are one group.

use sha2::{Digest, Sha256};

/// What an error text has in common with others: 16 hexadecimal digits. Quoted text, numbers and words with digits in
/// them do not count, nor do case and blanks.
///
/// ```
/// use postrider_core::fingerprint;
///
/// let one = fingerprint("connection 17 to 10.0.0.1:5672 was refused for \"order-1\"");
/// assert_eq!(one, fingerprint("Connection 4 to 10.0.0.2:5673 was refused for \"order-2\""));
/// assert_ne!(one, fingerprint("the message is too large"));
/// ```
pub fn fingerprint(text: &str) -> String {
    let mut hash = Sha256::new();
    for (number, word) in without_quotes(text).split_whitespace().enumerate() {
        if number > 0 {
            hash.update(b" ");
        }
        match word.chars().any(|letter| letter.is_ascii_digit()) || is_hexadecimal(word) {
            true => hash.update(b"#"),
            false => hash.update(word.to_lowercase().as_bytes()),
        }
    }
    short(hash)
}

/// The name of the group of failures that have a destination, a kind and the fingerprint of their text in common.
pub(crate) fn group_name(destination: &str, kind: &str, text: &str) -> String {
    let mut hash = Sha256::new();
    for part in [destination, kind, &fingerprint(text)] {
        hash.update(part.as_bytes());
        // No name has it, so that no two parts run into each other.
        hash.update(b"\0");
    }
    short(hash)
}

fn short(hash: Sha256) -> String {
    let digits = hash.finalize();
    digits[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Long words of the letters a to f are ids that happen to have no digit.
fn is_hexadecimal(word: &str) -> bool {
    word.len() >= 8
        && word
            .chars()
            .all(|letter| letter.is_ascii_hexdigit() || letter == '-')
}

/// The text with each quoted part as one mark. A quote that is not closed is an apostrophe or was cut off.
fn without_quotes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(['"', '\'', '`']) {
        let quote = rest[start..].chars().next().unwrap_or('"');
        let before = &rest[..start];
        let inside = &rest[start + 1..];
        let opens = quote != '\'' || !before.ends_with(char::is_alphanumeric);
        match inside.find(quote).filter(|_| opens) {
            Some(end) => {
                out.push_str(before);
                out.push('0');
                rest = &inside[end + 1..];
            }
            None => {
                out.push_str(&rest[..=start]);
                rest = inside;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_in_what_names_one_case_are_alike() {
        let alike = [
            ("HTTP 500 after 31 ms", "HTTP 503 after 7 ms"),
            ("no queue for 'order.eu'", "no queue for 'order.us and more'"),
            (
                "event 0190a1b2-7c3d-7e4f-8a9b-0c1d2e3f4a5b failed",
                "event 0190a1b2-7c3d-7e4f-8a9b-0c1d2e3f4a5c failed",
            ),
            ("trace deadbeefcafebabe", "trace cafebabedeadbeef"),
            ("it  is\nlate", "It is late"),
            ("the broker's answer was `no`", "the broker's answer was `never`"),
        ];
        for (one, other) in alike {
            assert_eq!(fingerprint(one), fingerprint(other), "{one}");
        }
    }

    #[test]
    fn other_texts_are_other_groups() {
        let texts = [
            "",
            "no queue for 'a'",
            "no exchange for 'a'",
            "it's late",
            "a \"quote that was cut",
        ];
        let mut groups: Vec<_> = texts.map(fingerprint).to_vec();
        groups.sort_unstable();
        groups.dedup();
        assert_eq!(groups.len(), texts.len());
        assert!(groups.iter().all(|group| group.len() == 16));
    }
}
