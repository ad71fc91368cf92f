//! Whether something can be sent to an address at all. What cannot is said at once and by name, instead of being tried
//! ten times and parked: the reason is kept with the delivery.

use crate::{Channel, Recipient};

/// The longest address of mail that a server has to take, by RFC 5321.
const LONGEST_EMAIL: usize = 254;
/// The longest part before the sign, by the same.
const LONGEST_LOCAL: usize = 64;
/// The longest part of a domain between two dots.
const LONGEST_LABEL: usize = 63;
/// Longer urls are refused by many servers.
const LONGEST_URL: usize = 2_000;

/// Where a channel reaches a person: the address, or why there is none to send to.
pub(crate) fn of(recipient: &Recipient, channel: Channel) -> Result<&str, &'static str> {
    match channel {
        Channel::InApp => Ok(""),
        Channel::Email => checked(recipient.email.as_deref(), "there is no email address", email),
        Channel::Push => checked(recipient.push_url.as_deref(), "there is no push url", push_url),
    }
}

fn checked<'a>(
    given: Option<&'a str>,
    missing: &'static str,
    wrong: fn(&str) -> Option<&'static str>,
) -> Result<&'a str, &'static str> {
    let given = given.filter(|text| !text.is_empty()).ok_or(missing)?;
    wrong(given).map_or(Ok(given), Err)
}

/// Why this is no address of mail. Quoted local parts and addresses of numbers are legal, and used by nobody who is to
/// be notified; their characters are those that hostile input needs.
fn email(text: &str) -> Option<&'static str> {
    let Some((local, domain)) = text.rsplit_once('@') else {
        return Some("the email address has no @");
    };
    let unfit = |c: char| c.is_control() || c.is_whitespace() || "<>()[],;:\"\\@".contains(c) || invisible(c);
    if text.len() > LONGEST_EMAIL || local.len() > LONGEST_LOCAL {
        Some("the email address is too long")
    } else if local.split('.').any(str::is_empty) || local.chars().any(unfit) {
        Some("what is before the @ of the email address cannot be there")
    } else if !is_domain(domain) {
        Some("what is behind the @ of the email address is no domain")
    } else {
        None
    }
}

fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        let inside = label.chars().all(|c| c.is_alphanumeric() || c == '-');
        !label.is_empty()
            && label.len() <= LONGEST_LABEL
            && inside
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.split('.').all(is_label)
}

/// Why this is no url that can be told.
fn push_url(text: &str) -> Option<&'static str> {
    let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
    let rest = match (lower.starts_with("http://"), lower.starts_with("https://")) {
        (true, _) => &text[7..],
        (_, true) => &text[8..],
        _ => return Some("the push url does not begin with http:// or https://"),
    };
    if text.len() > LONGEST_URL {
        return Some("the push url is too long");
    }
    if text
        .chars()
        .any(|c| c.is_control() || c.is_whitespace() || invisible(c))
    {
        return Some("the push url has a space or a control character");
    }
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    host.is_empty().then_some("the push url has no host")
}

/// What nobody sees who looks at an address.
fn invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_can_be_sent_to() {
        for good in [
            "ann@example.com",
            "a.b+c@localhost",
            "zoë@exämple.de",
            "o'neil@x-y.org",
        ] {
            assert_eq!(email(good), None, "{good}");
        }
        for good in [
            "https://push.example.com/a?b=c",
            "http://127.0.0.1:8080",
            "HTTPS://x/",
        ] {
            assert_eq!(push_url(good), None, "{good}");
        }
    }

    #[test]
    fn addresses_that_cannot() {
        let long = format!("{}@example.com", "a".repeat(65));
        for bad in [
            "ann",
            "@example.com",
            "ann@",
            "a b@example.com",
            "a@b\r\nBcc: c@d",
            "<a@b>",
            "a@b,c@d",
            "a@b..c",
            "a@-b.de",
            "a\u{200b}@b.de",
            "a..b@example.com",
            ".a@example.com",
            "a.@example.com",
            &format!("a@{}.com", "b".repeat(64)),
            &long,
        ] {
            assert!(email(bad).is_some(), "{bad:?}");
        }
        let long = format!("https://x/{}", "a".repeat(2_000));
        for bad in [
            "",
            "ftp://x",
            "javascript:alert(1)",
            "http://",
            "https:///x",
            "http://a b",
            "é",
            &long,
        ] {
            assert!(push_url(bad).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn an_address_that_is_missing_is_said_to_be() {
        let nobody = Recipient::default();
        assert_eq!(of(&nobody, Channel::InApp), Ok(""));
        assert_eq!(of(&nobody, Channel::Email), Err("there is no email address"));
        assert_eq!(of(&nobody, Channel::Push), Err("there is no push url"));
    }
}
