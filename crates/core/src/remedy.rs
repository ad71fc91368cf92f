//! What would work, where a verb does not.

use crate::Status;

/// What a person can do about a verb that was refused because of the state an event is in. The verbs are those of the
/// command line: `redrive`, `discard`, `edit`, `move` and `cancel`.
pub fn remedy(verb: &str, status: Status) -> &'static str {
    match (verb, status) {
        (_, Status::Pending) => {
            "it is queued: a relay publishes it, or parks it within a second if it cannot; see that one runs with \
             `postrider status`"
        }
        ("cancel" | "move", Status::Retrying | Status::Waiting | Status::Held) => {
            "its time has come: it is being delivered; `postrider pause` stops its destination or key"
        }
        ("cancel" | "move", Status::DeadLetter) => {
            "its time has come and it failed; redrive it with `postrider dead redrive`, or throw it away with \
             `postrider dead discard`"
        }
        (_, Status::Waiting) => {
            "it goes after the event before it in its key: redrive or discard that one; `postrider show` names it"
        }
        (_, Status::Held) => {
            "it goes by itself when its destination answers or is resumed; `postrider status` says which one is down \
             or paused"
        }
        ("redrive" | "edit", Status::Scheduled) => {
            "it leaves at its time; `postrider schedule move` gives it another one"
        }
        (_, Status::Scheduled) => "it leaves at its time; cancel it with `postrider schedule cancel`",
        (_, Status::Published) => "it was sent; send a copy with `postrider replay --id`",
        (_, Status::Discarded) => "a person threw it away; the service has to write the event again",
        (_, Status::Retrying) => "it is tried again by itself",
        (_, Status::DeadLetter) => {
            "it needs a person: `postrider dead redrive`, `postrider dead edit` or `postrider dead discard`"
        }
    }
}
