//! What an answer of a url means.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use postrider_admin::{Answered, Unanswered};
use postrider_core::{Answer, ErrorKind, Failure, Receipt};
use tokio::time::error::Elapsed;

/// The longest that a url may ask to be left alone: a mistake there must not silence it for days.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// What became of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) answer: Answer,
    /// Whether its server took the connection.
    pub(super) reached: bool,
    /// Whether it said nothing.
    pub(super) silent: bool,
    /// For how long it wants to be left alone.
    pub(super) retry_after: Option<Duration>,
}

impl Outcome {
    pub(super) fn of(
        answered: Result<Result<Answered, Unanswered>, Elapsed>,
        host: &str,
        limit: Duration,
    ) -> Outcome {
        match answered {
            Ok(Ok(answered)) => Outcome {
                answer: answer(answered.status, host),
                reached: true,
                silent: false,
                retry_after: answered.retry_after.as_deref().and_then(wait),
            },
            Ok(Err(Unanswered { reached, text, .. })) => Outcome::silent(&text, reached),
            Err(_) => Outcome::silent(&format!("{host} did not answer within {limit:?}"), true),
        }
    }

    /// Of one url nothing follows for the others; that is what this kind says.
    fn silent(text: &str, reached: bool) -> Outcome {
        let failure = Failure::new(ErrorKind::AddressRefused, text);
        Outcome {
            answer: Answer::Failed(if reached { failure.maybe_sent() } else { failure }),
            reached,
            silent: true,
            retry_after: None,
        }
    }
}

/// A url that is to be left alone: nothing was tried.
pub(super) fn resting(host: &str, left: Duration) -> Failure {
    let seconds = left.as_secs() + 1;
    let text =
        format!("{host} was not called: it failed or asked for a pause lately, which ends in {seconds} s");
    Failure::new(ErrorKind::AddressRefused, text)
}

fn answer(status: u16, host: &str) -> Answer {
    let kind = match status {
        200..=299 => return Answer::Confirmed(Receipt(Some(status.to_string().into()))),
        404 | 410 => ErrorKind::AddressNotFound,
        // Not now, or not that fast: the url's own trouble, which passes.
        408 | 425 | 429 | 500.. => ErrorKind::AddressRefused,
        _ => ErrorKind::Rejected,
    };
    let hint = match status {
        300..=399 => "; redirects are not followed: correct the url in the directory",
        _ => "",
    };
    Answer::failed(kind, format!("{host} answered {status}{hint}"))
}

/// `Retry-After`: seconds, or a date.
fn wait(text: &str) -> Option<Duration> {
    let wait = match text.trim().parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let at = DateTimeParser::new().parse_timestamp(text.trim()).ok()?;
            let left = at.duration_since(Timestamp::now());
            Duration::try_from(left).ok()?
        }
    };
    (!wait.is_zero()).then_some(wait.min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use postrider_core::Class;

    use super::*;

    #[test]
    fn no_answer_of_one_url_opens_the_circuit_of_all() {
        for status in 100..=999 {
            if let Answer::Failed(failure) = answer(status, "h") {
                let class = failure.kind.policy().class;
                assert!(matches!(class, Class::Misaddressed | Class::Rejected), "{status}");
                assert!(!failure.maybe_sent, "it answered");
            }
        }
        let silent = Outcome::silent("h", true).answer;
        assert!(matches!(silent, Answer::Failed(Failure { maybe_sent: true, .. })));
        for (status, kind) in [
            (302, ErrorKind::Rejected),
            (400, ErrorKind::Rejected),
            (404, ErrorKind::AddressNotFound),
            (410, ErrorKind::AddressNotFound),
            (429, ErrorKind::AddressRefused),
            (503, ErrorKind::AddressRefused),
        ] {
            assert!(matches!(answer(status, "h"), Answer::Failed(failure) if failure.kind == kind));
        }
    }

    #[test]
    fn a_pause_is_read_in_both_forms_and_bounded() {
        assert_eq!(wait("7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("99999999999"), Some(LONGEST_WAIT));
        assert_eq!(wait("Wed, 31 Dec 2200 23:59:59 GMT"), Some(LONGEST_WAIT));
        for nothing in ["0", "", "-3", "soon", "Wed, 21 Oct 2015 07:28:00 GMT"] {
            assert_eq!(wait(nothing), None, "{nothing}");
        }
    }
}
