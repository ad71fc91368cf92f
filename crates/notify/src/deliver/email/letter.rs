//! A delivery as mail. Whatever is in it, it becomes one mail to one address and nothing else.

use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message as Mail, MultiPart, SinglePart};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use postrider_core::{ErrorKind, Failure, Message, Secret};

use super::super::{FROZEN, read};
use super::options::{EmailError, EmailOptions};
use crate::http::sign_unsubscribe;
use crate::text::{NAME, TITLE, all_lines, one_line};
use crate::{Channel, Dispatch};

/// What stays as it is in a part of a url (RFC 3986, unreserved).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
/// The longest id of an event, in characters, that is written into a header.
const ID: usize = 300;

const EVENT_ID: HeaderName = HeaderName::new_from_ascii_str("X-Postrider-Event-Id");
const UNSUBSCRIBE: HeaderName = HeaderName::new_from_ascii_str("List-Unsubscribe");
const UNSUBSCRIBE_POST: HeaderName = HeaderName::new_from_ascii_str("List-Unsubscribe-Post");
const AUTO_SUBMITTED: HeaderName = HeaderName::new_from_ascii_str("Auto-Submitted");

/// A mail that can be handed in.
pub(super) struct Letter {
    pub(super) from: lettre::Address,
    pub(super) to: lettre::Address,
    pub(super) content: Vec<u8>,
}

/// Writes letters.
pub(super) struct Writer {
    from: Mailbox,
    unsubscribe: Option<(String, Option<Secret>)>,
}

impl Writer {
    pub(super) fn new(options: &EmailOptions) -> Result<Self, EmailError> {
        let from: Mailbox = options
            .from
            .parse()
            .map_err(|error: lettre::address::AddressError| EmailError::From(error.to_string()))?;
        if let Some(url) = &options.unsubscribe {
            check_url(url).map_err(|text| EmailError::Unsubscribe(text.to_owned()))?;
            let is_signed = url.contains("{signature}");
            let secret = options.unsubscribe_secret.as_ref();
            if is_signed && secret.is_none_or(|secret| secret.expose().is_empty()) {
                let text = "has {signature} in it, and there is no secret to sign with: set one";
                return Err(EmailError::Unsubscribe(text.to_owned()));
            }
        }
        Ok(Self {
            from: Mailbox::new(from.name.as_deref().map(|name| line(name, NAME)), from.email),
            unsubscribe: options
                .unsubscribe
                .clone()
                .map(|url| (url, options.unsubscribe_secret.clone())),
        })
    }

    /// The letter of a delivery.
    pub(super) fn letter(&self, message: &Message) -> Result<Letter, Failure> {
        let dispatch = read(message, Channel::Email)?;
        let to: lettre::Address = dispatch
            .to
            .parse()
            .map_err(|error: lettre::address::AddressError| {
                let text = format!("the recipient's address is not one of mail: {error}; {FROZEN}");
                Failure::new(ErrorKind::NotEncodable, text)
            })?;
        let name = line(&dispatch.name, NAME);
        let name = (!name.is_empty()).then_some(name);
        let id = message.event_id.as_str();
        let mut mail = Mail::builder()
            .from(self.from.clone())
            .to(Mailbox::new(name, to.clone()))
            .subject(line(&dispatch.title, TITLE))
            .date_now()
            .message_id(Some(format!("<{}@{}>", inner_id(id), self.from.email.domain())))
            .raw_header(HeaderValue::new(EVENT_ID, line(id, ID)))
            // Nobody's absence is to answer a machine.
            .raw_header(HeaderValue::new(AUTO_SUBMITTED, "auto-generated".to_owned()));
        if let Some((url, secret)) = &self.unsubscribe {
            let url = format!("<{}>", fill(url, secret.as_ref(), &dispatch));
            mail = mail
                // One word of ASCII: encoded, no program would recognise it.
                .raw_header(HeaderValue::dangerous_new_pre_encoded(
                    UNSUBSCRIBE,
                    url.clone(),
                    url,
                ))
                .raw_header(HeaderValue::new(
                    UNSUBSCRIBE_POST,
                    "List-Unsubscribe=One-Click".to_owned(),
                ));
        }
        let plain = SinglePart::builder()
            .header(ContentType::TEXT_PLAIN)
            .body(lines(&dispatch.body));
        let mail = match &dispatch.html {
            None => mail.singlepart(plain),
            Some(html) => {
                let html = SinglePart::builder()
                    .header(ContentType::TEXT_HTML)
                    .body(lines(html));
                mail.multipart(MultiPart::alternative().singlepart(plain).singlepart(html))
            }
        };
        let mail = mail.map_err(|error| {
            Failure::new(
                ErrorKind::NotEncodable,
                format!("the mail cannot be written: {error}"),
            )
        })?;
        Ok(Letter {
            from: self.from.email.clone(),
            to,
            content: mail.formatted(),
        })
    }
}

/// Text as one line of a header. What looks like an encoded word would be decoded by the reader's program, to a line
/// break if somebody likes, so it is taken apart.
fn line(text: &str, longest: usize) -> String {
    one_line(text, longest).replace("=?", "= ?")
}

/// Every kind of line break becomes the one of mail, so that no server sees an end of the mail where there is none.
fn lines(text: &str) -> String {
    all_lines(text).replace('\n', "\r\n")
}

/// The event's id as the left part of a `Message-ID`. It is the same whenever the event is sent.
fn inner_id(id: &str) -> String {
    let mut text = String::with_capacity(id.len());
    for byte in id.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => text.push(byte.into()),
            _ => text.push_str(&format!("={byte:02X}")),
        }
    }
    text
}

fn fill(url: &str, secret: Option<&Secret>, dispatch: &Dispatch) -> String {
    let part = |text| utf8_percent_encode(text, UNRESERVED).to_string();
    let signature = secret.map(|secret| sign_unsubscribe(secret, &dispatch.user_id));
    // One after the other, because what is filled in has no braces left to be filled.
    url.replace("{user_id}", &part(&dispatch.user_id))
        .replace("{category}", &part(&dispatch.category))
        .replace("{signature}", &signature.unwrap_or_default())
}

fn check_url(url: &str) -> Result<(), &'static str> {
    let names = ["{user_id}", "{category}", "{signature}"];
    let filled = names
        .iter()
        .fold(url.to_owned(), |url, name| url.replace(name, ""));
    if !filled.starts_with("https://") {
        return Err("must begin with https://: mail programs call nothing else");
    }
    let printable = |c: char| c.is_ascii_graphic() && !matches!(c, '<' | '>' | '{' | '}' | '"');
    match filled.chars().all(printable) {
        true => Ok(()),
        false => Err(
            "may have {user_id}, {category} and {signature} in it, and otherwise only characters of a url",
        ),
    }
}

#[cfg(test)]
mod tests;
