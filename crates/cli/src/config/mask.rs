//! A line of the configuration as it may be shown: with an error it lands in terminals, logs and tickets, so values
//! that are not what the error is about are left out, and passwords always.

use std::ops::Range;

use postrider_core::{inert, redact_url};

/// What stands for a value that is not shown.
const HIDDEN: &str = "…";

/// The line with its values masked, and where the marked part is in what is shown, in characters.
///
/// A value is shown only if it is exactly what is marked and its key does not sound like a secret.
pub fn mask(line: &str, marked: Range<usize>) -> (String, Range<usize>) {
    let mut shown = String::new();
    let mut mark = None;
    let mut at = 0;
    while at < line.len() {
        let piece = piece(line, at);
        if mark.is_none() && piece.end > marked.start {
            mark = Some(shown.chars().count() + line[at..marked.start.max(at)].chars().count());
        }
        if piece.hide {
            let exact = at == marked.start && piece.end == marked.end;
            shown.push_str(&value(line, at..piece.end, exact && !secret_key(&line[..at])));
        } else {
            shown.push_str(&inert(&line[at..piece.end].replace('\t', " "), usize::MAX));
        }
        at = piece.end;
    }
    let end = shown.chars().count();
    let start = mark.unwrap_or(end).min(end);
    let wanted = line.get(marked).map_or(1, |text| text.chars().count()).max(1);
    (shown, start..(start + wanted).min(end.max(start + 1)))
}

fn value(line: &str, range: Range<usize>, show: bool) -> String {
    let text = &line[range];
    match show {
        true if text.contains("://") => inert(&redact_url(text), usize::MAX).into(),
        true => inert(text, usize::MAX).into(),
        false if text.starts_with(['"', '\'']) => format!("\"{HIDDEN}\""),
        false => HIDDEN.to_owned(),
    }
}

struct Piece {
    end: usize,
    hide: bool,
}

/// What begins at `at`: a quoted string, a bare word where a value is expected, a comment, or one character.
fn piece(line: &str, at: usize) -> Piece {
    let rest = &line[at..];
    let Some(first) = rest.chars().next() else {
        return Piece {
            end: line.len(),
            hide: false,
        };
    };
    let value_expected = line[..at].trim_end().ends_with(['=', '[', ',']) && line[..at].contains('=');
    match first {
        '#' => Piece {
            end: line.len(),
            hide: true,
        },
        '"' | '\'' => Piece {
            end: at + string_len(rest, first),
            hide: true,
        },
        c if value_expected && (c.is_alphanumeric() || secret_key(&line[..at])) && !c.is_whitespace() => {
            let len = rest.find([',', ']', '}', '#']).unwrap_or(rest.trim_end().len());
            let word = rest[..len].trim_end();
            // `key = value` inside an inline table is not a value; numbers and true and false are no secrets.
            let plain = c.is_ascii_digit() || matches!(word, "true" | "false") || word.contains('=');
            match plain && !secret_key(&line[..at]) {
                true => Piece {
                    end: at + first.len_utf8(),
                    hide: false,
                },
                false => Piece {
                    end: at + word.len().max(first.len_utf8()),
                    hide: true,
                },
            }
        }
        c => Piece {
            end: at + c.len_utf8(),
            hide: false,
        },
    }
}

/// The length of a quoted string that begins here; to the end of the line if it is not closed.
fn string_len(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\\' if quote == '"' && !escaped => escaped = true,
            c if c == quote && !escaped => return at + 1,
            _ => escaped = false,
        }
    }
    rest.len()
}

/// Whether the key in front of a value sounds like a secret.
fn secret_key(before: &str) -> bool {
    let key = before.trim_end().trim_end_matches('=').trim_end();
    let key = key
        .rsplit([' ', ',', '{', '.'])
        .next()
        .unwrap_or(key)
        .to_lowercase();
    !key.ends_with("_file")
        && ["pass", "pwd", "secret", "token", "credential"]
            .iter()
            .any(|s| key.contains(s))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str, marked: &str) -> String {
        let start = line.find(marked).unwrap();
        let (text, mark) = mask(line, start..start + marked.len());
        format!("{text}\n{}{}", " ".repeat(mark.start), "^".repeat(mark.len()))
    }

    #[test]
    fn what_the_error_is_about_is_shown_and_the_rest_is_not() {
        assert_eq!(shown("poll = \"-1s\"", "\"-1s\""), "poll = \"-1s\"\n       ^^^^^");
        assert_eq!(
            shown("pasword = \"hunter2\"", "pasword"),
            "pasword = \"…\"\n^^^^^^^"
        );
        assert_eq!(
            shown("password = \"hunter2\"", "\"hunter2\""),
            "password = \"…\"\n           ^^^"
        );
        assert_eq!(
            shown("password = hunter2", "hunter2"),
            "password = …\n           ^"
        );
        assert_eq!(shown("password = 12345", "12345"), "password = …\n           ^");
        assert_eq!(
            shown("password = \"hunter2", "\"hunter2"),
            "password = \"…\"\n           ^^^"
        );
        assert_eq!(shown("batch_size = 0", "0"), "batch_size = 0\n             ^");
        assert_eq!(
            shown("to = [{ brokr = \"a\", path = \"b\" }]", "brokr"),
            "to = [{ brokr = \"…\", path = \"…\" }]\n        ^^^^^"
        );
    }
}
