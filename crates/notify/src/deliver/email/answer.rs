//! What an answer of a mail server means. It depends on what was said before: the same code concerns everybody at the
//! greeting and one mailbox after its name was given.

use std::error::Error as _;

use lettre::transport::smtp::Error;
use postrider_core::{ErrorKind, Failure};

/// How far a dialogue has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// A connection and the first words.
    Greeting,
    /// The connection is to become TLS.
    Tls,
    /// User and password.
    Login,
    /// Who writes: the same for every letter.
    Sender,
    /// To whom.
    Recipient,
    /// That content follows.
    Data,
    /// The content: from here on the server may have taken the letter, whatever we hear.
    Content,
}

/// What went wrong. Not for content that was handed over without an answer: see [`super::unanswered`].
pub(super) fn failure(stage: Stage, error: &Error, host: &str) -> Failure {
    if let Some(code) = code(error) {
        return Failure::new(kind(stage, code, &reason(error)), told(host, code, error));
    }
    let text = format!("{host}: {error}");
    if error.is_tls() {
        return Failure::new(ErrorKind::Unreachable, text);
    }
    // What lettre itself finds: no STARTTLS where there must be, no way to log in that both know.
    if error.is_client() {
        let kind = match stage {
            Stage::Login => ErrorKind::Credentials,
            _ => ErrorKind::Unreachable,
        };
        return Failure::new(kind, text);
    }
    let kind = match (error.is_timeout(), stage) {
        (true, _) => ErrorKind::TimedOut,
        (false, Stage::Greeting | Stage::Tls) => ErrorKind::Unreachable,
        (false, _) => ErrorKind::ConnectionLost,
    };
    Failure::new(kind, text)
}

/// Whether the server ends the connection with this answer.
pub(super) fn ends(error: &Error) -> bool {
    code(error) == Some(421)
}

fn kind(stage: Stage, code: u16, text: &str) -> ErrorKind {
    match (stage, code) {
        // It closes, for everybody.
        (_, 421) => ErrorKind::Blocked,
        // It wants a login, another one, or a protected one.
        (_, 530 | 534 | 535 | 538) => ErrorKind::Credentials,
        (Stage::Login, 500..) => ErrorKind::Credentials,
        (Stage::Greeting | Stage::Tls | Stage::Login, _) => ErrorKind::Blocked,
        // Too large, unless the extended code says that it is the mailbox that is full.
        (_, 552) if !text.contains("5.2.2") => ErrorKind::TooLarge,
        // The sender is the same for all: it is our right to send that is missing.
        (Stage::Sender, 500..) => ErrorKind::Credentials,
        (Stage::Sender, _) => ErrorKind::Blocked,
        // From here on it is about one letter to one recipient.
        (Stage::Recipient | Stage::Data | Stage::Content, 500..) => ErrorKind::Rejected,
        (Stage::Recipient | Stage::Data | Stage::Content, _) => ErrorKind::AddressRefused,
    }
}

fn code(error: &Error) -> Option<u16> {
    error.status()?.to_string().parse().ok()
}

fn reason(error: &Error) -> String {
    error.source().map(ToString::to_string).unwrap_or_default()
}

fn told(host: &str, code: u16, error: &Error) -> String {
    format!("{host} answered {code} {}", reason(error))
}

#[cfg(test)]
mod tests {
    use postrider_core::Class;

    use super::*;

    #[test]
    fn one_recipients_trouble_is_not_everybodys() {
        for (stage, code, expected) in [
            (Stage::Greeting, 421, ErrorKind::Blocked),
            (Stage::Greeting, 554, ErrorKind::Blocked),
            (Stage::Login, 535, ErrorKind::Credentials),
            (Stage::Login, 454, ErrorKind::Blocked),
            (Stage::Sender, 530, ErrorKind::Credentials),
            (Stage::Sender, 550, ErrorKind::Credentials),
            (Stage::Sender, 452, ErrorKind::Blocked),
            (Stage::Recipient, 421, ErrorKind::Blocked),
            (Stage::Recipient, 450, ErrorKind::AddressRefused),
            (Stage::Recipient, 451, ErrorKind::AddressRefused),
            (Stage::Recipient, 452, ErrorKind::AddressRefused),
            (Stage::Recipient, 550, ErrorKind::Rejected),
            (Stage::Content, 451, ErrorKind::AddressRefused),
            (Stage::Content, 552, ErrorKind::TooLarge),
            (Stage::Content, 554, ErrorKind::Rejected),
        ] {
            assert_eq!(kind(stage, code, ""), expected, "{stage:?} {code}");
            let everybodys = kind(stage, code, "").policy().class == Class::Unavailable;
            let before = stage < Stage::Recipient || code == 421;
            assert_eq!(everybodys, before, "{stage:?} {code}");
        }
        assert_eq!(
            kind(Stage::Recipient, 552, "5.2.2 mailbox full"),
            ErrorKind::Rejected
        );
    }
}
