//! What can become of a publish: four answers, never confused.

use crate::DestinationName;
use crate::fingerprint::group_name;
use crate::text::{MAX_ERROR_TEXT, inert};

/// The answer for one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The destination has it durably.
    Confirmed(Receipt),
    /// It has not, or we do not know.
    Failed(Failure),
}

impl Answer {
    /// A failure that certainly did not reach the destination.
    pub fn failed(kind: ErrorKind, text: impl AsRef<str>) -> Answer {
        Answer::Failed(Failure::new(kind, text))
    }
}

/// Where the destination put the message (partition and offset, stream sequence, line), as text for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt(pub Option<Box<str>>);

/// Why a message was not confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure: it alone decides what happens.
    pub kind: ErrorKind,
    /// Whether the message may have reached the destination all the same.
    pub maybe_sent: bool,
    /// The destination's own words: bounded, control characters escaped, safe to store and to show.
    pub text: Box<str>,
}

impl Failure {
    /// A failure that certainly did not reach the destination.
    pub fn new(kind: ErrorKind, text: impl AsRef<str>) -> Failure {
        Failure {
            kind,
            maybe_sent: false,
            text: inert(text.as_ref(), MAX_ERROR_TEXT),
        }
    }

    /// The same, when the message may have arrived: the confirm was lost, not the message.
    pub fn maybe_sent(mut self) -> Failure {
        self.maybe_sent = true;
        self
    }

    /// Which failures of one destination it is alike: what the stores keep as `error_group`, and what people name a
    /// group by. What one destination refuses is another group than what another refuses with the same words: whoever
    /// throws a group away has looked at one of them.
    pub fn group(&self, destination: Option<&DestinationName>) -> String {
        let destination = destination.map_or("", DestinationName::as_str);
        group_name(destination, self.kind.as_str(), &self.text)
    }
}

/// What happens to an event after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The destination cannot be reached or takes nothing: its circuit opens, nothing is charged.
    Unavailable,
    /// It answers, but the address does not exist or is closed to us: parked, tried again, never charged.
    Misaddressed,
    /// It answers, but does not want this content: parked, tried again, charged.
    Rejected,
    /// It can never be sent as it is: dead at once.
    Invalid,
    /// It was not tried at all, because an earlier message of its key failed in the same batch: it just goes again.
    NotAttempted,
}

/// What happens, and a sentence for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What happens.
    pub class: Class,
    /// What to do about it.
    pub sentence: &'static str,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $word:literal => $class:ident, $sentence:literal;)*) => {
        /// The kinds of failure. A sink names one; [`ErrorKind::policy`] alone says what it means.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorKind { $($(#[$doc])* $variant,)* }

        impl ErrorKind {
            /// Every kind.
            pub const ALL: &'static [ErrorKind] = &[$(ErrorKind::$variant,)*];

            /// The word used in the database, in logs, metrics and JSON.
            pub fn as_str(self) -> &'static str {
                match self { $(ErrorKind::$variant => $word,)* }
            }

            /// The kind of a stored word; `Unknown` for a word of a newer version.
            pub fn parse(word: &str) -> ErrorKind {
                match word { $($word => ErrorKind::$variant,)* _ => ErrorKind::Unknown }
            }

            /// What happens to an event that failed this way. Total, so that no sink can contradict another.
            pub fn policy(self) -> Policy {
                match self {
                    $(ErrorKind::$variant => Policy { class: Class::$class, sentence: $sentence },)*
                }
            }
        }
    };
}

kinds! {
    /// Nobody answers at its address.
    Unreachable = "unreachable" => Unavailable,
        "Start the destination or correct its address; publishing resumes by itself.";
    /// No answer in time.
    TimedOut = "timed_out" => Unavailable, "The destination is slow or cut off; publishing resumes by itself.";
    /// The connection or channel ended while the message was under way.
    ConnectionLost = "connection_lost" => Unavailable, "The connection broke; it is made anew by itself.";
    /// The destination said that it takes nothing at the moment.
    Blocked = "blocked" => Unavailable, "The destination is out of memory or disk; give it room.";
    /// Too many requests.
    Throttled = "throttled" => Unavailable, "The destination limits the rate; lower max_rate or raise its limit.";
    /// The destination took the message and gave it back without a reason.
    Nacked = "nacked" => Unavailable,
        "The queue is full or short of replicas; give it room or consumers, and publishing resumes by itself.";
    /// The credentials are wrong or expired.
    Credentials = "credentials" => Unavailable,
        "Correct the user, the password or the virtual host, or the rights there; nothing is dead-lettered meanwhile.";
    /// Its disk is full, or it may not be written.
    Storage = "storage" => Unavailable, "Make room or give write access; publishing resumes by itself.";
    /// No such exchange, queue, topic or binding.
    AddressNotFound = "address_not_found" => Misaddressed,
        "Create the exchange, binding or topic, or correct the route; the event goes by itself.";
    /// The address exists but is closed to us.
    AddressRefused = "address_refused" => Misaddressed,
        "Grant the relay's user the right to publish there, remove what stands in its place, or correct the route; the \
         event goes by itself.";
    /// The destination does not want this content.
    Rejected = "rejected" => Rejected, "Correct the content or the receiver, then redrive; or discard the event.";
    /// A failure that this version does not know.
    Unknown = "unknown" => Rejected, "Read the error text; then redrive or discard the event.";
    /// Larger than the destination takes.
    TooLarge = "too_large" => Invalid,
        "Raise the destination's limit, restart the relay so that it reads it, and redrive; or send a smaller payload \
         with `postrider dead edit`.";
    /// Cannot be written in the route's envelope.
    NotEncodable = "not_encodable" => Invalid,
        "Correct the producer, or choose another envelope or address, restart the relay so that it reads it, and \
         redrive; or discard the event.";
    /// A template of the route names something that this event does not have.
    TemplateValueMissing = "template_value_missing" => Invalid,
        "Correct the route's template, restart the relay so that it reads it, then redrive.";
    /// No route matches.
    NoRoute = "no_route" => Invalid,
        "Add a route that matches (postrider route explain shows why none does), restart the relay so that it reads \
         it, then redrive.";
    /// The row is not an event.
    BadRow = "bad_row" => Invalid,
        "Correct the producer and let it send the event again, then discard this one; where only the payload or its \
         content type is wrong, postrider dead edit mends it.";
    /// The id was published before with other content.
    IdReused = "id_reused" => Invalid, "Two events share one id: insert this one anew with its own, then discard it.";
    /// The destination is no longer in the configuration.
    RouteGone = "route_gone" => Invalid,
        "Redrive to route it and those behind it anew, or put the destination back and redrive. A copy of a replay \
         goes nowhere else: put its destination back and redrive, or discard it.";
    /// Another event is parked at its place.
    PlaceTaken = "place_taken" => Invalid,
        "Places were given out twice: redrive or discard the other event at this place, then redrive this one.";
    /// The destination took it several times and never said whether it has it.
    Unanswered = "unanswered" => Invalid,
        "It may have arrived, more than once: look at the receiver, then redrive or discard the event.";
    /// The relay died several times while it was trying this very row.
    KillsRelay = "kills_relay" => Invalid, "Keep the row for the developers; redrive only with a newer version.";
    /// Another message of its key failed first.
    Behind = "behind" => NotAttempted, "Nothing to do: it goes after the one before it.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_word_of_its_own_and_a_sentence() {
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::parse(kind.as_str()), *kind);
            assert!(kind.policy().sentence.ends_with('.'), "{kind:?}");
        }
        assert_eq!(ErrorKind::parse("from the future"), ErrorKind::Unknown);
    }

    /// Fault C10.
    #[test]
    fn a_failure_text_is_bounded_and_inert() {
        let failure = Failure::new(
            ErrorKind::Rejected,
            format!("no\0pe\x1b[31m{}", "x".repeat(10_000)),
        );
        assert!(failure.text.len() <= MAX_ERROR_TEXT);
        assert!(!failure.text.contains(['\0', '\x1b']));
    }
}
