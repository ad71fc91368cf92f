//! What would work, where a verb does not.

use crate::Status;

const AGAIN: &str = "it changed while the command ran: give the command again";
const QUEUED: &str = "it is queued: a relay publishes it, or parks it where it fails; `postrider status` says \
                      whether one runs and what is paused, and the relay's log which destination takes nothing";
const BEHIND: &str =
    "it goes after the event before it in its key: redrive or discard that one; `postrider show` names it";
const HELD: &str = "it goes by itself when its destination answers or what is paused is resumed; `postrider show` \
                    names a pause, and the relay's log and /health/outbox a destination that does not answer";
const AT_ITS_TIME: &str = "it leaves at its time; `postrider schedule move ID --in 0s` sends it now";
const SENT: &str = "it was sent; send a copy with `postrider replay --id`";
const THROWN_AWAY: &str = "a person threw it away; the service has to write the event again";
const TIME_HAS_FAILED: &str = "its time has come and it failed; redrive it with `postrider dead redrive ID`, or throw \
                               it away with `postrider dead discard ID --reason WHY`";
const NOT_PARKED_YET: &str = "it is queued: if its time has not come, a relay parks it when it reads it, and then the \
                              command works; see that one runs with `postrider status`";

/// What a person can do about a verb that was refused because of the state an event is in. The verbs are those of the
/// command line: `redrive`, `discard`, `edit`, `replay`, `move` and `cancel`. A state that the verb works on is there
/// as well: a row may change between being chosen and being written.
pub fn remedy(verb: &str, status: Status) -> &'static str {
    match verb {
        "discard" => discard(status),
        "edit" => edit(status),
        "replay" => replay(status),
        "move" => postpone(status),
        "cancel" => cancel(status),
        _ => redrive(status),
    }
}

fn redrive(status: Status) -> &'static str {
    match status {
        Status::Pending => QUEUED,
        Status::Retrying | Status::DeadLetter => AGAIN,
        Status::Waiting => BEHIND,
        Status::Held => HELD,
        Status::Scheduled => AT_ITS_TIME,
        Status::Published => SENT,
        Status::Discarded => THROWN_AWAY,
    }
}

fn discard(status: Status) -> &'static str {
    match status {
        Status::Pending => {
            "it is queued and goes out when its destination takes it; to stop it, pause its key with `postrider pause \
             --key`, and give the command with --yes when it is HELD; if its time has not come, a relay makes \
             it SCHEDULED, and then `postrider schedule cancel` throws it away"
        }
        Status::Retrying | Status::DeadLetter => AGAIN,
        Status::Waiting => {
            "it goes out once what is before it has gone; `postrider dead discard ID --yes --reason WHY` discards it \
             all the same"
        }
        Status::Held => {
            "it goes out when its destination answers or what is paused is resumed; `postrider dead discard ID --yes \
             --reason WHY` discards it all the same"
        }
        Status::Scheduled => {
            "it goes out by itself at its time; `postrider dead discard ID --yes --reason WHY` discards it all the same"
        }
        Status::Published => {
            "it was sent and cannot be taken back: have the service write an event that corrects it"
        }
        Status::Discarded => "a person threw it away before; `postrider show` tells who and why",
    }
}

fn edit(status: Status) -> &'static str {
    match status {
        Status::Pending => {
            "only an event that failed can be edited, and this one is queued and goes out as it is; to stop it, pause \
             its key with `postrider pause --key`, throw it away with `postrider dead discard ID --yes --reason WHY` \
             when it is HELD, and have the service write it anew"
        }
        Status::Retrying | Status::DeadLetter => AGAIN,
        Status::Waiting | Status::Held => {
            "only an event that failed can be edited; throw this one away with `postrider dead discard ID --yes \
             --reason WHY`, and have the service write it anew"
        }
        Status::Scheduled => {
            "only an event that failed can be edited; cancel it with `postrider schedule cancel`, and have the service \
             write it anew"
        }
        Status::Published => {
            "it was sent as it is, and a replay sends it like that again: have the service write an event that \
             corrects it"
        }
        Status::Discarded => THROWN_AWAY,
    }
}

fn replay(status: Status) -> &'static str {
    match status {
        Status::Retrying => {
            "it is tried again by itself; `postrider dead redrive ID` tries it at once, unless another of its key is \
             before it: `postrider show ID` names that one"
        }
        Status::DeadLetter => {
            "mend what `postrider dead show ID` tells, then send it with `postrider dead redrive ID`"
        }
        other => redrive(other),
    }
}

fn postpone(status: Status) -> &'static str {
    match status {
        Status::Pending => NOT_PARKED_YET,
        Status::Scheduled => AGAIN,
        Status::Retrying => {
            "its time has come, and it was refused: it is tried again by itself; `postrider dead redrive ID` tries it \
             at once, `postrider dead discard ID --reason WHY` throws it away"
        }
        Status::Waiting => {
            "its time has come, and it waits for the event before it in its key: redrive or discard that one; \
             `postrider show` names it"
        }
        Status::Held => {
            "its time has come, and a pause or a destination that does not answer holds it: `postrider show` names a \
             pause, the log of the relay such a destination; `postrider dead discard ID --yes --reason WHY` throws it \
             away"
        }
        Status::DeadLetter => TIME_HAS_FAILED,
        Status::Published => SENT,
        Status::Discarded => THROWN_AWAY,
    }
}

fn cancel(status: Status) -> &'static str {
    match status {
        Status::Retrying => {
            "its time has come, and it was refused: it is tried again by itself; `postrider dead discard ID --reason \
             WHY` throws it away"
        }
        Status::Waiting => {
            "its time has come, and it waits for the event before it in its key; `postrider dead discard ID --yes \
             --reason WHY` throws it away all the same"
        }
        Status::Held => {
            "its time has come, and a pause or a destination that does not answer holds it; `postrider dead discard ID \
             --yes --reason WHY` throws it away all the same"
        }
        Status::Pending | Status::Scheduled | Status::DeadLetter => postpone(status),
        Status::Published | Status::Discarded => discard(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Status; 8] = [
        Status::Pending,
        Status::Retrying,
        Status::Waiting,
        Status::Held,
        Status::Scheduled,
        Status::DeadLetter,
        Status::Published,
        Status::Discarded,
    ];

    /// A command, or who can do something about it where none can.
    #[test]
    fn every_refusal_says_what_would_work() {
        for verb in ["redrive", "discard", "edit", "replay", "move", "cancel"] {
            for status in ALL {
                let text = remedy(verb, status);
                let works = ["`postrider ", "give the command again", "the service"];
                assert!(
                    works.iter().any(|part| text.contains(part)),
                    "{verb} {status:?}: {text}"
                );
                // As it stands the command runs.
                let mut commands = text
                    .split('`')
                    .filter(|part| part.starts_with("postrider dead discard"));
                assert!(
                    commands.all(|command| command.contains(" ID ") && command.ends_with("--reason WHY")),
                    "{verb} {status:?}: {text}"
                );
            }
        }
    }

    #[test]
    fn whoever_throws_away_is_not_told_how_to_send() {
        for verb in ["discard", "cancel"] {
            for status in ALL {
                let text = remedy(verb, status);
                let sends = ["replay", "--in 0s", "needs a person"];
                assert!(
                    !sends.iter().any(|part| text.contains(part)),
                    "{verb} {status:?}: {text}"
                );
            }
        }
        for verb in ["redrive", "discard", "edit"] {
            for status in [Status::Retrying, Status::DeadLetter] {
                assert_eq!(
                    remedy(verb, status),
                    AGAIN,
                    "{verb}: it suits, so it was another one when it was chosen"
                );
            }
        }
    }
}
