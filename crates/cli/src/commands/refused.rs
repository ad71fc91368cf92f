//! An event that a verb was refused for: which state it is in, and what would work there.

use postrider_core::{EventRecord, Scope, Status, remedy};
use serde_json::{Value, json};

use super::control;
use crate::failure::Failure;
use crate::output::cell;
use crate::wire::Opened;

/// Nothing is left that could be sent again.
pub const ONLY_COPIES: &str = "its history was removed, and only copies of replays are left of it: `postrider archive \
                               restore` reads an archive back";
/// A delivery of an event that was edited for others. To throw away the event would throw away those, too.
pub const NOT_EDITED: &str = "it has not failed there, and goes there as it was; it can be edited once it has failed, \
                              and `postrider show` says for which destination it is";
const GOES_WITH_RESUME: &str =
    "it stays where it is while the outbox is paused: `postrider resume` lets it go on";
const NO_DISCARD_YET: &str = "it is queued in an outbox that is paused, where no relay holds it for you: pause its key \
                              with `postrider pause --key`, then `postrider resume` the outbox, and give the command \
                              with --yes when it is HELD; one whose time has not come is SCHEDULED then, and \
                              `postrider schedule cancel` throws it away";
const NO_EDIT_YET: &str = "only an event that failed can be edited, and this one goes out as it is once the outbox is \
                           resumed; to stop it, pause its key with `postrider pause --key`, then `postrider resume` \
                           the outbox, throw it away with `postrider dead discard ID --yes --reason WHY` when it is \
                           HELD, and have the service write it anew";
const NOT_PARKED: &str = "it is queued in an outbox that is paused, where no relay parks it: pause its key with \
                          `postrider pause --key`, then `postrider resume` the outbox; soon it is SCHEDULED, and then \
                          the command works, or its time has come and it is HELD: `postrider dead discard ID --yes \
                          --reason WHY` throws it away";

// An event whose time has come counts as held until a relay has come to it, and there may be none.
const NOT_MOVED: &str = "its time has come, and a pause or a destination that does not answer holds it, or no relay \
                         runs, or none has come to it yet: `postrider show` names a pause, `postrider status` says \
                         whether a relay runs, and its log which destination does not answer; `postrider dead discard \
                         ID --yes --reason WHY` throws it away";
const NOT_CANCELLED: &str = "its time has come, and a pause or a destination that does not answer holds it, or no \
                             relay runs, or none has come to it yet; `postrider dead discard ID --yes --reason WHY` \
                             throws it away all the same";

const NOBODY_HOLDS: &str = "it is queued, and no relay is running that would hold it for you: pause its key with \
                            `postrider pause --key`, start one with `postrider run`, and give the command with --yes \
                            when it is HELD; one whose time has not come is SCHEDULED then, and `postrider schedule \
                            cancel ID --reason WHY` throws it away";
const NOBODY_SENDS: &str =
    "it is queued, and no relay is running: `postrider run` starts one, which publishes it";
const NOBODY_PARKS: &str = "it is queued, and no relay is running that would park it: pause its key with `postrider \
                            pause --key`, and start one with `postrider run`; soon it is SCHEDULED, and then the \
                            command works, or its time has come and it is HELD: `postrider dead discard ID --yes \
                            --reason WHY` throws it away";
const NO_EDIT_ALONE: &str = "only an event that failed can be edited, and this one goes out as it is when a relay \
                             runs; to stop it, pause its key with `postrider pause --key`, start a relay with \
                             `postrider run`, throw it away with `postrider dead discard ID --yes --reason WHY` when \
                             it is HELD, and have the service write it anew";

/// How an outbox is: what works in it depends on that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Around {
    /// A person has paused the whole of it: no relay parks or holds anything there.
    pub is_paused: bool,
    /// No relay is running.
    pub is_alone: bool,
}

impl Around {
    pub async fn of(opened: &Opened) -> Result<Self, Failure> {
        let mut controls = control::in_force(opened).await?.into_iter();
        let stats = opened.console.stats().await;
        let stats = stats.map_err(|error| Failure::store(&opened.name, &error))?;
        Ok(Self {
            is_paused: controls.any(|one| one.paused && one.scope == Scope::Outbox),
            is_alone: stats.relays.is_empty(),
        })
    }
}

/// An event, its state, and what would work.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    pub id: String,
    /// None: there is no such event, or only copies of it.
    pub status: Option<Status>,
    /// Other deliveries of it were not refused.
    pub is_rest: bool,
    pub remedy: &'static str,
}

impl Refused {
    pub fn value(&self) -> Value {
        json!({
            "event_id": self.id,
            "status": self.status.map(Status::as_str),
            "is_rest": self.is_rest,
            "remedy": self.remedy,
        })
    }

    pub fn text(&self) -> String {
        let (id, remedy) = (cell(&self.id), &self.remedy);
        match self.status {
            Some(status) if self.is_rest => {
                format!("not all of {id}: the rest is {}: {remedy}", status.as_str())
            }
            Some(status) => format!("not {id}: it is {}: {remedy}", status.as_str()),
            None => format!("not {id}: {remedy}"),
        }
    }
}

/// What would work for an event in a state, in an outbox that is like that.
pub fn what_works(verb: &str, status: Status, around: Around) -> &'static str {
    match (around.is_paused, verb, status) {
        (true, "discard", Status::Pending) => NO_DISCARD_YET,
        (true, "move" | "cancel", Status::Pending) => NOT_PARKED,
        (true, "edit", Status::Pending) => NO_EDIT_YET,
        (true, "redrive" | "replay", Status::Pending) => GOES_WITH_RESUME,
        (true, "redrive" | "replay", Status::Held) => GOES_WITH_RESUME,
        (false, "discard", Status::Pending) if around.is_alone => NOBODY_HOLDS,
        (false, "move" | "cancel", Status::Pending) if around.is_alone => NOBODY_PARKS,
        (false, "edit", Status::Pending) if around.is_alone => NO_EDIT_ALONE,
        (false, "redrive" | "replay", Status::Pending) if around.is_alone => NOBODY_SENDS,
        (false, "move", Status::Held) => NOT_MOVED,
        (false, "cancel", Status::Held) => NOT_CANCELLED,
        _ => remedy(verb, status),
    }
}

/// The states of an event, the worst first, and whether only copies are left of it. What became of a copy says nothing
/// about the event.
pub fn states(records: &[EventRecord]) -> (Vec<Status>, bool) {
    let only_copies = records.iter().all(|record| record.replay.is_some());
    let meant = records
        .iter()
        .filter(|record| only_copies || record.replay.is_none());
    let mut states: Vec<Status> = meant
        .flat_map(|record| &record.routes)
        .map(|route| route.status)
        .collect();
    states.sort_unstable_by_key(|status| status.severity());
    states.dedup();
    (states, only_copies && !records.is_empty())
}
