//! The one function that renders untrusted text.

/// The longest error text that is kept with a row.
pub const MAX_ERROR_TEXT: usize = 2_000;

/// Makes text from outside safe to store, log and show: control characters and text-direction overrides are escaped,
/// and the result has at most `max` bytes, cut at a character.
pub fn inert(text: &str, max: usize) -> Box<str> {
    let mut out = String::with_capacity(text.len().min(max));
    for c in text.chars() {
        let before = out.len();
        if is_harmful(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
        if out.len() > max {
            out.truncate(before);
            break;
        }
    }
    out.into_boxed_str()
}

/// Whether a character does something to a terminal instead of being shown.
pub fn is_harmful(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

/// An error with everything behind it in one line, inert: what happened, and after each colon why.
pub fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    inert(&text, MAX_ERROR_TEXT).into()
}

#[cfg(test)]
mod tests {
    use super::inert;

    #[test]
    fn control_characters_and_overrides_are_escaped() {
        assert_eq!(&*inert("a\nb\u{202e}c\0", 100), "a\\nb\\u{202e}c\\u{0}");
        assert_eq!(&*inert("ééé", 3), "é");
    }
}
