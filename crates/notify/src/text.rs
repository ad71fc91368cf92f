//! Making what strangers wrote safe to show: names, titles and texts in which somebody else's words stand.
//!
//! Words are escaped for HTML where they are put into it, by the templates. What is left is what no escaping helps
//! against: line breaks that begin another header, characters that turn the direction of what follows, and length.

/// The longest title, in characters: a subject that every mail program shows, and more than a telephone does.
pub(crate) const TITLE: usize = 200;
/// The longest text, in characters. A notification is to be read at a glance; this is there to bound a row.
pub(crate) const BODY: usize = 10_000;
/// The longest HTML, in characters. Nothing is cut off it, because half a document is none.
pub(crate) const HTML: usize = 200_000;
/// The longest name of a person, in characters.
pub(crate) const NAME: usize = 100;

/// One line: control characters and line breaks become spaces, and what is longer ends with an ellipsis.
pub(crate) fn one_line(text: &str, longest: usize) -> String {
    let shown = text.chars().filter(|c| !turns(*c));
    let flat = shown.map(|c| if c.is_control() || breaks(c) { ' ' } else { c });
    bounded(flat.collect::<String>().trim(), longest)
}

/// Text of several lines: every kind of line break becomes a line feed, other control characters become spaces.
pub(crate) fn lines(text: &str, longest: usize) -> String {
    bounded(all_lines(text).trim_end(), longest)
}

/// The same without a bound.
pub(crate) fn all_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().filter(|c| !turns(*c)).peekable();
    while let Some(c) = characters.next() {
        match c {
            '\r' if characters.peek() == Some(&'\n') => {}
            '\r' => out.push('\n'),
            '\n' | '\t' => out.push(c),
            c if breaks(c) => out.push('\n'),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// At most so many characters, the last of them an ellipsis where something was cut off.
fn bounded(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        None => text.to_owned(),
        Some(_) => {
            let kept: String = text.chars().take(longest.saturating_sub(1)).collect();
            format!("{}…", kept.trim_end())
        }
    }
}

/// What turns the direction of text. A name with one of these can make a title say something else.
fn turns(c: char) -> bool {
    matches!(
        c,
        '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// Line breaks that are not control characters.
fn breaks(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_title_is_one_line_that_begins_no_header() {
        let hostile = "Ann\r\nBcc: everybody@example.com\0\u{85}\u{2028}x";
        assert_eq!(one_line(hostile, TITLE), "Ann  Bcc: everybody@example.com   x");
        assert_eq!(one_line("\n \t", TITLE), "");
    }

    #[test]
    fn nothing_turns_the_direction() {
        assert_eq!(one_line("a\u{202e}b\u{2066}c\u{200f}d", TITLE), "abcd");
        assert_eq!(lines("a\u{202d}b\r\nc\rd\u{1b}[31m", BODY), "ab\nc\nd [31m");
    }

    #[test]
    fn what_is_too_long_is_cut_at_a_character() {
        assert_eq!(one_line("ääää", 4), "ääää");
        assert_eq!(one_line("äääää", 4), "äää…");
        assert_eq!(lines(&"x".repeat(BODY + 1), BODY).chars().count(), BODY);
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_safe(text in any::<String>(), longest in 1_usize..50) {
            let line = one_line(&text, longest);
            prop_assert!(!line.chars().any(|c| c.is_control() || breaks(c) || turns(c)));
            prop_assert!(line.chars().count() <= longest);
            let several = lines(&text, longest);
            prop_assert!(!several.chars().any(|c| (c.is_control() && c != '\n' && c != '\t') || turns(c)));
            prop_assert!(several.chars().count() <= longest);
        }

        #[test]
        fn what_is_harmless_stays(text in "[a-zA-Zäöüß0-9.,!? éש你]{0,40}") {
            prop_assert_eq!(one_line(&text, TITLE), text.trim());
        }
    }
}
